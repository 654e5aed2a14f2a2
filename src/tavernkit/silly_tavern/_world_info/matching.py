"""The texts that an entry sees, and matching its keys against them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_regex.limits import RegexTime
from tavernkit._text.js_values import trim
from tavernkit._values import LRUCache
from tavernkit.errors import Warn
from tavernkit.silly_tavern._world_info.book_table import SEPARATOR
from tavernkit.silly_tavern._world_info.entry import SOURCE_FIELDS, Entry, find_plain, fold, parse_regex_key
from tavernkit.silly_tavern._world_info.key_table import (
    FixedKey,
    Key,
    KeyTable,
    LiteralKey,
    MacroKey,
    PlainKey,
    RegexKey,
    expanded_key,
)
from tavernkit.silly_tavern._world_info.limits import (
    JOINED_TEXTS,
    MAX_REGEX_TIMEOUTS,
    MAX_SCAN_DEPTH,
    MAX_SEARCHED_CHARS,
)
from tavernkit.silly_tavern._world_info.scan_input import ExpandMacros, ScanInput

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
    """What an entry sees in a pass: how many messages, which sources (one bit each), and whether activated lore."""

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
    """The texts of one scan. Messages are added as the scan reaches back, activated lore as it recurses."""

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
        """Add the messages down to a depth; return the new ones."""
        end = min(_whole(depth), len(self._messages), MAX_SCAN_DEPTH)
        new = [Piece(Origin.MESSAGE, index, trim(self._messages[index])) for index in range(len(self.messages), end)]
        self.messages += new
        return new

    def recurse(self, text: str, number: int) -> Piece:
        """Add the lore that was activated in a pass."""
        piece = Piece(Origin.RECURSION, number - 1, text)
        self.recursion.append(piece)
        return piece

    def view(self, entry: Entry, depth: float, *, recursion: bool) -> View | None:
        """Return what an entry sees at the global depth ``depth``.

        None if it scans no messages: then SillyTavern leaves out its other texts too.
        """
        own = entry.scan_depth
        depth = depth if own is None else own
        if depth <= 0:
            return None
        messages = min(_whole(depth), MAX_SCAN_DEPTH)
        return View(messages, entry.sources & self._sources, recursion and bool(self.recursion))

    def pieces(self, view: View) -> list[Piece]:
        """Return the pieces of a view in order."""
        pieces = self.messages[: view.messages]
        pieces += (piece for piece in self.sources if view.sees(piece))
        pieces += self.injects
        if view.recursion:
            pieces += self.recursion
        return pieces

    def text(self, view: View) -> str:
        """Return the text that keys are matched against."""
        # Without messages there is still an empty part for them.
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


AND_ANY, NOT_ALL, NOT_ANY, AND_ALL = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class KeyMatch:
    """A found key: as written, and where. A blank key has no place."""

    key: str
    piece: Piece | None = None
    offset: int = 0


class Matcher:
    """Matches keys for one scan. The automaton searches each text once for all entries.

    ``take_touched`` returns the entries with a plain key in a text: only these, and those with loose keys, can be
    activated by keys.
    """

    __slots__ = (
        "_expand",
        "_found",
        "_gave_up",
        "_haystack",
        "_memo",
        "_searched",
        "_table",
        "_texts",
        "_time",
        "_timed_out",
        "_touched",
        "_warn",
    )

    def __init__(self, table: KeyTable, haystack: Haystack, expand: ExpandMacros, warn: Warn) -> None:
        self._table = table
        self._haystack = haystack
        self._expand = expand
        self._warn = warn
        self._found: dict[int, list[tuple[Piece, int]]] = {}
        self._texts: LRUCache[tuple[View, bool], str] = LRUCache(JOINED_TEXTS)
        self._memo: dict[tuple[Key, View], KeyMatch | None] = {}
        self._timed_out: dict[JSRegex, None] = {}
        self._gave_up = False
        self._searched = 0
        self._time: RegexTime | None = None
        self._touched: set[int] = set()
        self.take_in([*haystack.sources, *haystack.injects])

    def take_in(self, pieces: Sequence[Piece]) -> None:
        """Search for all plain keys in new texts; cached joined texts become invalid."""
        self._texts.clear()
        self._memo.clear()
        found = self._table.find([piece.text for piece in pieces]) if pieces else ()
        for piece, offsets in zip(pieces, found, strict=True):
            for number, offset in offsets.items():
                places = self._found.get(number)
                if places is None:
                    self._found[number] = [(piece, offset)]
                    self._touched.update(self._table.owners(number))
                else:
                    places.append((piece, offset))

    def take_touched(self) -> set[int]:
        """Return the entries with newly found keys since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def find_first(self, keys: Iterable[Key], view: View | None) -> KeyMatch | None:
        """Find the first of some keys that occurs in a view."""
        for key in keys:
            match = self.find(key, view)
            if match is not None:
                return match
        return None

    def find(self, key: Key, view: View | None) -> KeyMatch | None:
        """Find a key in a view."""
        if isinstance(key, MacroKey):
            # Expanded each time, because macros may give different texts.
            expanded = expanded_key(self._expand(key.text), key.case_sensitive, key.whole_word)
            match = self.find(expanded, view)
            return None if match is None else KeyMatch(key.text, match.piece, match.offset)
        if isinstance(key, FixedKey):
            return KeyMatch(key.text) if key.found else None
        if view is None:
            return self._find_in_nothing(key)
        if isinstance(key, LiteralKey):
            for piece, offset in self._found.get(key.number, ()):
                if view.sees(piece):
                    return KeyMatch(key.text, piece, offset)
            return None
        if isinstance(key, RegexKey) and key.needs and self._found.keys().isdisjoint(key.needs):
            return None
        known = (key, view)
        if known not in self._memo:
            self._memo[known] = self._find_on_its_own(key, view)
        return self._memo[known]

    def _find_in_nothing(self, key: LiteralKey | PlainKey | RegexKey) -> KeyMatch | None:
        if isinstance(key, RegexKey) and self._search(key.regex, "") is not None:
            return KeyMatch(key.text)
        return None

    def _find_on_its_own(self, key: PlainKey | RegexKey, view: View) -> KeyMatch | None:
        if isinstance(key, RegexKey):
            offset = self._search(key.regex, self._text(view, case_sensitive=True))
        else:
            text = self._text(view, case_sensitive=key.case_sensitive)
            offset = self._find_plain(fold(key.text, case_sensitive=key.case_sensitive), text, key.whole_word)
        if offset is None:
            return None
        piece, offset = self._haystack.locate(view, offset)
        return KeyMatch(key.text, piece, offset)

    def score(self, entry: Entry, view: View | None) -> int:
        """Count how well an entry matches, for group scoring: keys exactly as written, without macro expansion."""
        primary = sum(self._has_raw(key, entry, view) for key in entry.keys)
        if not entry.keys or not entry.secondary_keys:
            return primary
        secondary = sum(self._has_raw(key, entry, view) for key in entry.secondary_keys)
        # Unlike in the scan, a missing logic has no default here, and ``selective`` does not count.
        logic = entry.raw.get("selectiveLogic")
        if logic == AND_ANY and not isinstance(logic, bool):
            return primary + secondary
        all_found = secondary == len(entry.secondary_keys)
        return primary + secondary if logic == AND_ALL and all_found else primary

    def _has_raw(self, key: str, entry: Entry, view: View | None) -> bool:
        regex = parse_regex_key(key)
        if regex is not None:
            text = "" if view is None else self._text(view, case_sensitive=True)
            return self._search(regex, text) is not None
        case, whole = self._table.modes(entry)
        text = "" if view is None else self._text(view, case_sensitive=case)
        return self._find_plain(fold(key, case_sensitive=case), text, whole) is not None

    def _text(self, view: View, *, case_sensitive: bool) -> str:
        return self._texts.get_or_make(
            (view, case_sensitive), lambda: fold(self._haystack.text(view), case_sensitive=case_sensitive)
        )

    def _may_search(self, text: str) -> bool:
        before = self._searched
        self._searched += len(text)
        if self._searched <= MAX_SEARCHED_CHARS:
            return True
        if before <= MAX_SEARCHED_CHARS:
            self._warn(
                f"regex keys and keys with macros search more than {MAX_SEARCHED_CHARS} characters: "
                "no more are tried in this scan"
            )
        return False

    def _find_plain(self, key: str, text: str, whole_word: bool) -> int | None:
        found = find_plain(key, text, whole_word=whole_word) if self._may_search(text) else -1
        return None if found < 0 else found

    def _search(self, regex: JSRegex, text: str) -> int | None:
        if regex in self._timed_out or self._gave_up or not self._may_search(text):
            return None
        if self._time is None:
            self._time = RegexTime()
        if not self._time.is_left():
            self._give_up()
            return None
        reports: list[str] = []
        match = regex.search(text, warn=reports.append)
        if reports:
            self._timed_out[regex] = None
            self._warn(f"regex key /{regex.source}/{regex.flags}: {reports[0]}; it counts as not found")
            if len(self._timed_out) == MAX_REGEX_TIMEOUTS:
                self._give_up()
        return None if match is None else match.start

    def _give_up(self) -> None:
        self._gave_up = True
        self._warn("regex keys take too long: no more are tried in this scan")


def logic_holds(logic: object, found: list[bool]) -> bool:
    """Return True if the secondary keys pass; a logic that is not a number from 0 to 3 never does."""
    if isinstance(logic, bool) or not isinstance(logic, (int, float)):
        return False
    if logic == AND_ANY:
        return any(found)
    if logic == NOT_ALL:
        return not all(found)
    if logic == NOT_ANY:
        return not any(found)
    return logic == AND_ALL and all(found)
