"""Results of scripts, and a cache of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import TypeAlias

from tavernkit._dataclass import dataclass

_NOTHING: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The text after the scripts; ``stored`` are message texts that ``@@inject`` changed."""

    text: str
    """The text after the scripts."""
    emotion_changed: bool = False
    """True if a script chose an emotion (``@@emo``)."""
    emotions: Sequence[str] = ()
    """The emotions that were chosen."""
    stored: Mapping[int, str] = field(default_factory=lambda: _NOTHING)


ResultKey: TypeAlias = tuple[str, str, Hashable, int, str, bool]
"""What a result depends on: the text, the mode, the scripts, the place of the message in the chat, its role, and
whether it is the greeting."""


NO_RESULT: ResultKey = ("", "", None, -2, "", False)
"""The key of a message whose result can change."""


class ScriptedTexts:
    """Results for the messages of a chat, from the first on, that are always the same. It only grows."""

    def __init__(self, keys: Iterable[ResultKey] = (), made: Iterable[str] = ()) -> None:
        self.keys = list(keys)
        """What each result is remembered by."""
        self.made = list(made)

    def __len__(self) -> int:
        return len(self.made)

    def append(self, key: ResultKey, made: str) -> None:
        """Add the next message."""
        self.keys.append(key)
        self.made.append(made)

    def until(self, end: int) -> ScriptedTexts:
        """Return others that begin with the first ``end`` of these."""
        return ScriptedTexts(self.keys[:end], self.made[:end])


class ScriptResults:
    """Results by what they depend on. A full cache drops its oldest one, even if it was used often.

    A long chat fills it with the results of its last messages in every turn. These are not stored one by one: the
    oldest results are those of ``_texts`` from ``_start`` to ``_end``, all newer ones are in ``_results``.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._results: OrderedDict[ResultKey, str] = OrderedDict()
        self._texts: ScriptedTexts | None = None
        self._start = self._end = 0
        self._forgotten = 0
        self._present: tuple[ScriptedTexts, int, int] | None = None
        """Texts whose first results, so many, were all there when ``_forgotten`` had this value."""
        self._lock = threading.Lock()

    def get(self, key: ResultKey) -> str:
        """A known result; an empty one counts as unknown, as in RisuAI."""
        with self._lock:
            texts, place = self._texts, key[3]
            if texts is not None and self._start <= place < self._end and texts.keys[place] == key:
                return texts.made[place]
            return self._results.get(key, "")

    def clear(self) -> None:
        """Forget all results."""
        with self._lock:
            self._results.clear()
            self._texts, self._start, self._end = None, 0, 0
            self._forgotten += 1

    def put(self, key: ResultKey, result: str) -> None:
        """Remember a result, in the place of an older one with the same key."""
        with self._lock:
            self._put(key, result)

    def put_texts(self, texts: ScriptedTexts, count: int) -> None:
        """Remember the results of the first ``count`` messages of a chat, as if each was put."""
        with self._lock:
            if self._texts is texts and self._all_are_new(texts, count):
                self._results.clear()
            else:
                self._put_each(texts, count)
                if not self._are_last(texts, count):
                    return
                self._results.clear()
                self._texts = texts
            self._start, self._end = count - self._max_size, count
            self._forgotten += 1

    def _all_are_new(self, texts: ScriptedTexts, count: int) -> bool:
        """Return True if putting the first ``count`` results would forget each one before it is put again.

        The cache is full and its oldest result is that of a later message than the first, so that the results of this
        chat go in the order in which they come back. Those that were put since must not be among the first.
        """
        if not 0 < self._start < self._end or count < self._max_size:
            return False
        first = len(texts.keys[: self._max_size])
        return not any(0 <= key[3] < first and texts.keys[key[3]] == key for key in self._results)

    def _are_last(self, texts: ScriptedTexts, count: int) -> bool:
        """Return True if the cache is full of the results of the last of so many messages."""
        if not 0 < self._max_size == len(self._results) <= count:
            return False
        return list(self._results) == texts.keys[count - self._max_size : count]

    def _put_each(self, texts: ScriptedTexts, count: int) -> None:
        first = 0
        if self._present is not None and self._present[0] is texts and self._present[2] == self._forgotten:
            first = self._present[1]  # nothing went since: they are all there
        if self._texts is not None:
            old = self._texts
            chosen = slice(self._start, self._end)
            older = OrderedDict(zip(old.keys[chosen], old.made[chosen], strict=True))
            older.update(self._results)
            self._results, self._texts = older, None
            self._start = self._end = 0
        before = self._forgotten
        for place in range(first, count):
            self._put(texts.keys[place], texts.made[place])
        self._present = (texts, max(count, first), before) if before == self._forgotten else None

    def _put(self, key: ResultKey, result: str) -> None:
        texts, place = self._texts, key[3]
        if texts is not None and self._start <= place < self._end and texts.keys[place] == key:
            return
        self._results[key] = result
        if len(self._results) + self._end - self._start <= self._max_size:
            return
        self._forgotten += 1
        if texts is None:
            self._results.popitem(last=False)
            return
        self._start += 1
        if self._start == self._end:
            self._texts, self._start, self._end = None, 0, 0
