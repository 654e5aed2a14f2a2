"""Looking for keys in texts, with RisuAI's own rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tavernkit.errors import Warn
from tavernkit.lore.key_index import KeyIndex
from tavernkit.risu_ai.delimited import replace_in_lines
from tavernkit.text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit.text.js_values import js_lower
from tavernkit.values import LRUCache

_COMMENTS = re.compile(r"\{\{(?://|comment:)[^\n\r\u2028\u2029]+?\}\}")
WORD_CACHE = 4096


@dataclass(frozen=True, slots=True)
class Query:
    """Keys to look for. A negative query must not match; in all-mode every key must be in every text."""

    keys: tuple[str, ...]
    negative: bool = False
    all_mode: bool = False


@dataclass(frozen=True, slots=True)
class ScannedText:
    """A text that keys are looked for in, what RisuAI calls a hit in it, and what people would call it."""

    source: str
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class KeyHit:
    """A key that was found: where (in RisuAI's words and in ours), and the key as it is written."""

    source: str
    key: str
    title: str = ""


def folded(text: str) -> str:
    """A text as literal keys are compared with it: lower case, without comments."""
    lowered = js_lower(text)
    return replace_in_lines(_COMMENTS, "}}", "", lowered) if "{{" in lowered else lowered


class LiteralKeys:
    """All literal keys of a set of entries: each text is read once, whatever the number of keys."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._lowered = {key: js_lower(key) for key in dict.fromkeys(keys)}
        self._squeezed = {key: lowered.replace(" ", "") for key, lowered in self._lowered.items()}
        self._searched = tuple(dict.fromkeys(self._squeezed.values()))
        self._index = KeyIndex(self._searched)
        self._found: LRUCache[str, frozenset[str]] = LRUCache(WORD_CACHE)
        self._words: LRUCache[str, frozenset[str]] = LRUCache(WORD_CACHE)

    def partial_hits(self, text: str) -> frozenset[str]:
        """Squeezed keys that occur in a text."""
        return self._found.get_or_make(
            text,
            lambda: frozenset(self._searched[number] for number in self._index.find(folded(text).replace(" ", ""))),
        )

    def contains(self, text: str, key: str, *, full_word: bool) -> bool:
        """Tell whether one of the keys is in a text."""
        if full_word:
            words = self._words.get_or_make(text, lambda: frozenset(folded(text).split(" ")))
            return self._lowered[key] in words
        return self._squeezed[key] in self.partial_hits(text)


def search_literal(
    query: Query, texts: Sequence[ScannedText], literals: LiteralKeys, hits: list[KeyHit], *, full_word: bool
) -> bool:
    """Look for literal keys; every hit is logged until the answer is known (in all-mode, all of them)."""
    everywhere = True
    for text in texts:
        for key in query.keys:
            if not literals.contains(text.text, key, full_word=full_word):
                everywhere = False
                continue
            hits.append(KeyHit(text.source, key, text.title))
            if not query.all_mode:
                return True
    return query.all_mode and everywhere


def search_regex(query: Query, texts: Sequence[ScannedText], hits: list[KeyHit], *, warn: Warn | None) -> bool:
    """Look for regex keys as RisuAI does: their first slash stays in the pattern, which then replaces the first key."""
    keys = list(query.keys)
    for text in texts:
        for index in range(len(keys)):
            key = keys[index]
            if not key.startswith("/"):
                return False
            flags = key[key.rfind("/") + 1 :]
            if not flags:
                continue
            pattern = key.replace("/" + flags, "", 1)
            keys[0] = pattern
            try:
                regex = JSRegex.compile(pattern, flags)
            except JSRegexSyntaxError:
                return False
            if regex.test(text.text, warn=warn):
                hits.append(KeyHit(text.source, key, text.title))
                return True
    return False
