"""Searches for keys in texts by RisuAI's own rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import js_lower
from tavernkit._text.regex_time import RegexTime
from tavernkit._values import LRUCache
from tavernkit.errors import Warn
from tavernkit.lore._key_index import KeyIndex
from tavernkit.risu_ai._cbs.delimited import replace_in_lines
from tavernkit.risu_ai._lorebook.limits import MAX_REGEX_WORK, MAX_SLOW_KEYS

_COMMENTS = re.compile(r"\{\{(?://|comment:)[^\n\r\u2028\u2029]+?\}\}")
WORD_CACHE = 4096


@dataclass(frozen=True, slots=True)
class Query:
    """Keys to look for. A negative query must not match; in all-mode every key must be in every text."""

    keys: tuple[str, ...]
    negative: bool = False
    all_mode: bool = False


@dataclass(frozen=True, slots=True)
class KeyHit:
    """A found key: where (in RisuAI's words and in ours), and the key as written."""

    source: str
    key: str
    title: str = ""


def folded(text: str) -> str:
    """Return a text for comparison with literal keys: lower case, without comments."""
    lowered = js_lower(text)
    return replace_in_lines(_COMMENTS, "}}", "", lowered) if "{{" in lowered else lowered


class LiteralKeys:
    """All literal keys of a set of entries: each text is read once, regardless of the number of keys."""

    def __init__(self, keys: Sequence[str]) -> None:
        # By the key as it is written: in lower case, and without spaces as well.
        self.lowered = {key: js_lower(key) for key in dict.fromkeys(keys)}
        self.squeezed = {key: lowered.replace(" ", "") for key, lowered in self.lowered.items()}
        self._whole = frozenset(self.lowered.values())
        self._searched = tuple(dict.fromkeys(self.squeezed.values()))
        self._index = KeyIndex(self._searched)
        self._found: LRUCache[str, frozenset[str]] = LRUCache(WORD_CACHE)
        self._words: LRUCache[str, frozenset[str]] = LRUCache(WORD_CACHE)

    def partial_hits(self, text: str) -> frozenset[str]:
        """Squeezed keys that occur in a text."""
        return self._found.get_or_make(
            text,
            lambda: frozenset(self._searched[number] for number in self._index.find(folded(text).replace(" ", ""))),
        )

    def word_hits(self, text: str) -> frozenset[str]:
        """Keys in lower case that are words of a text."""
        return self._words.get_or_make(text, lambda: self._whole.intersection(folded(text).split(" ")))

    def searched(self, key: str, *, full_word: bool) -> str:
        """Return the form in which a key is searched."""
        return self.lowered[key] if full_word else self.squeezed[key]

    def contains(self, text: str, key: str, *, full_word: bool) -> bool:
        """Return True if one of the keys is in a text."""
        return self.searched(key, full_word=full_word) in (
            self.word_hits(text) if full_word else self.partial_hits(text)
        )


class RegexKeys:
    """Searches for regex keys during one scan, within a work limit."""

    def __init__(self, warn: Warn | None) -> None:
        self._warn = warn
        self._left = MAX_REGEX_WORK
        self._slow = 0
        self._time = RegexTime()

    def find(self, query: Query, texts: Iterable[tuple[int, str]]) -> tuple[int, str] | None:
        """Return which key is found where. The first slash of a key stays in its pattern, which replaces the first key.

        RisuAI does this, and also stops at a key that is not a regular expression.
        """
        keys = list(query.keys)
        for place, text in texts:
            for index in range(len(keys)):
                key = keys[index]
                if not key.startswith("/") or not self._spend(1):
                    return None
                flags = key[key.rfind("/") + 1 :]
                if not flags:
                    continue
                pattern = key.replace("/" + flags, "", 1)
                keys[0] = pattern
                try:
                    regex = JSRegex.compile(pattern, flags)
                except JSRegexSyntaxError:
                    return None
                if self._spend(len(text) >> 8) and regex.test(text, warn=self._note_slow):
                    return place, key
        return None

    def _note_slow(self, message: str) -> None:
        self._slow += 1
        if self._warn is not None:
            self._warn(message)
        if self._slow == MAX_SLOW_KEYS:
            self._stop()

    def _spend(self, work: int) -> bool:
        if self._left >= 0:
            self._left -= work
            if self._left < 0 or not self._time.is_left():
                self._stop()
        return self._left >= 0

    def _stop(self) -> None:
        self._left = -1
        if self._warn is not None:
            self._warn("lorebook: regex keys take too long, no more of them are looked for")
