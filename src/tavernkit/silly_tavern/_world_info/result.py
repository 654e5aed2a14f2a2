"""The result of a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import groupby, islice
from types import MappingProxyType
from typing import overload

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_string
from tavernkit._text.traced import join
from tavernkit._values import FrozenJson, FrozenObject, Json, JsonObject, is_mapping, thaw_object
from tavernkit.budget._report import TrimReport
from tavernkit.errors import ConfigError
from tavernkit.lore import LoreRow, lore_trim_report, over_budget
from tavernkit.prompt._block import Omission
from tavernkit.silly_tavern._world_info.candidates import RANK, Reason
from tavernkit.silly_tavern._world_info.entry import Entry
from tavernkit.silly_tavern._world_info.explanation import Explainer, Explanation, tokens_needed
from tavernkit.silly_tavern._world_info.placement import DepthGroup, ExampleEntry, PlacedEntry, Placement, place
from tavernkit.silly_tavern._world_info.scan import Pass, Scan
from tavernkit.silly_tavern._world_info.scan_input import ScanInput
from tavernkit.silly_tavern._world_info.selection import SelectedBooks


@dataclass(frozen=True, slots=True)
class ActivatedEntry:
    """An entry that was activated, with its content after macro expansion and the reason."""

    entry: Entry
    content: str
    reason: Reason

    @property
    def world(self) -> str:
        """The name of its book."""
        return self.entry.world


@dataclass(frozen=True, slots=True)
class _Explained:
    """Finished explanations of a pickled result."""

    everything: tuple[Explanation, ...]
    those_touched: tuple[Explanation, ...]

    def __len__(self) -> int:
        return len(self.everything)

    def explain(self, place: int) -> Explanation:
        return self.everything[place]

    def touched(self) -> Iterator[Explanation]:
        return iter(self.those_touched)


class Explanations(Sequence[Explanation]):
    """The explanations of all entries of a scan, in list order, made on demand."""

    def __init__(self, explainer: Explainer | _Explained) -> None:
        self._explainer = explainer

    def __reduce__(self) -> tuple[Callable[..., Explanations], tuple[_Explained]]:
        return Explanations, (_Explained(tuple(self), tuple(self.touched())),)

    def __len__(self) -> int:
        return len(self._explainer)

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> list[Explanation]: ...
    def __getitem__(self, index: int | slice) -> Explanation | list[Explanation]:
        """Return the explanation at an index, or those of a slice."""
        places = range(len(self))[index]
        return self._explainer.explain(places) if isinstance(places, int) else [*map(self._explainer.explain, places)]

    def touched(self) -> Iterator[Explanation]:
        """Return the entries that the scan had to decide about: activated, matched in some text, or always tried."""
        return self._explainer.touched()


@dataclass(frozen=True, eq=False)
class WorldInfoResult:
    """The outcome of a scan.

    ``activated`` is in the order of acceptance; ``timed_state`` is the state to store and pass to the next scan;
    ``budget`` is the token limit (None if there was no entry to scan), ``overflowed`` is True if it was reached.
    """

    activated: tuple[ActivatedEntry, ...]
    placement: Placement
    """The activated entries in their places."""
    passes: tuple[Pass, ...]
    """What each pass of the scan did."""
    timed_state: dict[str, JsonObject]
    budget: float | None
    overflowed: bool
    explanations: Explanations = field(repr=False)
    """Why each entry is active or not, in the order of the list."""
    _scan: Scan | None = field(repr=False)

    def __getstate__(self) -> dict[str, object]:
        """A pickle contains the results, not the scan with its compiled books."""
        return {**vars(self), "_total_tokens": self._total_tokens, "_trim_report": self._trim_report, "_scan": None}

    @classmethod
    def of(cls, scan: Scan) -> WorldInfoResult:
        """Collect the outcome of a finished scan."""
        chosen = list(scan.activated.values())
        activated = tuple(ActivatedEntry(one.entry, scan.content(one.entry), one.verdict.reason) for one in chosen)
        return cls(
            activated=activated,
            placement=place(((one.entry, one.content) for one in activated), scan.input.apply_regex, scan.input.warn),
            passes=tuple(scan.passes),
            timed_state={effect: thaw_object(records) for effect, records in scan.timed.state.items()},
            budget=scan.budget.limit if scan.passes else None,
            overflowed=scan.overflowed,
            explanations=Explanations(Explainer(scan)),
            _scan=scan,
        )

    def again(self, scan_input: ScanInput) -> WorldInfoResult:
        """Return the same result with its texts made again: traced ones, for a source map.

        Args:
            scan_input: Reads and expands the texts.
        """
        activated = tuple(
            ActivatedEntry(one.entry, scan_input.expand(scan_input.read(one.entry)), one.reason)
            for one in self.activated
        )
        placement = place(((one.entry, one.content) for one in activated), scan_input.apply_regex, scan_input.warn)
        return replace(self, activated=activated, placement=placement)

    @property
    def activated_entries(self) -> tuple[Entry, ...]:
        """The entries that were activated, in the order of acceptance."""
        return tuple(one.entry for one in self.activated)

    @property
    def total_tokens(self) -> int:
        """Tokens of the contents of all activated entries, counted on demand."""
        return self._total_tokens

    @cached_property
    def _total_tokens(self) -> int:
        texts = [one.content for one in self.activated if one.content]
        return self._scan.input.count_tokens("\n".join(texts)) if texts and self._scan is not None else 0

    @property
    def trim_report(self) -> TrimReport | None:
        """Entries that fired but did not fit the lore budget; None if all fit."""
        return self._trim_report

    @cached_property
    def _trim_report(self) -> TrimReport | None:
        scan = self._scan
        assert scan is not None
        lost = [one for one in self.explanations.touched() if one.reason is Reason.BUDGET]
        evictions = [
            over_budget(
                one.entry.identity,
                tokens_needed(scan, one.entry, one.verdict),
                title=one.entry.title,
                book=one.entry.book,
            )
            for one in lost
        ]
        return lore_trim_report(evictions, budget=int(self.budget or 0), used=self.total_tokens if lost else 0)

    @property
    def before(self) -> str:
        """The lore that goes before the character definitions."""
        return _joined(self.placement.before)

    @property
    def after(self) -> str:
        """The lore that goes after the character definitions."""
        return _joined(self.placement.after)

    @property
    def an_top(self) -> tuple[str, ...]:
        """The lore for the top of the Author's Note."""
        return _contents(self.placement.an_top)

    @property
    def an_bottom(self) -> tuple[str, ...]:
        """The lore for the bottom of the Author's Note."""
        return _contents(self.placement.an_bottom)

    @property
    def examples(self) -> tuple[ExampleEntry, ...]:
        """The lore that is read as example dialogue."""
        return self.placement.examples

    @property
    def depth_groups(self) -> tuple[DepthGroup, ...]:
        """The lore that goes into the chat."""
        return self.placement.depth_groups

    @property
    def outlets(self) -> MappingProxyType[str, str]:
        """The text of each named outlet."""
        return MappingProxyType({name: _joined(placed) for name, placed in self.placement.outlets.items()})

    def explain(self, uid: Json, *, book: str | None = None) -> Explanation:
        """Explain one entry by its uid.

        Args:
            uid: The entry's uid.
            book: The name of its book; needed if several books have that uid.

        Raises:
            ConfigError: There is no such entry, or several books have it.
        """
        found = self._positions(to_string(uid), book)
        if not found:
            where = "the scanned books" if book is None else f"book {book!r}"
            raise ConfigError(f"there is no World Info entry {uid!r} in {where}", code="UNKNOWN_ENTRY")
        explained = [self.explanations[at] for at in found]
        if len({one.entry.identity for one in explained}) > 1:
            raise ConfigError(f"several books have an entry {uid!r}: pass book=", code="AMBIGUOUS_ENTRY")
        return max(explained, key=lambda one: RANK[one.reason])

    def _positions(self, uid: str, book: str | None) -> Sequence[int]:
        if self._scan is not None:
            books = self._scan.books
            return books.positions_of_uid(uid) if book is None else books.positions(f"{book}.{uid}")
        entries = enumerate(one.entry for one in self.explanations)
        return [at for at, each in entries if to_string(each.uid) == uid and book in (None, each.book)]

    def table(self, *, everything: bool = False) -> str:
        """Write a table for people: entries that the scan had to decide about, those in the prompt first.

        Entries without any match are only counted unless ``everything`` is set.
        """
        explained = list(self.explanations if everything else self.explanations.touched())
        explained.sort(key=lambda one: not one.active)
        rows = [("", "entry", "title", "why")]
        rows += (("in" if one.active else "out", one.entry.identity, one.entry.comment, one.text) for one in explained)
        lines = list(_aligned(rows))
        untouched = len(self.explanations) - len(explained)
        if untouched:
            lines.append(f"{untouched} more entries: none of their keys is in any text")
        return "\n".join(lines)

    def rows(self, *, untouched: int | None = None) -> list[LoreRow]:
        """All entries, those in the prompt first; ``untouched`` limits how many without any match are listed."""
        contents = {one.entry.identity: one.content for one in self.activated}
        touched = {one.entry.identity: one for one in self.explanations.touched()}
        rest = (one for one in self.explanations if one.entry.identity not in touched)
        listed = (*sorted(touched.values(), key=lambda one: not one.active), *islice(rest, untouched))
        return [
            LoreRow(
                id=one.entry.identity,
                title=one.entry.title,
                book=one.entry.book,
                active=one.active,
                reason=one.text,
                keys=tuple(one.entry.keys),
                content=contents.get(one.entry.identity, one.entry.content),
            )
            for one in listed
        ]

    @property
    def omissions(self) -> tuple[Omission, ...]:
        """Return the entries that fired but are not in the prompt, as omissions for plans."""
        late = RANK[Reason.SECONDARY_KEYS]
        return tuple(
            Omission("lore_entry", one.entry.identity, one.text, one.entry.comment or None, one.verdict.needed)
            for one in self.explanations.touched()
            if not one.active and RANK[one.reason] >= late
        )


