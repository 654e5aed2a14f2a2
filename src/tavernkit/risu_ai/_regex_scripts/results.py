"""What scripts make of a text, and results that are not made again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

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


class ScriptResults:
    """Results by what they were made of. A full cache forgets its oldest one, however often it was asked for."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._results: OrderedDict[Hashable, str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> str:
        """A known result; an empty one counts as unknown, as in RisuAI."""
        with self._lock:
            return self._results.get(key, "")

    def clear(self) -> None:
        """Forget all results."""
        with self._lock:
            self._results.clear()

    def put(self, key: Hashable, result: str) -> None:
        """Remember a result, in the place of an older one with the same key."""
        with self._lock:
            self._results[key] = result
            if len(self._results) > self._max_size:
                self._results.popitem(last=False)
