"""All literal keys of a set of books in one automaton."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from ahocorasick_rs import AhoCorasick

from tavernkit._text.js_values.strings import occurrences
from tavernkit.errors import ConfigError

PATTERN_CHARACTERS = 32
"""How many characters of a key the automaton looks for; the rest of a longer key is compared where they are found.

This bounds the work: at most this many different prefixes can end at one position of a text.
"""

WINDOW_CHARACTERS = 1024
"""How much text the automaton reads at a time, which bounds the list of places it returns."""

MANY_PLACES = 20_000
"""After how many hits in a text the keys that only cost time are removed from the search."""

FREQUENT = 64
"""How often a prefix must occur in a window before its keys are searched separately."""

FEW_KEYS = 16
"""Up to how many keys of the same length and prefix are compared one by one."""

MANY_PATTERNS = 1_000
"""From how many patterns on an automaton gets an extra one, see ``_Automaton``."""

LONG_WORD = 1_000
"""From how many characters on a whole word is searched without a regular expression."""

ASCII_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
"""What JavaScript's ``\\w`` matches."""

_SURROGATE = re.compile("[\ud800-\udfff]")

_Others: TypeAlias = dict[int, dict[str, list[int]]]
"""Numbers of keys by length and text."""


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


class KeyIndex:
    """Finds all of many literal keys in a text in one pass; the cost depends on the text and the matches only.

    A key is identified by its index in ``keys``. The keys whose indexes are in ``whole_words`` match only where no
    character of ``word_characters`` is directly before or after them. Texts are compared unchanged: to ignore case or
    spaces, callers normalise both keys and texts.
    """

    __slots__ = ("_automaton", "_keys", "_others", "_unencodable", "_whole", "_word_characters")

    def __init__(
        self,
        keys: Sequence[str],
        *,
        whole_words: Collection[int] = (),
        word_characters: frozenset[str] = ASCII_WORD,
    ) -> None:
        self._keys = keys if isinstance(keys, tuple) else tuple(keys)
        self._whole = frozenset(whole_words)
        self._word_characters = word_characters
        # The first key with a prefix, and the others if there are any: most prefixes belong to one key only,
        # and a list for each would cost more than everything else.
        firsts: dict[str, int] = {}
        others: dict[int, _Others] = {}
        for number, key in enumerate(self._keys):
            beginning = key if len(key) <= PATTERN_CHARACTERS else key[:PATTERN_CHARACTERS]
            first = firsts.setdefault(beginning, number)
            if first != number:
                others.setdefault(first, {}).setdefault(len(key), {}).setdefault(key, []).append(number)
        if "" in firsts:
            raise ConfigError("KeyIndex takes keys of at least one character: leave out empty ones")
        self._others = others
        unencodable = [firsts.pop(pattern) for pattern in [*filter(_has_surrogate, firsts)]]
        self._unencodable = tuple(number for first in unencodable for number in self._numbers(first))
        self._automaton = _Automaton(firsts) if firsts else None

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, text: str) -> dict[int, int]:
        """Return the index of every key that occurs in ``text``, with the offset of its first occurrence."""
        found: dict[int, int] = {}
        for number in self._unencodable:
            self._look_for(number, text, found)
        automaton = self._automaton
        if automaton is None or not text:
            return found
        # The automaton does not accept lone surrogates; its matches are compared with the real text.
        plain = text if text.isascii() else _SURROGATE.sub("\ufffd", text)
        settled: set[int] = set()
        places, many = 0, MANY_PLACES
        for start in range(0, len(text), WINDOW_CHARACTERS):
            matches = automaton.find(plain[start : start + WINDOW_CHARACTERS + PATTERN_CHARACTERS - 1])
            places += len(matches)
            for pattern, offset, _ in matches:
                first = automaton.firsts[pattern]
                if first not in found and self._is_at(first, text, start + offset):
                    found[first] = start + offset
                if first in self._others:
                    places += self._compare_others(first, text, start + offset, found)
            if places > many:
                for pattern, times in Counter(pattern for pattern, _, _ in matches).items():
                    if times >= FREQUENT:
                        self._find_alike(automaton.firsts[pattern], text, found)
                        settled.add(automaton.firsts[pattern])
                smaller = self._without(automaton, found, settled)
                places, many = 0, 2 * many if smaller is automaton else MANY_PLACES
                automaton = smaller
        return found

    def _numbers(self, first: int) -> Iterator[int]:
        """Return all keys with the same prefix as the first one."""
        yield first
        for keys in self._others.get(first, {}).values():
            for numbers in keys.values():
                yield from numbers

    def _is_at(self, number: int, text: str, offset: int) -> bool:
        key = self._keys[number]
        if not text.startswith(key, offset):
            return False
        return number not in self._whole or stands_alone(text, offset, offset + len(key), self._word_characters)

    def _compare_others(self, first: int, text: str, offset: int, found: dict[int, int]) -> int:
        """Compare the other keys with the same prefix as the first one; return how much work it was."""
        work = 0
        for length, keys in self._others[first].items():
            few = len(keys) <= FEW_KEYS
            candidates = keys.values() if few else [keys.get(text[offset : offset + length], ())]
            work += len(candidates)
            for numbers in candidates:
                for number in numbers:
                    if number not in found and self._is_at(number, text, offset):
                        found[number] = offset
        return work

    def _find_alike(self, first: int, text: str, found: dict[int, int]) -> None:
        """Find all keys with the same prefix as the first one, without the automaton."""
        self._look_for(first, text, found)
        beginning = self._keys[first][:PATTERN_CHARACTERS]
        for length, keys in self._others.get(first, {}).items():
            if len(keys) <= FEW_KEYS:
                for numbers in keys.values():
                    for number in numbers:
                        self._look_for(number, text, found)
                continue
            for offset in occurrences(text, beginning):
                for number in keys.get(text[offset : offset + length], ()):
                    if number not in found and self._is_at(number, text, offset):
                        found[number] = offset

    def _look_for(self, number: int, text: str, found: dict[int, int]) -> None:
        if number in found:
            return
        key = self._keys[number]
        if number not in self._whole:
            offset = text.find(key)
        elif len(key) < LONG_WORD:
            word = f"[{re.escape(''.join(sorted(self._word_characters)))}]"
            match = re.search(f"(?<!{word}){re.escape(key)}(?!{word})", text)
            offset = -1 if match is None else match.start()
        else:
            places = occurrences(text, key)
            offset = next((at for at in places if stands_alone(text, at, at + len(key), self._word_characters)), -1)
        if offset >= 0:
            found[number] = offset

    def _without(self, automaton: _Automaton, found: Mapping[int, int], settled: Collection[int]) -> _Automaton:
        """Make a smaller automaton without keys that are no longer searched for, if that pays off."""
        rest = {
            self._keys[first][:PATTERN_CHARACTERS]: first
            for first in automaton.firsts
            if first not in settled and first >= 0 and any(number not in found for number in self._numbers(first))
        }
        return _Automaton(rest) if settled or 2 * len(rest) <= len(automaton.firsts) else automaton


