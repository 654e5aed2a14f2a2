"""The keys of all entries of a scan, compiled for one pair of case and whole-word settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_regex.needs import needs_of
from tavernkit._text.js_regex.syntax import parse_pattern
from tavernkit._text.js_values import js_lower, trim, truthy
from tavernkit._values import is_list
from tavernkit.lore._key_index import KeyIndex
from tavernkit.silly_tavern._world_info.entry import Entry
from tavernkit.silly_tavern._world_info.keys import is_one_word, may_hold_macro, parse_regex_key
from tavernkit.silly_tavern._world_info.limits import COMPILED_REGEX_NEEDS
from tavernkit.silly_tavern._world_info.selection import Listed

SHORTEST = 3
"""Shorter texts stand in nearly every message: looking for them saves nothing."""


@lru_cache(COMPILED_REGEX_NEEDS)
def regex_needs(regex: JSRegex) -> tuple[str, ...] | None:
    """Give lower-case texts of which one stands in the lower-case form of any text that matches, if there are any."""
    needs = tuple(dict.fromkeys(text.lower() for text in needs_of(parse_pattern(regex.source, regex.flags))))
    return needs if needs and min(map(len, needs)) >= SHORTEST else None


_WORDS = re.compile(r"[\w'’-]+(?: [\w'’-]+)*")

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
    """A key ``/pattern/flags``; ``needs`` numbers the plain texts of which one has to be there, if any is needed."""

    text: str
    regex: JSRegex
    needs: tuple[int, ...] = ()


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
    """The plain keys of one case mode, each with the entries that have it among their primary keys."""

    __slots__ = ("_keys", "_more_owners", "_owners", "index", "parts", "words")

    index: KeyIndex

    def __init__(self) -> None:
        self._keys: list[str] = []
        # Most keys belong to one entry: only the others get a list.
        self._owners: list[int | None] = []
        self._more_owners: dict[int, list[int]] = {}
        self.words: dict[str, int] = {}
        self.parts: dict[str, int] = {}

    def add(self, key: str, whole_word: bool, owner: int | None) -> None:
        keys = self._keys
        fresh = len(keys)
        number = (self.words if whole_word else self.parts).setdefault(key, fresh)
        if number == fresh:
            keys.append(key)
            self._owners.append(owner)
        elif owner is not None:
            if self._owners[number] is None:
                self._owners[number] = owner
            else:
                self._more_owners.setdefault(number, []).append(owner)

    def finish(self) -> None:
        self.index = KeyIndex(self._keys, whole_words=self.words.values())

    def owners(self, number: int) -> Iterable[int]:
        first = self._owners[number]
        return () if first is None else (first, *self._more_owners.get(number, ()))


class KeyTable:
    """Finds the entries whose plain keys occur in a text, without looking at the others.

    ``loose`` numbers the entries with keys that the automaton cannot hold (macros, blanks, regular expressions that
    need no certain text): they have to be looked at in every pass.
    """

    __slots__ = ("_case_sensitive", "_compiled", "_exact", "_folded", "_whole_words", "loose")

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
            own_case, own_whole = raw.get("caseSensitive"), raw.get("matchWholeWords")
            case = case_sensitive if own_case is None else truthy(own_case)
            whole = whole_words if own_whole is None else truthy(own_whole)
            if self._collect(keys, position, case, whole):
                loose.append(position)
            secondary = raw.get("keysecondary")
            if secondary and is_list(secondary):
                self._collect(secondary, None, case, whole)
        self.loose = tuple(loose)
        self._folded.finish()
        self._exact.finish()

    def _collect(self, keys: Sequence[object], owner: int | None, case: bool, whole: bool) -> bool:
        literals = self._exact if case else self._folded
        loose = False
        for key in keys:
            if not isinstance(key, str) or not key:
                continue
            # Usual keys, a word or several, need no closer look: no macro, no slash, no blank at the ends.
            if key.isalnum():
                plain, word = key, whole
            elif _WORDS.fullmatch(key):
                plain, word = key, whole and " " not in key
            else:
                stripped = plain_text(key)
                if stripped is None:
                    loose |= not self._collect_needs(key, owner)
                    continue
                plain, word = stripped, whole and is_one_word(stripped)
            literals.add(plain if case else plain.lower(), word, owner)  # as js_lower does
        return loose

    def _collect_needs(self, key: str, owner: int | None) -> bool:
        """Let the automaton look for what a regex key needs; return True if that is enough to notice the entry."""
        regex = None if may_hold_macro(key) else parse_regex_key(trim(key))
        needs = None if regex is None else regex_needs(regex)
        for text in needs or ():
            self._folded.add(text, False, owner)
        return needs is not None

    def find(self, text: str) -> dict[int, int]:
        """Give the numbers of the plain keys that occur in a text, each with the offset of its first occurrence."""
        folded, exact = self._folded.index, self._exact.index
        found = folded.find(js_lower(text)) if len(folded) else {}
        if len(exact):
            first = len(folded)
            found.update((first + number, offset) for number, offset in exact.find(text).items())
        return found

    def owners(self, number: int) -> Iterable[int]:
        """Give the entries that have a plain key among their primary keys, by their place in the list."""
        first = len(self._folded.index)
        return self._folded.owners(number) if number < first else self._exact.owners(number - first)

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
        """Return True if an entry is case-sensitive and whether it wants whole words: its own setting or the global."""
        case, whole = entry.case_sensitive, entry.match_whole_words
        return self._case_sensitive if case is None else case, self._whole_words if whole is None else whole

    def _compile(self, key: str, case: bool, whole: bool) -> Key:
        plain = plain_text(key)
        if plain is None:
            return self._compile_loose(key, case, whole)
        literals, first = (self._exact, len(self._folded.index)) if case else (self._folded, 0)
        known = literals.words if whole and is_one_word(plain) else literals.parts
        number = known.get(plain if case else js_lower(plain))
        return PlainKey(plain, case, whole) if number is None else LiteralKey(plain, first + number)

    def _compile_loose(self, key: str, case: bool, whole: bool) -> Key:
        if may_hold_macro(key):
            return MacroKey(key, case, whole)
        compiled = expanded_key(key, case, whole)
        if isinstance(compiled, RegexKey):
            needs = regex_needs(compiled.regex) or ()
            return RegexKey(compiled.text, compiled.regex, tuple(self._folded.parts[text] for text in needs))
        return compiled


def plain_text(key: str) -> str | None:
    """Give the text of a key that can be looked for as it is, or nothing for one that is loose or empty."""
    if may_hold_macro(key) or SEPARATOR in key:
        return None
    stripped = trim(key)
    return None if not stripped or parse_regex_key(stripped) is not None else stripped


def expanded_key(key: str, case: bool, whole: bool) -> Key:
    """Compile a key whose macros are expanded, to be looked for on its own."""
    if not key:
        return FixedKey(key, found=False)
    stripped = trim(key)
    if not stripped:
        return FixedKey(key, found=True)
    regex = parse_regex_key(stripped)
    return PlainKey(stripped, case, whole) if regex is None else RegexKey(stripped, regex)
