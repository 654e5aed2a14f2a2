"""The fields of all entries that a scan needs, in columns; rare fields are stored as lists of entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from functools import lru_cache
from itertools import chain, compress, repeat
from operator import itemgetter, not_
from typing import Any, NamedTuple, Protocol, cast

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_regex.analysis import needs_of
from tavernkit._text.js_regex.syntax import parse_pattern
from tavernkit._text.js_values import UNDEFINED, Undefined, to_number, to_string, trim, truthy
from tavernkit._values import Json, JsonObject, is_list
from tavernkit.silly_tavern._world_info.entry import is_one_word, may_hold_macro, parse_regex_key
from tavernkit.silly_tavern._world_info.fields import ACTIVATE, number, optional_flag, parse_decorators
from tavernkit.silly_tavern._world_info.limits import COMPILED_REGEX_NEEDS, MAX_SCAN_DEPTH

SHORTEST_NEED = 3
"""Shorter texts are in nearly every message, so searching for them saves nothing."""

SEPARATOR = "\x01"
"""Precedes every message of a haystack. A key that contains it can match across messages."""

# ``|(?!)``: before Python 3.11.5, the text of an iteration that fails halfway counts as matched otherwise.
_WORDS = re.compile(r"[\w'’-]+(?: [\w'’-]++|(?!))*+")
MAX_INTEGER = 2**53

_OFF = (0, None)
"""Values that mean off; ``False`` equals the first."""


class KeyKind(NamedTuple):
    """Common properties of keys that are searched in the same way.

    ``case_sensitive`` and ``whole_words`` are their entries' own settings, ``one_word`` means that they contain no
    spaces: others are never matched as whole words. ``primary`` keys activate their entries, others do not.
    """

    case_sensitive: bool | None
    whole_words: bool | None
    one_word: bool
    primary: bool


NEED = KeyKind(case_sensitive=False, whole_words=False, one_word=False, primary=True)
"""The kind of a text that a regex key needs."""


class KeyColumn(NamedTuple):
    """Plain keys of one kind, and the entry that each belongs to."""

    texts: list[str]
    owners: MutableSequence[int]


class Entries(Protocol):
    """The usable entries of a book as JSON."""

    def __len__(self) -> int: ...
    def __getitem__(self, number: int, /) -> JsonObject: ...
    def identities(self) -> Iterable[tuple[str | None, str]]:
        """Return for every entry the book in its JSON, if any, and its uid."""
        ...


class ParsedEntries:
    """Entries with parsed JSON."""

    def __init__(self, raws: Sequence[JsonObject]) -> None:
        self._raws = raws

    def __len__(self) -> int:
        return len(self._raws)

    def __getitem__(self, number: int) -> JsonObject:
        return self._raws[number]

    def identities(self) -> Iterable[tuple[str | None, str]]:
        """Yield for every entry the book in its JSON, if any, and its uid."""
        for raw in self._raws:
            yield to_string(raw["world"]) if "world" in raw else None, to_string(raw.get("uid", UNDEFINED))


@dataclass(frozen=True, slots=True, kw_only=True)
class BookTable:
    """The usable entries of a book, by their numbers in JavaScript's order.

    ``orders`` has the insertion order of each. ``constant`` lists those that need no key, ``timed`` those with timed
    effects, ``delayed`` has the level of those that wait for recursion, ``deepest`` is the largest scan depth of all.
    ``keys`` are the plain keys; ``loose`` lists the entries with other primary keys, which must be checked in every
    pass. ``problems`` lists unreadable entries.
    """

    entries: Entries
    problems: Sequence[str]
    orders: Sequence[float]
    constant: Sequence[int]
    timed: Sequence[int]
    delayed: Sequence[tuple[int, Json]]
    deepest: float
    keys: Mapping[KeyKind, KeyColumn]
    loose: Sequence[int]


class Columns(NamedTuple):
    """The fields of all entries that a scan needs before it sees a text, each as a column."""

    key: Sequence[Json]
    secondary_key: Sequence[Json]
    case_sensitive: Sequence[Json]
    match_whole_words: Sequence[Json]
    content: Sequence[Json]
    constant: Sequence[Json]
    order: Sequence[Json | Undefined]
    scan_depth: Sequence[Json]
    sticky: Sequence[Json]
    cooldown: Sequence[Json]
    delay_until_recursion: Sequence[Json]

    @property
    def usable(self) -> bool:
        """Return True if no entry has a problem, as in most books, or its keys have one, which ``make_table`` finds."""
        return {*map(type, self.content)} <= {str} and {*map(type, chain(self.key, self.secondary_key))} <= {list}


_FIELDS = (
    "key",
    "keysecondary",
    "caseSensitive",
    "matchWholeWords",
    "content",
    "constant",
    "order",
    "scanDepth",
    "sticky",
    "cooldown",
    "delayUntilRecursion",
)
"""The columns as entries name them."""

_MISSING: Mapping[str, Json | Undefined] = {**dict.fromkeys(_FIELDS), "order": UNDEFINED}

_read_row = cast("Callable[[Mapping[str, Json | Undefined]], tuple[Any, ...]]", itemgetter(*_FIELDS))


def read_columns(raws: Sequence[JsonObject]) -> Columns:
    """Read the fields of entries."""
    if not raws:
        return Columns(*([],) * len(_FIELDS))
    try:
        rows = [*map(_read_row, raws)]
    except KeyError:
        rows = [_read_row({**_MISSING, **raw}) for raw in raws]
    return Columns(*zip(*rows, strict=True))


def make_table(raws: Sequence[JsonObject], columns: Columns, problems: Sequence[str] = ()) -> BookTable:
    """Make the table of a book.

    Args:
        raws: The usable entries.
        columns: Their fields.
        problems: Problems in the book.

    Raises:
        TypeError: A key is not text.
    """
    keys = _KeyReader(columns)
    depths = (to_number(depth) for depth in columns.scan_depth if depth is not None)
    delayed = columns.delay_until_recursion
    return BookTable(
        entries=ParsedEntries(raws),
        problems=tuple(problems),
        # JavaScript has no larger integers: they become floats, like other numbers.
        orders=[
            order if type(order) is int and -MAX_INTEGER <= order <= MAX_INTEGER else number(order)
            for order in columns.order
        ],
        constant=sorted({*_switched_on(columns.constant), *_activated(columns.content)}),
        timed=sorted({*_switched_on(columns.sticky), *_switched_on(columns.cooldown)}),
        # true is the first level
        delayed=[(at, 1 if delayed[at] is True else delayed[at]) for at in _switched_on(delayed)],
        deepest=min(max((depth for depth in depths if depth > 0), default=0), MAX_SCAN_DEPTH),
        keys=keys.columns,
        loose=sorted(keys.loose),
    )


def _switched_on(column: Sequence[object]) -> list[int]:
    # Nearly all entries have zero, null or false here; checking the value is faster than a call.
    return [at for at, value in enumerate(column) if value not in _OFF and truthy(value)]


def _activated(contents: Sequence[object]) -> list[int]:
    return [
        at
        for at, content in enumerate(contents)
        if isinstance(content, str) and content.startswith("@@") and ACTIVATE in parse_decorators(content)[0]
    ]


class _KeyReader:
    """Sorts the keys of all entries by kind."""

    def __init__(self, columns: Columns) -> None:
        self.columns: dict[KeyKind, KeyColumn] = {}
        self.loose: set[int] = set()
        primary, secondary = _lists(columns.key), _lists(columns.secondary_key)
        for (case, word), owners in self._alike(columns).items():
            self._read(primary, owners, KeyKind(case, word, one_word=True, primary=True))
            # Without a list of primary keys an entry's secondary ones are never used.
            self._read(secondary, owners, KeyKind(case, word, one_word=True, primary=False))

    @staticmethod
    def _alike(columns: Columns) -> dict[tuple[bool | None, bool | None], Sequence[int]]:
        """Group the entries with lists of keys by their own settings."""
        cases, words = columns.case_sensitive, columns.match_whole_words
        if {*map(type, cases), *map(type, words)} == {type(None)} and {*map(type, columns.key)} == {list}:
            return {(None, None): range(len(cases))}  # as in most books
        alike: dict[tuple[bool | None, bool | None], list[int]] = {}
        for at, (keys, case, word) in enumerate(zip(columns.key, cases, words, strict=True)):
            if is_list(keys):
                alike.setdefault((optional_flag(case), optional_flag(word)), []).append(at)
        return {**alike}

    def _column(self, kind: KeyKind) -> KeyColumn:
        return self.columns.setdefault(kind, KeyColumn([], []))

    def _read(self, lists: Sequence[Sequence[Json]], owners: Sequence[int], kind: KeyKind) -> None:
        chosen = lists if len(owners) == len(lists) else [lists[owner] for owner in owners]
        texts = cast("list[str]", [*chain.from_iterable(chosen)])
        if not texts:
            return
        owner_of_key = [*chain.from_iterable(map(repeat, owners, map(len, chosen)))]
        # Ordinary keys of one or several words need no closer check: no macro, no slash, no space at the ends.
        words = self._column(kind)
        phrases = self._column(kind._replace(whole_words=False, one_word=False))
        texts, owner_of_key = _take(texts, owner_of_key, [*map(str.isalnum, texts)], words)
        spaced = [text.replace(" ", "").isalnum() and text.strip(" ") == text for text in texts]
        texts, owner_of_key = _take(texts, owner_of_key, spaced, phrases)
        for key, owner in zip(texts, owner_of_key, strict=True):
            if _WORDS.fullmatch(key):
                plain, one_word = key, " " not in key
            else:
                plain = plain_text(key)
                one_word = plain is not None and is_one_word(plain)
            if plain is not None:
                column = words if one_word else phrases
                column.texts.append(plain)
                column.owners.append(owner)
            elif key and not self._read_needs(key, owner, primary=kind.primary) and kind.primary:
                self.loose.add(owner)

    def _read_needs(self, key: str, owner: int, *, primary: bool) -> bool:
        """Find the texts that a regex key needs; return True if they are enough to detect the entry."""
        regex = None if may_hold_macro(key) else parse_regex_key(trim(key))
        needs = None if regex is None else regex_needs(regex)
        for text in needs or ():
            texts, owners = self._column(NEED._replace(primary=primary))
            texts.append(text)
            owners.append(owner)
        return needs is not None


def _lists(column: Sequence[Json]) -> Sequence[Sequence[Json]]:
    if {*map(type, column)} <= {list}:  # as in most books
        return cast("Sequence[list[Json]]", column)
    return [keys if is_list(keys) else () for keys in column]


def _take(texts: list[str], owners: list[int], chosen: list[bool], column: KeyColumn) -> tuple[list[str], list[int]]:
    """Add the chosen keys to a column and return the others."""
    column.texts.extend(compress(texts, chosen))
    column.owners.extend(compress(owners, chosen))
    others = [*map(not_, chosen)]
    return [*compress(texts, others)], [*compress(owners, others)]


@lru_cache(COMPILED_REGEX_NEEDS)
def regex_needs(regex: JSRegex) -> tuple[str, ...] | None:
    """Return lower-case texts of which every matching text contains one, if there are any."""
    needs = tuple(dict.fromkeys(text.lower() for text in needs_of(parse_pattern(regex.source, regex.flags))))
    return needs if needs and min(map(len, needs)) >= SHORTEST_NEED else None


def plain_text(key: str) -> str | None:
    """Return the text of a key that can be searched directly; None for loose or empty keys."""
    if may_hold_macro(key) or SEPARATOR in key:
        return None
    stripped = trim(key)
    return None if not stripped or parse_regex_key(stripped) is not None else stripped