def _contents(placed: Iterable[PlacedEntry]) -> tuple[str, ...]:
    return tuple(one.content for one in placed)


def _joined(placed: Iterable[PlacedEntry]) -> str:
    return join("\n", (one.content for one in placed))


def _aligned(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[-1]]).rstrip()


class LoreSources:
    """The provenance of a scan's entries, looked up when a text needs it."""

    def __init__(self, result: WorldInfoResult | None = None, books: SelectedBooks | None = None) -> None:
        self._result = result
        self._books = books

    def of(self, placed: Iterable[PlacedEntry | ExampleEntry]) -> list[FrozenJson]:
        """Return the entries of a text: which they are, what activated them, and the full reason."""
        return [self._source(one) for one in placed]

    def _source(self, one: PlacedEntry | ExampleEntry) -> FrozenObject:
        entry, why = one.entry, self._explained.get(one.entry.identity)
        return {
            "id": entry.identity,
            "name": entry.title,
            "book": entry.world,
            "book_of": self._book_of.get(entry.world, ""),
            "cause": _cause(why) if why is not None else "",
            "reason": why.text if why is not None else "",
        }

    @cached_property
    def _book_of(self) -> Mapping[str, str]:
        """Whose the books are by their names. Those that are active everywhere are nobody's."""
        books = self._books or SelectedBooks()
        owners = (("character", books.character), ("persona", books.persona), ("chat", books.chat))
        return {book.name: owner for owner, listed in owners for book in listed}

    @cached_property
    def _explained(self) -> Mapping[str, Explanation]:
        if self._result is None:
            return {}
        return {one.entry.identity: one for one in self._result.explanations.touched() if one.active}


def lore_reason(entries: Iterable[object]) -> str:
    """Return the entries with their causes and books in one line; a book is named once for neighbouring entries."""
    listed = [each for each in entries if is_mapping(each)]
    parts: list[str] = []
    for (book, owner), neighbours in groupby(listed, key=lambda each: (each["book"], each.get("book_of"))):
        names = ", ".join(f"{each['name']} ({each['cause']})" for each in neighbours)
        where = f"{book}, the {owner}'s book" if owner else book
        parts.append(f"{names} in {where}" if book else names)
    return "; ".join(parts)


def _cause(why: Explanation) -> str:
    return f"key {why.match.key!r}" if why.match is not None else str(why.reason)
