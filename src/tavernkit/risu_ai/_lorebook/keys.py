"""The texts of a scan, and searches for keys in them by RisuAI's own rules: each text is read once per scan."""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import islice, repeat

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.js_regex.limits import RegexTime
from tavernkit._text.js_values import js_lower
from tavernkit._values import LRUCache
from tavernkit.errors import Warn
from tavernkit.lore._key_index import KeyIndex
from tavernkit.risu_ai._js import replace_in_lines
from tavernkit.risu_ai._limits import MAX_REGEX_WORK, MAX_SLOW_KEYS

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
    """Return a text for comparison with literal keys: lower case, without comments (an empty one stays)."""
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
        """Keys in lower case that are words of a text: split at spaces only, so that line ends and commas stick."""
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
                # RisuAI removes the first occurrence, which need not be the last: `/ice/i` becomes `ce/i`.
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


@dataclass(frozen=True, slots=True)
class LoreMessage:
    """A chat message as the engine sees it."""

    role: str
    """``user`` or ``char``."""
    text: str
    """What was said."""


@dataclass(frozen=True, slots=True)
class PoolText:
    """The text of an entry that can activate other entries: with RisuAI's name and a readable title."""

    source: str
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class Window:
    """Which texts count for an entry: the messages from ``first`` on, and perhaps those of other entries."""

    first: int
    pool: bool


@dataclass(slots=True)
class _Places:
    """The positions of keys: in messages (newest first, because older ones are read on demand) and in the pool."""

    keys_in: Callable[[str], frozenset[str]]
    read_from: int
    pool_read: int = 0
    messages: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    pool: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def read(self, messages: Sequence[LoreMessage], pool: Sequence[PoolText], first: int) -> None:
        for place in range(self.read_from - 1, first - 1, -1):
            for key in self.keys_in(messages[place].text):
                self.messages.setdefault(key, []).append(place)
        self.read_from = min(first, self.read_from)
        for place in range(self.pool_read, len(pool)):
            for key in self.keys_in(pool[place].text):
                self.pool.setdefault(key, []).append(place)
        self.pool_read = len(pool)

    def in_messages(self, key: str, first: int) -> int:
        """Return how many messages from there on have a key: the leading ones in its list."""
        return bisect_right(self.messages.get(key, ()), -first, key=lambda place: -place)


class SearchedTexts:
    """Messages, then the texts of activated entries. Positions count through both."""

    def __init__(self, messages: Sequence[LoreMessage], literals: LiteralKeys) -> None:
        self._messages = messages
        self._pool: list[PoolText] = []
        self._literals = literals
        self._partial = _Places(literals.partial_hits, len(messages))
        self._words = _Places(literals.word_hits, len(messages))

    def add(self, text: PoolText) -> None:
        """Add the text of an entry to the search."""
        self._pool.append(text)

    def each(self, window: Window) -> Iterator[tuple[int, str]]:
        """All texts of a window with their places."""
        for place in range(window.first, len(self._messages)):
            yield place, self._messages[place].text
        if window.pool:
            for number, text in enumerate(self._pool):
                yield len(self._messages) + number, text.text

    def hit(self, place: int, key: str, window: Window) -> KeyHit:
        """A key that was found at a place; RisuAI counts messages from the start of the window."""
        if place >= len(self._messages):
            text = self._pool[place - len(self._messages)]
            return KeyHit(text.source, key, text.title)
        role = self._messages[place].role
        return KeyHit(f"message {place - window.first} by {role}", key, f"message #{place} ({role})")

    def first_hit(self, query: Query, window: Window, *, full_word: bool) -> KeyHit | None:
        """The first key in the first text that has one."""
        found: tuple[int, int] | None = None
        for number, key in enumerate(query.keys):
            place = next(self._places(key, window, full_word=full_word), None)
            if place is not None and (found is None or place < found[0]):
                found = place, number
        return None if found is None else self.hit(found[0], query.keys[found[1]], window)

    def has_all(self, query: Query, window: Window, *, full_word: bool) -> bool:
        """True if every text has every key; without texts or keys, too, so that ``exclude_keys_all`` then blocks."""
        places = self._index(window, full_word=full_word)
        in_chat, in_pool = len(self._messages) - window.first, len(self._pool) if window.pool else 0
        return all(
            places.in_messages(name, window.first) == in_chat
            and (not in_pool or len(places.pool.get(name, ())) == in_pool)
            for name in (self._literals.searched(key, full_word=full_word) for key in query.keys)
        )

    def all_hits(self, query: Query, window: Window, *, full_word: bool, limit: int) -> list[KeyHit]:
        """All keys in all texts, text by text, up to a limit."""
        each_key = (
            zip(self._places(key, window, full_word=full_word), repeat(at)) for at, key in enumerate(query.keys)
        )
        return [self.hit(place, query.keys[at], window) for place, at in islice(heapq.merge(*each_key), limit)]

    def _places(self, key: str, window: Window, *, full_word: bool) -> Iterator[int]:
        places = self._index(window, full_word=full_word)
        name = self._literals.searched(key, full_word=full_word)
        in_messages = places.messages.get(name, ())
        for number in range(places.in_messages(name, window.first) - 1, -1, -1):
            yield in_messages[number]
        if window.pool:
            for place in places.pool.get(name, ()):
                yield len(self._messages) + place

    def _index(self, window: Window, *, full_word: bool) -> _Places:
        places = self._words if full_word else self._partial
        if places.read_from > window.first or places.pool_read < len(self._pool):
            places.read(self._messages, self._pool, window.first)
        return places
