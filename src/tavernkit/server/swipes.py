"""The replies that a message has beside the one it shows."""

from __future__ import annotations

from tavernkit.values import Json, JsonObject, is_list

RISU_SWIPES, RISU_SWIPE = "tavernkit_swipes", "tavernkit_swipe"
"""Where the replies to a message of RisuAI's are kept in it, and which is shown: RisuAI itself keeps none."""


def swipes_of(native: JsonObject) -> tuple[list[str], int] | None:
    """All replies and the number of the one that is shown; nothing if there is but one."""
    return _read(native, "swipes", "swipe_id") or risu_swipes(native)


def risu_swipes(native: JsonObject) -> tuple[list[str], int] | None:
    """The same for RisuAI's messages."""
    return _read(native, RISU_SWIPES, RISU_SWIPE)


def with_swipe(native: JsonObject, number: int) -> JsonObject:
    """The message with another reply shown; its text is the caller's business."""
    return {**native, (RISU_SWIPE if RISU_SWIPES in native else "swipe_id"): number}


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
