"""The texts of a scan, and which of them an entry sees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tavernkit.silly_tavern.world_info.entry import SOURCE_FIELDS, Entry
from tavernkit.silly_tavern.world_info.key_table import SEPARATOR
from tavernkit.silly_tavern.world_info.limits import MAX_SCAN_DEPTH
from tavernkit.silly_tavern.world_info.scan_input import ScanInput
from tavernkit.text.js_values import trim

_JOINT = "\n" + SEPARATOR


class Origin(StrEnum):
    """Where a text of a haystack comes from."""

    MESSAGE = "message"
    SOURCE = "source"
    INJECT = "inject"
    RECURSION = "recursion"


_SOURCE_NAMES = (
    "persona description",
    "character description",
    "character personality",
    "character depth prompt",
    "scenario",
    "creator notes",
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One text. ``index`` counts within its origin: 0 is the newest message, the first source, inject or chunk."""

    origin: Origin
    index: int
    text: str

    def __str__(self) -> str:
        if self.origin is Origin.MESSAGE:
            return "the last message" if self.index == 0 else f"message {self.index + 1} from the end"
        if self.origin is Origin.SOURCE:
            return f"the {_SOURCE_NAMES[self.index]}"
        if self.origin is Origin.INJECT:
            return f"injected prompt {self.index + 1}"
        return f"lore activated in pass {self.index + 1}"


@dataclass(frozen=True, slots=True)
class View:
    """What an entry sees in a pass: how many messages, which sources (a bit each), and whether activated lore."""

    messages: int
    sources: int
    recursion: bool

    def sees(self, piece: Piece) -> bool:
        """Return True if a piece is part of the haystack."""
        if piece.origin is Origin.MESSAGE:
            return piece.index < self.messages
        if piece.origin is Origin.SOURCE:
            return bool(self.sources >> piece.index & 1)
        return self.recursion or piece.origin is not Origin.RECURSION


class Haystack:
    """The texts of one scan. Messages join as the scan reaches back, activated lore as it recurses."""

    __slots__ = ("_messages", "_sources", "injects", "messages", "recursion", "sources")

    def __init__(self, scan_input: ScanInput) -> None:
        self._messages: Sequence[str] = scan_input.messages
        texts = scan_input.scan_data.texts
        self.messages: list[Piece] = []
        self.sources = [Piece(Origin.SOURCE, bit, texts[bit]) for bit in range(len(SOURCE_FIELDS)) if texts[bit]]
        self.injects = [Piece(Origin.INJECT, index, text) for index, text in enumerate(scan_input.injects)]
        self.recursion: list[Piece] = []
        self._sources = sum(1 << piece.index for piece in self.sources)

    def reach(self, depth: float) -> list[Piece]:
        """Take in the messages down to a depth; gives the new ones."""
        end = min(_whole(depth), len(self._messages), MAX_SCAN_DEPTH)
        new = [Piece(Origin.MESSAGE, index, trim(self._messages[index])) for index in range(len(self.messages), end)]
        self.messages += new
        return new

    def recurse(self, text: str, number: int) -> Piece:
        """Take in the lore that was activated in a pass."""
        piece = Piece(Origin.RECURSION, number - 1, text)
        self.recursion.append(piece)
        return piece

    def view(self, entry: Entry, depth: float, *, recursion: bool) -> View | None:
        """Give what an entry sees when the global depth is ``depth``; nothing at all if it looks at no message."""
        own = entry.scan_depth
        depth = depth if own is None else own
        if depth <= 0:
            return None
        messages = min(_whole(depth), MAX_SCAN_DEPTH)
        return View(messages, entry.sources & self._sources, recursion and bool(self.recursion))

    def pieces(self, view: View) -> list[Piece]:
        """The pieces of a view in their order."""
        pieces = self.messages[: view.messages]
        pieces += (piece for piece in self.sources if view.sees(piece))
        pieces += self.injects
        if view.recursion:
            pieces += self.recursion
        return pieces

    def text(self, view: View) -> str:
        """The text that keys are matched against."""
        # Without any message there is still an empty place for them.
        pieces = self.pieces(view)
        head = [] if self.messages[: view.messages] else [""]
        return SEPARATOR + _JOINT.join([*head, *(piece.text for piece in pieces)])

    def locate(self, view: View, offset: int) -> tuple[Piece | None, int]:
        """Find the piece at an offset of a view's text, and the offset in it."""
        start = len(SEPARATOR) if self.messages[: view.messages] else len(SEPARATOR + _JOINT)
        for piece in self.pieces(view):
            end = start + len(piece.text)
            if offset <= end:
                return piece, max(offset - start, 0)
            start = end + len(_JOINT)
        return None, offset


def _whole(depth: float) -> int:
    if math.isnan(depth):
        return 0
    return int(min(depth, MAX_SCAN_DEPTH))
