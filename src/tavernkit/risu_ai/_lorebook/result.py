"""The result of a lorebook scan, and lore that goes into another text: the text of other lore, or a card's."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import join
from tavernkit._values import FrozenJson
from tavernkit.budget._report import TrimReport
from tavernkit.errors import Warn
from tavernkit.lore import LoreRow, lore_trim_report, no_key_found, over_budget
from tavernkit.prompt._block import Omission
from tavernkit.risu_ai._js import replace_first
from tavernkit.risu_ai._limits import MAX_REPLACED
from tavernkit.risu_ai._lorebook.entry import LorebookEntry
from tavernkit.risu_ai._lorebook.keys import KeyHit, LiteralKeys

LOOKED_BACK = 20
"""How many messages before the scanned ones are searched for hints."""


@dataclass(frozen=True, slots=True)
class NearMisses:
    """Searches the texts before the scanned ones, to explain why an entry is out."""

    literals: LiteralKeys
    unread: Sequence[str]
    """The texts of the chat that the scan depth does not reach, oldest first."""
    scan_depth: float
    messages: int
    full_word: bool

    def hint(self, entry: LorebookEntry) -> str:
        """Return where a key of an entry would have been found; empty if nowhere near."""
        if entry.use_regex:
            return ""
        first = max(len(self.unread) - LOOKED_BACK, 0)
        for place in range(len(self.unread) - 1, first - 1, -1):
            for key in entry.keys:
                if self.literals.contains(self.unread[place], key, full_word=self.full_word):
                    return f"{key!r} is in message #{place}, which {self._reach()}"
        return ""

    def _reach(self) -> str:
        reach = f"a scan depth of {self.scan_depth:g} does not reach"
        beyond = self.scan_depth - self.messages
        if beyond > 0:  # JavaScript's slice counts a negative start from the end
            return f"{reach} in a chat of {self.messages} messages: RisuAI then looks at the last {beyond:g} only"
        return reach


Operation = Literal["append", "prepend", "replace"]


@dataclass(frozen=True, slots=True)
class LoreInjection:
    """Lore that goes into another text: another entry's (``lore``) or a prompt card's."""

    operation: Operation = "append"
    location: str = ""
    param: str = ""
    lore: bool = False


@dataclass(frozen=True, slots=True)
class ActiveLore:
    """One active entry: its text (macros not expanded) and its place.

    ``order`` and ``priority`` are as stored, which may be a text; ``index`` is its index among all entries. ``source``
    is RisuAI's name for it, ``title`` and ``book`` are for people; ``injected`` are the entries that are part of its
    text.
    """

    index: int
    source: str
    text: str
    """The text for the prompt."""
    pos: str = ""
    """Where it goes: empty for the lorebook's place, ``depth``, ``reverse_depth``, or the name of a position."""
    depth: float = 0
    """How many messages from the end it goes, or from the start with ``reverse_depth``."""
    role: str = "system"
    """The role of its message at a depth."""
    order: FrozenJson = 0
    priority: FrozenJson = 0
    tokens: int = 0
    """What it costs."""
    inject: LoreInjection | None = None
    """The text that it goes into, if its decorators name one."""
    reason: str = ""
    """Why it is active, in words."""
    title: str = ""
    book: str = ""
    injected: tuple[ActiveLore, ...] = ()


