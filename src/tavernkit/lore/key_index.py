"""All literal keys of a set of books in one automaton."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ahocorasick_rs import AhoCorasick

from tavernkit.errors import ConfigError

PATTERN_CHARACTERS = 32
"""How much of a key the automaton looks for; the rest of a longer key is compared where its beginning was found.

It bounds the work: at most this many different beginnings can start inside each other at one place of a text.
"""

WINDOW_CHARACTERS = 1024
"""How much text the automaton reads at a time, which bounds the list of places it returns."""

ASCII_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
"""What JavaScript's ``\\w`` matches."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


class KeyIndex:
    """Finds all of many literal keys in a text in one pass; the cost is that of the text and of what is found.

    A key is known by its number, its place in ``keys``. The keys numbered in ``whole_words`` count only where no
    character of ``word_characters`` stands directly before or after them. Texts are compared as they are: a caller
    that wants case or blanks ignored prepares keys and texts alike.
    """

    __slots__ = ("_automaton", "_firsts", "_keys", "_others", "_unencodable", "_whole", "_word_characters")

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
        # The first key with a beginning, and the others if there are any: most beginnings belong to one key only,
        # and a list for each would cost more than everything else.
        firsts: dict[str, int] = {}
        others: dict[int, list[int]] = {}
        for number, key in enumerate(self._keys):
            first = firsts.setdefault(key[:PATTERN_CHARACTERS], number)
            if first != number:
                others.setdefault(first, []).append(number)
        if "" in firsts:
            raise ConfigError("KeyIndex takes keys of at least one character: leave out empty ones")
        unencodable = [firsts.pop(pattern) for pattern in [*filter(_has_surrogate, firsts)]]
        self._unencodable = tuple(number for first in unencodable for number in (first, *others.get(first, ())))
        self._firsts = tuple(firsts.values())
        self._others = others
        self._automaton = AhoCorasick(firsts, store_patterns=False) if firsts else None

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, text: str) -> dict[int, int]:
        """Give the number of every key that occurs in ``text``, with the offset of its first occurrence."""
        found: dict[int, int] = {}
        for number in self._unencodable:
            self._look_for(number, text, found)
        if self._automaton is None or not text:
            return found
        # Half of a surrogate pair cannot be handed to the automaton; what it finds is compared with the real text.
        plain = text if text.isascii() else _SURROGATE.sub("\ufffd", text)
        for start in range(0, len(text), WINDOW_CHARACTERS):
            window = plain[start : start + WINDOW_CHARACTERS + PATTERN_CHARACTERS - 1]
            for pattern, offset, _ in self._automaton.find_matches_as_indexes(window, overlapping=True):
                first = self._firsts[pattern]
                for number in (first, *self._others.get(first, ())):
                    if number not in found and self._is_at(number, text, start + offset):
                        found[number] = start + offset
        return found

    def _look_for(self, number: int, text: str, found: dict[int, int]) -> None:
        key = self._keys[number]
        offset = text.find(key)
        while offset >= 0:
            if self._is_at(number, text, offset):
                found[number] = offset
                return
            offset = text.find(key, offset + 1)

    def _is_at(self, number: int, text: str, offset: int) -> bool:
        key = self._keys[number]
        if not text.startswith(key, offset):
            return False
        return number not in self._whole or stands_alone(text, offset, offset + len(key), self._word_characters)


def stands_alone(text: str, start: int, end: int, word_characters: frozenset[str] = ASCII_WORD) -> bool:
    """Tell whether no word character stands directly before ``start`` or at ``end``."""
    before_is_free = start == 0 or text[start - 1] not in word_characters
    return before_is_free and (end >= len(text) or text[end] not in word_characters)
