"""The swipes of a message."""

from __future__ import annotations

from tavernkit._values import Json, JsonObject, is_list

RISU_SWIPES, RISU_SWIPE = "tavernkit_swipes", "tavernkit_swipe"
"""The key of the swipes in a RisuAI message, and of the current one: RisuAI itself stores none."""
RISU_SPEAKER = "tavernkit_speaker"
"""Where the name of a message's sender is kept in it: RisuAI keeps an id."""


def swipes_of(native: JsonObject) -> tuple[list[str], int] | None:
    """Return all swipes and the number of the current one; None if there is only one."""
    return _read(native, "swipes", "swipe_id") or risu_swipes(native)


def risu_swipes(native: JsonObject) -> tuple[list[str], int] | None:
    """Return all swipes of a RisuAI message and the number of the current one; None if there is only one."""
    return _read(native, RISU_SWIPES, RISU_SWIPE)


def with_swipe(native: JsonObject, number: int) -> JsonObject:
    """Return the message with another current swipe; the caller sets its text."""
    return {**native, (RISU_SWIPE if RISU_SWIPES in native else "swipe_id"): number}


def without_swipe(native: JsonObject, number: int) -> JsonObject:
    """The message without one of its replies; if that was shown, the next one is. The caller sets its text.

    Args:
        native: The message, which has several replies.
        number: The number of the reply.
    """
    swipes, shown = swipes_of(native) or ([], 0)
    listed: list[Json] = [*swipes[:number], *swipes[number + 1 :]]
    keys = (RISU_SWIPES, RISU_SWIPE) if RISU_SWIPES in native else ("swipes", "swipe_id")
    info = native.get("swipe_info")
    fewer: JsonObject = {"swipe_info": [*info[:number], *info[number + 1 :]]} if is_list(info) else {}
    return {**native, keys[0]: listed, keys[1]: min(shown - (number < shown), len(listed) - 1), **fewer}


def with_first_swipe(native: JsonObject, text: str) -> JsonObject:
    """Return a RisuAI message with its swipes; without any, its text is the first.

    Args:
        native: The message.
        text: Its current text.
    """
    return native if RISU_SWIPES in native else {**native, RISU_SWIPES: [text], RISU_SWIPE: 0}


def with_new_swipe(native: JsonObject, shown: str, text: str) -> JsonObject:
    """Return the message with a new current swipe; the caller sets its text.

    Args:
        native: The message.
        shown: Its current text, which is the first swipe if it has none yet.
        text: The new reply.
    """
    swipes, _ = swipes_of(native) or ([shown], 0)
    listed: list[Json] = [*swipes, text]
    keys = ("swipes", "swipe_id") if "mes" in native else (RISU_SWIPES, RISU_SWIPE)
    info = native.get("swipe_info")
    more: JsonObject = {"swipe_info": [*info, {}]} if is_list(info) else {}
    return {**native, keys[0]: listed, keys[1]: len(swipes), **more}


def with_text(native: JsonObject, text: str) -> JsonObject:
    """Return the message with another text of its current swipe."""
    found = swipes_of(native)
    if found is None:
        return native
    swipes, shown = found
    listed: list[Json] = [*swipes[:shown], text, *swipes[shown + 1 :]]
    return {**native, (RISU_SWIPES if RISU_SWIPES in native else "swipes"): listed}


def _read(native: JsonObject, swipes_key: str, shown_key: str) -> tuple[list[str], int] | None:
    swipes, shown = native.get(swipes_key), native.get(shown_key)
    if not is_list(swipes) or not swipes:
        return None
    last = len(swipes) - 1
    return [str(each) for each in swipes], shown if isinstance(shown, int) and 0 <= shown <= last else last