@dataclass(frozen=True, slots=True)
class LorebookResult:
    """The active entries in the order of the prompt, every key hit, and the markers to store as chat variables.

    ``entries`` are all that were scanned; ``reasons`` has, by index, why checked entries were left out.
    """

    actives: Sequence[ActiveLore] = ()
    """The entries that go into the prompt."""
    hits: Sequence[KeyHit] = ()
    """Which keys were found where."""
    markers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Chat variables that remember which entries were active in an earlier scan."""
    total_tokens: int = 0
    """Tokens of the active entries together."""
    budget: int = 0
    """Tokens that they may have."""
    entries: Sequence[LorebookEntry] = ()
    reasons: Mapping[int, str] = field(default_factory=dict[int, str])
    near_misses: NearMisses | None = field(default=None, repr=False, compare=False)
    """Finds out on demand why an entry is not active."""
    left_out: Sequence[ActiveLore] = ()
    """Entries that fired but did not fit the budget."""

    @property
    def trim_report(self) -> TrimReport | None:
        """Entries that fired but did not fit the lore budget; None if all fit."""
        evictions = [
            over_budget(str(lore.index), lore.tokens, title=lore.title, book=lore.book) for lore in self.left_out
        ]
        return lore_trim_report(evictions, budget=self.budget, used=self.total_tokens)

    @property
    def activated_entries(self) -> Sequence[ActiveLore]:
        """The active entries."""
        return self.actives

    def explain(self, entry: int | str) -> LoreRow:
        """Return why an entry (its index, or its name) is in or out."""
        return self._row(entry if isinstance(entry, int) else self._index_of(entry), self._places())

    def rows(self, *, untouched: int | None = None) -> list[LoreRow]:
        """All entries, those in the prompt first; ``untouched`` limits how many without any match are listed."""
        places = self._places()
        decided = [*sorted(places), *sorted(self.reasons)]
        seen = frozenset(decided)
        rest = islice((index for index in range(len(self.entries)) if index not in seen), untouched)
        return [self._row(index, places) for index in (*decided, *rest)]

    @property
    def omissions(self) -> tuple[Omission, ...]:
        """Return the checked entries that are not in the prompt, as omissions for plans."""
        return tuple(
            Omission("lore_entry", str(index), reason, entry_title(self.entries[index], index))
            for index, reason in self.reasons.items()
        )

    def table(self) -> str:
        """All entries with their reasons, for people."""
        rows = [("", "entry", "why")]
        rows += [("in" if each.active else "out", each.title, each.reason) for each in self.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        return "\n".join(f"{a.ljust(widths[0])}  {b.ljust(widths[1])}  {c}".rstrip() for a, b, c in rows)

    def _places(self) -> Mapping[int, tuple[str, str]]:
        """The reason and the text of everything that is in the prompt, by index."""
        found = {each.index: (each.reason, each.text) for each in self.actives}
        for target in self.actives:
            for each in target.injected:
                found[each.index] = (f"{each.reason}; injected into {target.title!r}", each.text)
        return found

    def _row(self, index: int, places: Mapping[int, tuple[str, str]]) -> LoreRow:
        entry = self.entries[index]
        reason, text = places.get(index, (self.reasons.get(index) or self._not_found(entry), entry.content))
        return LoreRow(
            id=str(index),
            title=entry_title(entry, index),
            book=entry.book,
            active=index in places,
            reason=reason,
            keys=entry.keys,
            content=text,
        )

    def _not_found(self, entry: LorebookEntry) -> str:
        hint = "" if self.near_misses is None else self.near_misses.hint(entry)
        return f"{no_key_found(entry.keys)}; {hint}" if hint else no_key_found(entry.keys)

    def _index_of(self, name: str) -> int:
        found = next((i for i, entry in enumerate(self.entries) if name in (entry_title(entry, i), f"{i}")), None)
        if found is None:
            raise KeyError(f"no entry is called {name!r}")
        return found


def entry_title(entry: LorebookEntry, index: int) -> str:
    """Return a readable title of any entry."""
    return entry.title or f"lorebook {index}"


class InjectedText:
    """A text in pieces, which is joined once instead of for every inserted entry.

    ``name`` is used in warnings.
    """

    __slots__ = ("_left", "_name", "_pieces", "_warn")

    def __init__(self, text: str, name: str, warn: Warn) -> None:
        self._pieces = deque([text])
        self._name = name
        self._warn = warn
        self._left = MAX_REPLACED

    def put(self, lore: str, injection: LoreInjection) -> None:
        """Put lore in."""
        match injection.operation:
            case "append":
                self._pieces.extend((" ", lore))
            case "prepend":
                self._pieces.extendleft((" ", lore))
            case _:
                self._replace(injection.param, lore)

    @property
    def text(self) -> str:
        """The text with all insertions."""
        return join("", self._pieces)

    def _replace(self, wanted: str, new: str) -> None:
        if self._left < 0:
            return
        text = self.text
        self._left -= len(text)
        if self._left < 0:
            self._warn(f"lorebook: too much lore replaces something in {self._name!r}, the rest of it is left out")
        else:
            self._pieces = deque([replace_first(text, wanted, new, warn=self._warn)])


class Injections:
    """Collects insertions into the entries of a list; of several with the same name, the first is used."""

    def __init__(self, entries: Sequence[ActiveLore], warn: Warn) -> None:
        self._entries = entries
        self._warn = warn
        self._places = {entry.source: place for place, entry in reversed([*enumerate(entries)])}
        self._texts: dict[int, InjectedText] = {}
        self._injected: dict[int, list[ActiveLore]] = {}

    def put(self, lore: ActiveLore, injection: LoreInjection) -> bool:
        """Insert an entry at its target; return True if the target exists."""
        place = self._places.get(injection.location)
        if place is None:
            return False
        if place not in self._texts:
            self._texts[place] = InjectedText(self._entries[place].text, self._entries[place].title, self._warn)
        self._texts[place].put(lore.text, injection)
        self._injected.setdefault(place, []).append(lore)
        return True

    def done(self) -> list[ActiveLore]:
        """Return the entries with all insertions."""
        done = list(self._entries)
        for place, injected in self._injected.items():
            done[place] = replace(done[place], text=self._texts[place].text, injected=tuple(injected))
        return done
