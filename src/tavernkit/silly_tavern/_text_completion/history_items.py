"""Messages in the format of a text prompt."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import join
from tavernkit.silly_tavern._chat.core_chat import CoreMessage
from tavernkit.silly_tavern._instruct.formatting import ANY, FIRST, LAST, InstructFormatter, Line
from tavernkit.silly_tavern._text_completion.messages import ChatEntry, TextMessage, chat_message
from tavernkit.silly_tavern._text_completion.segments import Segment


@dataclass(frozen=True, slots=True)
class HistoryWriter:
    """Writes messages with instruct sequences, or (without ``formatter``) as lines with names."""

    formatter: InstructFormatter | None
    character_name: str

    def write(self, message: TextMessage, place: int = ANY, *, unfinished: bool = False) -> str:
        """Write a message; an ``unfinished`` one ends with its text."""
        if self.formatter is None:
            return self._line(message, unfinished=unfinished)
        name = message.name if message.is_user else message.name or self.character_name
        line = Line(name, message.text, message.is_user, message.narrator, message.forced_avatar)
        written = self.formatter.message(line, place)
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
            message = self.message
            if message is not None:
                text = self._writer.write(message, self._place, unfinished=self._unfinished)
                self._segments.append(Segment(text, message.origin))
        return self._segments

    @property
    def text(self) -> str:
        """Its text."""
        segments = self.segments
        return segments[0].text if len(segments) == 1 else join("", [segment.text for segment in segments])


def history_items(
    newest_first: Sequence[ChatEntry], writer: HistoryWriter, *, generation_type: str
) -> list[HistoryItem]:
    """Return the items of a chat, newest first; an empty chat has one without text."""
    if not newest_first:
        return [HistoryItem(None, writer)]
    continuing = generation_type == "continue"
    newest_user = -1
    if generation_type != "impersonate":
        newest_user = next((index for index, entry in enumerate(newest_first) if _is_user(entry)), -1)
    places = {len(newest_first) - 1: FIRST, newest_user: LAST}
    if continuing:
        places[0] = LAST
    items = [HistoryItem(entry, writer) for entry in newest_first]
    for index, place in places.items():
        if index >= 0:
            items[index] = HistoryItem(newest_first[index], writer, place, unfinished=continuing and index == 0)
    return items


def _is_user(entry: ChatEntry) -> bool:
    return entry.line.is_user if isinstance(entry, CoreMessage) else entry.is_user
