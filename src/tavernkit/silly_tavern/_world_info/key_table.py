"""The keys of all entries of a scan, compiled for one pair of case and whole-word settings."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence, Set
from itertools import compress

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_values import js_lower, trim
from tavernkit.lore._key_index import KeyIndex
from tavernkit.silly_tavern._world_info.book_table import plain_text, regex_needs
from tavernkit.silly_tavern._world_info.entry import Entry, is_one_word, may_hold_macro, parse_regex_key
from tavernkit.silly_tavern._world_info.selection import ListedEntries

GRAM = 4
"""The number of first and last characters by which keys are chosen for the automaton."""

MANY_KEYS = 5_000
"""From how many keys on choosing pays off; an automaton of fewer takes some milliseconds."""

MAX_CHOICES = 8
"""How often keys are chosen before all of them are used."""


@dataclass(frozen=True, slots=True)
class LiteralKey:
    """A plain key that the automaton looks for."""

    text: str
    number: int


@dataclass(frozen=True, slots=True)
class PlainKey:
    """A plain key that is searched separately."""

    text: str
    case_sensitive: bool
    whole_word: bool


@dataclass(frozen=True, slots=True)
class RegexKey:
    """A key ``/pattern/flags``; ``needs`` lists the plain texts of which one must occur, if any."""

    text: str
    regex: JSRegex
    needs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MacroKey:
    """A key that may contain macros: its kind is known only after each expansion."""

    text: str
    case_sensitive: bool
    whole_word: bool


@dataclass(frozen=True, slots=True)
class FixedKey:
    """A key that does not depend on any text: blank ones are always found, empty ones never."""

    text: str
    found: bool


Key = LiteralKey | PlainKey | RegexKey | MacroKey | FixedKey


@dataclass(frozen=True, slots=True)
class EntryKeys:
    """The compiled keys of one entry."""

    primary: tuple[Key, ...]
    secondary: tuple[Key, ...]


class _Literals:
    """The plain keys of one case mode, each with the entries that have it among their primary keys.

    A key gets its number on first use. The automaton contains the keys that can be in the texts seen so far: in a large
    book these are few, and an automaton of all keys costs more than everything else. Choosing costs time in later scans
    too, so it is not repeated often.
    """

    __slots__ = ("_choices", "_grams", "_keys", "_more_owners", "_owners", "_waiting", "index", "parts", "words")

    def __init__(self) -> None:
        self._keys: list[str] = []
        # Most keys belong to one entry: only the others get a list.
        self._owners: list[int | None] = []
        self._more_owners: dict[int, list[int]] = {}
        self.words: dict[str, int] = {}
        self.parts: dict[str, int] = {}
        self.index = KeyIndex(())
        self._waiting: list[_WaitingKeys] = []
        self._grams: set[str] = set()
        self._choices = 0

    def expect(self, texts: list[str], owners: Sequence[int] | None, *, whole_word: bool) -> None:
        """Add keys that may be searched later; keys without owners activate no entry."""
        self._waiting.append(_WaitingKeys(texts, owners, whole_word))

    def number(self, key: str, *, whole_word: bool) -> int:
        """Return the number of a key."""
        known = self.words if whole_word else self.parts
        fresh = len(self._keys)
        number = known.setdefault(key, fresh)
        if number == fresh:
            self._keys.append(key)
            self._owners.append(None)
        return number

    def _add(self, keys: Iterable[tuple[str, int | None]], *, whole_word: bool) -> None:
        owners, more = self._owners, self._more_owners
        for key, owner in keys:
            number = self.number(key, whole_word=whole_word)
            if owner is None:
                continue
            if owners[number] is None:
                owners[number] = owner
            else:
                more.setdefault(number, []).append(owner)

    def complete(self) -> None:
        """Add all keys to the automaton."""
        for waiting in self._waiting:
            self._add(waiting.take_all(), whole_word=waiting.whole_word)
        if self._waiting:
            self._waiting = []
            self._grams = set()
            self._make_index()

    def prepare(self, texts: Iterable[str]) -> None:
        """Make sure that the automaton has all keys that occur in some texts."""
        if not self._waiting:
            return
        self._choices += 1
        if self._choices > MAX_CHOICES or sum(map(len, self._waiting)) < MANY_KEYS:
            self.complete()
            return
        fresh: set[str] = set()
        for text in texts:
            fresh.update(text[at : at + GRAM] for at in range(len(text) - GRAM + 1))
        fresh -= self._grams
        if fresh or self._choices == 1:
            self._grams |= fresh
            before = len(self._keys)
            for waiting in self._waiting:
                self._add(waiting.take(self._grams), whole_word=waiting.whole_word)
            if len(self._keys) > before or len(self.index) < before:
                self._make_index()

    def _make_index(self) -> None:
        self.index = KeyIndex(tuple(self._keys), whole_words=self.words.values())

    def owners(self, number: int) -> Iterable[int]:
        first = self._owners[number]
        return () if first is None else (first, *self._more_owners.get(number, ()))


class _WaitingKeys:
    """Keys that are not in the automaton yet."""

    __slots__ = ("_heads", "_owners", "_taken", "_texts", "whole_word")

    def __init__(self, texts: list[str], owners: Sequence[int] | None, whole_word: bool) -> None:
        self._texts = texts
        self._owners = owners
        self._heads: list[str] | None = None
        self._taken: set[int] = set()
        self.whole_word = whole_word

    def __len__(self) -> int:
        return len(self._texts)

    def take(self, grams: Set[str]) -> list[tuple[str, int | None]]:
        """Remove and return the keys that begin and end with one of the grams, and shorter ones."""
        texts = self._texts
        fits: list[int] = []
        if self._heads is None:
            self._heads = [text[:GRAM] for text in texts]
            if min(map(len, self._heads), default=GRAM) < GRAM:
                fits += (at for at, head in enumerate(self._heads) if len(head) < GRAM)
        begin = compress(range(len(texts)), map(grams.__contains__, self._heads))
        fits += (at for at in begin if texts[at][-GRAM:] in grams and at not in self._taken)
        self._taken.update(fits)
        return self._pairs(fits)

    def take_all(self) -> list[tuple[str, int | None]]:
        """Remove and return the remaining keys."""
        taken = self._taken
        return self._pairs(
            [at for at in range(len(self._texts)) if at not in taken] if taken else range(len(self._texts))
        )

    def _pairs(self, numbers: Iterable[int]) -> list[tuple[str, int | None]]:
        texts, owners = self._texts, self._owners
        return [(texts[at], None if owners is None else owners[at]) for at in numbers]


class KeyTable:
    """Finds the entries whose plain keys occur in a text, without checking the others.

    ``loose`` lists the entries with keys that the automaton cannot contain (macros, blanks, regular expressions without
    a required text): they must be checked in every pass. Threads can share a table.
    """

    __slots__ = ("_case_sensitive", "_compiled", "_exact", "_folded", "_lock", "_whole_words", "loose")

    def __init__(self, listed: ListedEntries, *, case_sensitive: bool, whole_words: bool) -> None:
        self._case_sensitive = case_sensitive
        self._whole_words = whole_words
        self._folded = _Literals()
        self._exact = _Literals()
        self._compiled: dict[int, EntryKeys] = {}
        self._lock = threading.Lock()
        loose: list[int] = []
        for book, positions in zip(listed.books, listed.positions, strict=True):
            loose += (positions[number] for number in book.table.loose)
            for kind, (texts, owners) in book.table.keys.items():
                case = case_sensitive if kind.case_sensitive is None else kind.case_sensitive
                whole = whole_words if kind.whole_words is None else kind.whole_words
                (self._exact if case else self._folded).expect(
                    texts if case else [text.lower() for text in texts],  # as js_lower does
                    [*map(positions.__getitem__, owners)] if kind.primary else None,
                    whole_word=whole and kind.one_word,
                )
        self.loose = tuple(loose)

    def complete(self) -> None:
        """Compile all keys, before many scans."""
        with self._lock:
            self._folded.complete()
            self._exact.complete()

    def find(self, texts: Sequence[str]) -> list[dict[int, int]]:
        """Return for each text the numbers of the plain keys in it, each with the offset of its first occurrence."""
        folded_texts = [*map(js_lower, texts)]
        with self._lock:
            self._folded.prepare(folded_texts)
            self._exact.prepare(texts)
            folded, exact = self._folded.index, self._exact.index
        found: list[dict[int, int]] = []
        # Both count from zero: keys of the one get even numbers, keys of the other odd ones.
        for text, folded_text in zip(texts, folded_texts, strict=True):
            places = folded.find(folded_text) if len(folded) else {}
            numbered = {2 * number: offset for number, offset in places.items()}
            if len(exact):
                numbered.update((2 * number + 1, offset) for number, offset in exact.find(text).items())
            found.append(numbered)
        return found

    def owners(self, number: int) -> Iterable[int]:
        """Return the entries that have a plain key among their primary keys, by their index in the list."""
        return (self._exact if number % 2 else self._folded).owners(number // 2)

    def keys_of(self, position: int, entry: Entry) -> EntryKeys:
        """Return the compiled keys of the entry at an index of the list."""
        keys = self._compiled.get(position)
        if keys is None:
            case, whole = self.modes(entry)
            with self._lock:
                keys = self._compiled[position] = EntryKeys(
                    tuple(self._compile(key, case, whole) for key in entry.keys),
                    tuple(self._compile(key, case, whole) for key in entry.secondary_keys),
                )
        return keys

    def modes(self, entry: Entry) -> tuple[bool, bool]:
        """Return whether an entry is case-sensitive and matches whole words, by its own or the global settings."""
        case, whole = entry.case_sensitive, entry.match_whole_words
        return self._case_sensitive if case is None else case, self._whole_words if whole is None else whole

    def _compile(self, key: str, case: bool, whole: bool) -> Key:
        plain = plain_text(key)
        if plain is None:
            return self._compile_loose(key, case, whole)
        literals = self._exact if case else self._folded
        number = literals.number(plain if case else js_lower(plain), whole_word=whole and is_one_word(plain))
        return LiteralKey(plain, 2 * number + case)

    def _compile_loose(self, key: str, case: bool, whole: bool) -> Key:
        if may_hold_macro(key):
            return MacroKey(key, case, whole)
        compiled = expanded_key(key, case, whole)
        if isinstance(compiled, RegexKey):
            needs = regex_needs(compiled.regex) or ()
            numbers = tuple(2 * self._folded.number(text, whole_word=False) for text in needs)
            return RegexKey(compiled.text, compiled.regex, numbers)
        return compiled


def expanded_key(key: str, case: bool, whole: bool) -> Key:
    """Compile a key after macro expansion, to be searched separately."""
    if not key:
        return FixedKey(key, found=False)
    stripped = trim(key)
    if not stripped:
        return FixedKey(key, found=True)
    regex = parse_regex_key(stripped)
    return PlainKey(stripped, case, whole) if regex is None else RegexKey(stripped, regex)
