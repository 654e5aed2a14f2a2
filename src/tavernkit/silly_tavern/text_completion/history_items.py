"""Messages as they are written into a text prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tavernkit.silly_tavern.instruct.formatting import ANY, FIRST, LAST, InstructFormatter, Line
from tavernkit.silly_tavern.text_completion.messages import TextMessage
from tavernkit.silly_tavern.text_completion.segments import Segment


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
        text = f"{message.name}: {message.text}\n" if named else f"{message.text}\n"
        # The cut is after the last place where the text is found: an empty one is found at the very end.
        return text[: text.rindex(message.text) + len(message.text)] if unfinished else text


class HistoryItem:
    """One message of the history, written when its text is first needed: most of a long chat never is."""

    __slots__ = ("_place", "_segments", "_unfinished", "_writer", "message")

    def __init__(
        self, message: TextMessage | None, writer: HistoryWriter, place: int = ANY, *, unfinished: bool = False
    ) -> None:
        self.message = message
        self._writer = writer
        self._place = place
        self._unfinished = unfinished
        self._segments: list[Segment] | None = None

    @property
    def is_user(self) -> bool:
        """Whether it counts as the user's."""
        return self.message is not None and self.message.is_user

    @property
    def segments(self) -> list[Segment]:
        """What it is made of; the reply line is added to the newest one."""
        if self._segments is None:
            self._segments = []
            if self.message is not None:
                text = self._writer.write(self.message, self._place, unfinished=self._unfinished)
                self._segments.append(Segment(text, self.message.origin))
        return self._segments

    @property
    def text(self) -> str:
        """Its text."""
        return "".join(segment.text for segment in self.segments)


def history_items(
    newest_first: Sequence[TextMessage], writer: HistoryWriter, *, generation_type: str
) -> list[HistoryItem]:
    """The items of a chat, newest first; an empty chat has one without text."""
    if not newest_first:
        return [HistoryItem(None, writer)]
    continuing = generation_type == "continue"
    newest_user = -1
    if generation_type != "impersonate":
        newest_user = next((index for index, message in enumerate(newest_first) if message.is_user), -1)
    items: list[HistoryItem] = []
    for index, message in enumerate(newest_first):
        unfinished = continuing and index == 0
        place = FIRST if index == len(newest_first) - 1 else ANY
        if index == newest_user or unfinished:
            place = LAST
        items.append(HistoryItem(message, writer, place, unfinished=unfinished))
    return items
