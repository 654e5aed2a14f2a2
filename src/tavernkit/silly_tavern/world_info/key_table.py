"""The keys of all entries of a scan, compiled for one pair of case and whole-word settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tavernkit.lore.key_index import KeyIndex
from tavernkit.silly_tavern.world_info.entry import Entry, optional_flag
from tavernkit.silly_tavern.world_info.keys import is_one_word, may_hold_macro, parse_regex_key
from tavernkit.silly_tavern.world_info.selection import Listed
from tavernkit.text.js_regex import JSRegex
from tavernkit.text.js_values import js_lower, trim
from tavernkit.values import is_list

SEPARATOR = "\x01"
"""Stands before every message of a haystack. A key that holds it can reach across messages."""


@dataclass(frozen=True, slots=True)
class LiteralKey:
    """A plain key that the automaton looks for."""

    text: str
    number: int


@dataclass(frozen=True, slots=True)
class PlainKey:
    """A plain key that is looked for on its own."""

    text: str
    case_sensitive: bool
    whole_word: bool


@dataclass(frozen=True, slots=True)
class RegexKey:
    """A key ``/pattern/flags``."""

    text: str
    regex: JSRegex


@dataclass(frozen=True, slots=True)
class MacroKey:
    """A key that may hold macros: what kind it is shows each time they are expanded."""

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
    """The plain keys of one case mode while they are collected."""

    __slots__ = ("keys", "owners", "parts", "words")

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.owners: list[list[int]] = []
        self.words: dict[str, int] = {}
        self.parts: dict[str, int] = {}

    def number(self, key: str, whole_word: bool) -> int:
        known = self.words if whole_word else self.parts
        number = known.get(key)
        if number is None:
            number = known[key] = len(self.keys)
            self.keys.append(key)
            self.owners.append([])
        return number

    def index(self) -> KeyIndex:
        return KeyIndex(self.keys, whole_words=frozenset(self.words.values()))


class KeyTable:
    """Finds the entries whose plain keys occur in a text, without looking at the others.

    ``loose`` numbers the entries with keys that the automaton cannot hold (regular expressions, macros, blanks): they
    have to be looked at in every pass.
    """

    __slots__ = ("_case_sensitive", "_compiled", "_exact", "_folded", "_indexes", "_owners", "_whole_words", "loose")

    def __init__(self, listed: Sequence[Listed], *, case_sensitive: bool, whole_words: bool) -> None:
        self._case_sensitive = case_sensitive
        self._whole_words = whole_words
        self._folded = _Literals()
        self._exact = _Literals()
        self._compiled: dict[int, EntryKeys] = {}
        loose: list[int] = []
        for position, (raw, _) in enumerate(listed):
            keys = raw.get("key")
            if not is_list(keys):
                continue
            case = optional_flag(raw.get("caseSensitive"))
            whole = optional_flag(raw.get("matchWholeWords"))
            case = case_sensitive if case is None else case
            whole = whole_words if whole is None else whole
            if self._collect(keys, position, case, whole):
                loose.append(position)
            secondary = raw.get("keysecondary")
            if secondary and is_list(secondary):
                self._collect(secondary, None, case, whole)
        self.loose = tuple(loose)
        self._indexes = (self._folded.index(), self._exact.index())
        self._owners = self._folded.owners + self._exact.owners

    def _collect(self, keys: Sequence[object], owner: int | None, case: bool, whole: bool) -> bool:
        literals = self._exact if case else self._folded
        loose = False
        for key in keys:
            if not isinstance(key, str) or not key:
                continue
            if key.isalnum():
                # The usual key needs no closer look: no blank, no macro, no slash.
                plain, word = key, whole
            else:
                stripped = plain_text(key)
                if stripped is None:
                    loose = True
                    continue
                plain, word = stripped, whole and is_one_word(stripped)
            number = literals.number(plain if case else js_lower(plain), word)
            if owner is not None:
                literals.owners[number].append(owner)
        return loose

    def find(self, text: str) -> dict[int, int]:
        """Give the numbers of the plain keys that occur in a text, each with the offset of its first occurrence."""
        folded, exact = self._indexes
        found = folded.find(js_lower(text)) if len(folded) else {}
        if len(exact):
            first = len(folded)
            found.update((first + number, offset) for number, offset in exact.find(text).items())
        return found

    def owners(self, number: int) -> Sequence[int]:
        """Give the entries that have a plain key among their primary keys, by their place in the list."""
        return self._owners[number]

    def keys_of(self, position: int, entry: Entry) -> EntryKeys:
        """Give the compiled keys of the entry at a place of the list."""
        keys = self._compiled.get(position)
        if keys is None:
            case, whole = self.modes(entry)
            keys = self._compiled[position] = EntryKeys(
                tuple(self._compile(key, case, whole) for key in entry.keys),
                tuple(self._compile(key, case, whole) for key in entry.secondary_keys),
            )
        return keys

    def modes(self, entry: Entry) -> tuple[bool, bool]:
        """Tell whether an entry is case-sensitive and whether it wants whole words: its own setting or the global."""
        case, whole = entry.case_sensitive, entry.match_whole_words
        return self._case_sensitive if case is None else case, self._whole_words if whole is None else whole

    def _compile(self, key: str, case: bool, whole: bool) -> Key:
        plain = plain_text(key)
        if plain is None:
            return loose_key(key, case, whole)
        literals, first = (self._exact, len(self._folded.keys)) if case else (self._folded, 0)
        known = literals.words if whole and is_one_word(plain) else literals.parts
        number = known.get(plain if case else js_lower(plain))
        return PlainKey(plain, case, whole) if number is None else LiteralKey(plain, first + number)


def plain_text(key: str) -> str | None:
    """Give the text of a key that can be looked for as it is, or nothing for one that is loose or empty."""
    if may_hold_macro(key) or SEPARATOR in key:
        return None
    stripped = trim(key)
    return None if not stripped or parse_regex_key(stripped) is not None else stripped


def loose_key(key: str, case: bool, whole: bool) -> Key:
    """Compile a key that the automaton does not hold."""
    if may_hold_macro(key):
        return MacroKey(key, case, whole)
    return expanded_key(key, case, whole)


def expanded_key(key: str, case: bool, whole: bool) -> Key:
    """Compile a key whose macros are expanded, to be looked for on its own."""
    if not key:
        return FixedKey(key, found=False)
    stripped = trim(key)
    if not stripped:
        return FixedKey(key, found=True)
    regex = parse_regex_key(stripped)
    return PlainKey(stripped, case, whole) if regex is None else RegexKey(stripped, regex)
