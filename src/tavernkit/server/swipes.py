"""The replies that a message has beside the one it shows."""

from __future__ import annotations

from tavernkit._values import Json, JsonObject, is_list

RISU_SWIPES, RISU_SWIPE = "tavernkit_swipes", "tavernkit_swipe"
"""Where the replies to a message of RisuAI's are kept in it, and which is shown: RisuAI itself keeps none."""
RISU_SPEAKER = "tavernkit_speaker"
"""Where the name of a message's sender is kept in it: RisuAI keeps an id."""


def swipes_of(native: JsonObject) -> tuple[list[str], int] | None:
    """All replies and the number of the one that is shown; nothing if there is but one."""
    return _read(native, "swipes", "swipe_id") or risu_swipes(native)


def risu_swipes(native: JsonObject) -> tuple[list[str], int] | None:
    """The same for RisuAI's messages."""
    return _read(native, RISU_SWIPES, RISU_SWIPE)


def with_swipe(native: JsonObject, number: int) -> JsonObject:
    """The message with another reply shown; its text is the caller's business."""
    return {**native, (RISU_SWIPE if RISU_SWIPES in native else "swipe_id"): number}


def without_swipe(native: JsonObject, number: int) -> JsonObject:
    """The message with a reply less; if it was shown, the one behind it is. Its text is the caller's business.

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


def with_new_swipe(native: JsonObject, shown: str, text: str) -> JsonObject:
    """The message with one reply more, which is shown; its text is the caller's business.

    Args:
        native: The message.
        shown: The text that it has now, which is the only reply if it has no swipes yet.
        text: The new reply.
    """
    swipes, _ = swipes_of(native) or ([shown], 0)
    listed: list[Json] = [*swipes, text]
    keys = ("swipes", "swipe_id") if "mes" in native else (RISU_SWIPES, RISU_SWIPE)
    info = native.get("swipe_info")
    more: JsonObject = {"swipe_info": [*info, {}]} if is_list(info) else {}
    return {**native, keys[0]: listed, keys[1]: len(swipes), **more}


def with_text(native: JsonObject, text: str) -> JsonObject:
    """The message whose shown reply has another text."""
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
