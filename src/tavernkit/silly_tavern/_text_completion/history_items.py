"""Messages in the format of a text prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import join
from tavernkit.silly_tavern._chat.core_chat import CoreMessage
from tavernkit.silly_tavern._chat_completion.history_messages import HistoryMemory
from tavernkit.silly_tavern._instruct.formatting import ANY, FIRST, LAST, InstructFormatter, Line
from tavernkit.silly_tavern._limits import LONG_TEXT_CHARACTERS
from tavernkit.silly_tavern._text_completion.messages import ChatEntry, TextMessage, chat_message
from tavernkit.silly_tavern._text_completion.segments import Segment


@dataclass(frozen=True, slots=True)
class HistoryWriter:
    """Writes messages with instruct sequences, or (without ``formatter``) as lines with names."""

    formatter: InstructFormatter | None
    character_name: str
    memory: HistoryMemory[Segment] | None = None
    """Lines of earlier turns, written by the same rules, if these contain no macros."""

    def line(self, message: CoreMessage) -> Segment:
        """Return a stored message between the first and the last one, as written for the last turn if possible."""
        memory, line, text = self.memory, message.line, message.text
        if memory is None or type(text) is not str:
            return self._segment(message)
        key = (message.index, line.name, line.is_user, line.narrator, bool(line.force_avatar), text)
        known = memory.get(key)
        if known is None:
            known = self._segment(message)
            if len(text) <= LONG_TEXT_CHARACTERS:
                memory.put(key, known)
        return known

    def _segment(self, message: CoreMessage) -> Segment:
        made = chat_message(message)
        return Segment(self.write(made, constant=self.memory is not None), made.origin)

    def write(self, message: TextMessage, place: int = ANY, *, unfinished: bool = False, constant: bool = False) -> str:
        """Write a message; an ``unfinished`` one ends with its text, ``constant`` sequences contain no macros."""
        if self.formatter is None:
            return self._line(message, unfinished=unfinished)
        name = message.name if message.is_user else message.name or self.character_name
        line = Line(name, message.text, message.is_user, message.narrator, message.forced_avatar)
        written = self.formatter.message(line, place, constant=constant)
        return written.unfinished if unfinished else written.text

    def _line(self, message: TextMessage, *, unfinished: bool) -> str:
        named = message.name and not message.narrator
        text = join("", (message.name, ": ", message.text, "\n") if named else (message.text, "\n"))
        # Cut after the last occurrence of the text: an empty text occurs at the very end.
        return text[: text.rindex(message.text) + len(message.text)] if unfinished else text


class HistoryItem:
    """One message of the history, written on demand: most messages of a long chat are never needed."""

    __slots__ = ("_place", "_segments", "_unfinished", "_writer", "entry")

    def __init__(
        self, entry: ChatEntry | None, writer: HistoryWriter, place: int = ANY, *, unfinished: bool = False
    ) -> None:
        self.entry = entry
        self._writer = writer
        self._place = place
        self._unfinished = unfinished
        self._segments: list[Segment] | None = None

    def beside(self, entry: ChatEntry) -> HistoryItem:
        """Return an item for another message, written the same way."""
        return HistoryItem(entry, self._writer)

    @property
    def is_user(self) -> bool:
        """True if it counts as the user's."""
        return self.entry is not None and _is_user(self.entry)

    @property
    def message(self) -> TextMessage | None:
        """Its message; the only item of an empty chat has none."""
        return chat_message(self.entry) if isinstance(self.entry, CoreMessage) else self.entry

    @property
    def segments(self) -> list[Segment]:
        """Its segments; the reply line is added to the newest item."""
        if self._segments is None:
            self._segments = []
            message = self.entry
            if isinstance(message, CoreMessage):
                if self._place == ANY and not self._unfinished:
                    self._segments.append(self._writer.line(message))
                    return self._segments
                message = chat_message(message)
            if message is not None:
                text = self._writer.write(message, self._place, unfinished=self._unfinished)
                self._segments.append(Segment(text, message.origin))
        return self._segments

    @property
    def text(self) -> str:
        """Its text."""
        segments = self.segments
        return segments[0].text if len(segments) == 1 else join("", [segment.text for segment in segments])


class HistoryItems(Sequence[HistoryItem]):
    """The items of a chat, newest first. Each is made when it is asked for: most of a long chat never is.

    Args:
        entries: The messages.
        writer: Writes them.
        places: The places in the chat of those that are written in another way there.
        unfinished: The newest one ends with its text.
    """

    __slots__ = ("_places", "_unfinished", "_writer", "entries", "made")

    def __init__(
        self,
        entries: Sequence[ChatEntry | None],
        writer: HistoryWriter,
        places: Mapping[int, int],
        *,
        unfinished: bool,
    ) -> None:
        self.entries = entries
        self.made: dict[int, HistoryItem] = {}
        self._writer = writer
        self._places = places
        self._unfinished = unfinished

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> HistoryItem: ...
    @overload
    def __getitem__(self, index: slice) -> list[HistoryItem]: ...
    def __getitem__(self, index: int | slice) -> HistoryItem | list[HistoryItem]:
        """Return the item, or items, at a place of the chat."""
        if isinstance(index, slice):
            return [self._item(place) for place in range(len(self.entries))[index]]
        return self._item(index if index >= 0 else index + len(self.entries))

    def _item(self, place: int) -> HistoryItem:
        item = self.made.get(place)
        if item is None:
            where, unfinished = self._places.get(place, ANY), self._unfinished and place == 0
            item = self.made[place] = HistoryItem(self.entries[place], self._writer, where, unfinished=unfinished)
        return item


def history_items(newest_first: Sequence[ChatEntry], writer: HistoryWriter, *, generation_type: str) -> HistoryItems:
    """The items of a chat, newest first; an empty chat has one without text."""
    if not newest_first:
        return HistoryItems((None,), writer, {}, unfinished=False)
    continuing = generation_type == "continue"
    newest_user = -1
    if generation_type != "impersonate":
        newest_user = next((index for index, entry in enumerate(newest_first) if _is_user(entry)), -1)
    places = {len(newest_first) - 1: FIRST, newest_user: LAST}
    if continuing:
        places[0] = LAST
    return HistoryItems(newest_first, writer, places, unfinished=continuing)


def entries_of(items: Sequence[HistoryItem]) -> Sequence[ChatEntry | None]:
    """Return the messages of items, without making them."""
    return items.entries if isinstance(items, HistoryItems) else [item.entry for item in items]


def _is_user(entry: ChatEntry) -> bool:
    return entry.line.is_user if isinstance(entry, CoreMessage) else entry.is_user
