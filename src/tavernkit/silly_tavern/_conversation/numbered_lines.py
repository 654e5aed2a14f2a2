"""An application's messages as lines of a chat, and back; of long chats, only the last ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tavernkit._values import Json, JsonObject, is_list, is_object, thaw_object
from tavernkit.silly_tavern._chat.chat_log import ChatLog
from tavernkit.silly_tavern._chat.chat_message import ChatMessage

_NUMBER = "tavernkit_line"
"""Where a line has its number during a turn."""
_ROLE = "role"
"""A key that only neutral messages have: tool calls and their results, and what a client brings along."""
TIMED = "timedWorldInfo"
"""The key of a chat's timed effects: which lore is sticky or on cooldown, and for which messages."""
CACHED = "tavernkit_cache"
"""The key of the state of prompt-cache builds (``plan.metadata_changes``)."""


class NumberedLines:
    """Stored messages as lines of a chat, and the way back once a turn has changed them.

    Neutral messages about tools become lines as SillyTavern has them.
    """

    def __init__(self, natives: Sequence[JsonObject], messages: Sequence[ChatMessage] | None = None) -> None:
        """Make lines.

        Args:
            natives: The stored messages, in SillyTavern's format or neutral.
            messages: The messages made from them before, if none is neutral.
        """
        self.copies: list[JsonObject] = []
        """The lines as they are stored, if they are none but messages."""
        self.messages = messages or ()
        """What is made of these."""
        if messages is not None:
            self._places = [[place] for place in range(len(natives))]
            self.copies = [{**native, _NUMBER: number} for number, native in enumerate(natives)]
            self.lines = [thaw_object(line) for line in self.copies]
            return
        self._places: list[list[int]] = []
        log, numbers = ChatLog(), list[int]()
        unchanged: dict[int, tuple[ChatMessage, JsonObject]] = {}
        for place, native in enumerate(natives):
            before = len(log.lines)
            message = dict(native) if _ROLE in native else ChatMessage.from_json(native)
            log.append(message)
            if isinstance(message, ChatMessage):
                unchanged[id(message)] = message, native
            if len(log.lines) == before:  # the result of a call: the line of the call has it now
                self._places[-1].append(place)
                continue
            numbers += [len(self._places)] * (len(log.lines) - before)
            self._places.append([place])
        self.lines: list[JsonObject] = [
            {**(unchanged[id(message)][1] if id(message) in unchanged else message.to_json()), _NUMBER: number}
            for message, number in zip(log.lines, numbers, strict=True)
        ]
        """The lines of the chat."""

    def after(self, lines: Sequence[JsonObject]) -> Iterator[tuple[Sequence[int], JsonObject]]:
        """Yield the lines after a turn, each with the places of the messages that it came from; a new one has none."""
        last: object = None
        for line in lines:
            number = line.pop(_NUMBER, None)
            if not isinstance(number, int):
                yield (), line
            elif number != last:
                yield self._places[number], line
            last = number if isinstance(number, int) else last


def moved(details: JsonObject, by: int) -> JsonObject:
    """Return the details of a chat with shifted message numbers, for builds of its last messages and back."""
    timed, cached = details.get(TIMED), details.get(CACHED)
    if not by:
        return details
    found = dict(details)
    if is_object(timed):
        found[TIMED] = {kind: _each(effects, by) if is_object(effects) else effects for kind, effects in timed.items()}
    if is_object(cached):
        found[CACHED] = _moved_cache(cached, by)
    return found


def _each(effects: JsonObject, by: int) -> JsonObject:
    return {key: _one(effect, by, "start", "end") if is_object(effect) else effect for key, effect in effects.items()}


def _moved_cache(cached: JsonObject, by: int) -> JsonObject:
    """Shift the cut of the history and the positions of frozen lore; those before the first message are dropped."""
    lore, cut = cached.get("lore"), cached.get("cut")
    found = dict(cached)
    if isinstance(cut, int):
        found["cut"] = max(cut + by, 0)
    if is_list(lore):
        placed = [_one(line, by, "after") for line in lore if is_object(line)]
        found["lore"] = [line for line in placed if not isinstance(after := line.get("after"), int) or after >= 0]
    return found


def _one(effect: JsonObject, by: int, *names: str) -> JsonObject:
    numbers: dict[str, Json] = {
        name: value + by for name in names if isinstance(value := effect.get(name), (int, float))
    }
    return {**effect, **numbers}