class _Automaton:
    """Distinct patterns, each with a number.

    If nearly every state of an automaton ends a pattern, as with the keys ``a0``, ``a1``, ``a2`` and so on, building it
    takes quadratic time, because the library renumbers its states in cycles. A first pattern that is longer than any
    window, and therefore never found, adds enough states that end none.
    """

    __slots__ = ("_automaton", "firsts")

    def __init__(self, firsts: Mapping[str, int]) -> None:
        patterns, self.firsts = [*firsts], [*firsts.values()]
        if len(patterns) >= MANY_PATTERNS:
            patterns.insert(0, "\0" * max(WINDOW_CHARACTERS + PATTERN_CHARACTERS, len(patterns) // 64))
            self.firsts.insert(0, -1)
        self._automaton = AhoCorasick(patterns, store_patterns=False) if patterns else None

    def find(self, text: str) -> Sequence[tuple[int, int, int]]:
        """Return number, start and end of every match."""
        return [] if self._automaton is None else self._automaton.find_matches_as_indexes(text, overlapping=True)


def stands_alone(text: str, start: int, end: int, word_characters: frozenset[str] = ASCII_WORD) -> bool:
    """Return True if no word character is directly before ``start`` or at ``end``."""
    before_is_free = start == 0 or text[start - 1] not in word_characters
    return before_is_free and (end >= len(text) or text[end] not in word_characters)
