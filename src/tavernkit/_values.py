"""Values that every package uses: JSON types, deep freezing and merging, a bounded cache, lazy lists."""

from __future__ import annotations

import copyreg
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar, overload

from tavernkit.errors import LimitExceededError

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
"""Anything that ``json.loads()`` returns."""

JsonObject: TypeAlias = dict[str, Json]
"""A JSON object."""

FrozenJson: TypeAlias = bool | int | float | str | Sequence["FrozenJson"] | Mapping[str, "FrozenJson"] | None
"""JSON that must not be changed, as ``freeze()`` returns it. Plain JSON is accepted as well."""

FrozenObject: TypeAlias = Mapping[str, FrozenJson]
"""A JSON object that must not be changed."""

EMPTY_OBJECT: FrozenObject = MappingProxyType({})
"""A shared empty frozen object, for defaults."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)


def _read_only(value: dict[str, object]) -> MappingProxyType[str, object]:
    return MappingProxyType(value)


# Frozen objects are read-only views, which Python can neither pickle nor copy by itself.
copyreg.pickle(MappingProxyType, lambda value: (_read_only, (dict(value),)))

SCALARS = frozenset({str, int, float, bool, type(None)})
"""The types of JSON values that contain no others."""

_NO_MAPPINGS = SCALARS | {list, tuple}

_OPEN_PARTS = 32
"""How many of the last parts of a join may still change: turns change no others."""

MAX_NESTING = 100_000
"""How deeply a copied value may be nested: only a value that contains itself is deeper."""


def freeze(value: object) -> FrozenJson:
    """Copy JSON-like data deeply into mappings and tuples that cannot be changed.

    Values that are not JSON (an image handle in an attachment, say) are kept as they are.
    """
    if value is None or isinstance(value, (str, int, float)):  # most values
        return value
    try:
        return _freeze(value)
    except RecursionError:
        return _copy_deep(value, MappingProxyType, tuple)


def freeze_object(value: Mapping[str, object] | None) -> FrozenObject:
    """Freeze a mapping; None becomes the empty object."""
    if not value:
        return EMPTY_OBJECT
    frozen = {str(key): item if type(item) in SCALARS else freeze(item) for key, item in value.items()}
    return MappingProxyType(frozen)  # pyright: ignore[reportReturnType]  # the checker does not know the scalars


def thaw(value: object) -> Json:
    """Copy frozen data deeply into plain dicts and lists, ready for ``json``."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    try:
        return _thaw(value)
    except RecursionError:
        return _copy_deep(value, dict, list)


def thaw_object(value: Mapping[str, object]) -> JsonObject:
    """Copy a frozen mapping deeply into a plain dict."""
    return {str(key): item if type(item) in SCALARS else thaw(item) for key, item in value.items()}  # pyright: ignore[reportReturnType]  # the checker does not know the scalars


def _freeze(value: object) -> FrozenJson:
    # Most values are scalars, and a call for each costs more than the copy.
    if is_mapping(value):
        frozen = {str(key): item if type(item) in SCALARS else _freeze(item) for key, item in value.items()}
        return MappingProxyType(frozen)  # pyright: ignore[reportReturnType]  # the checker does not know the scalars
    if is_sequence(value):
        return tuple([item if type(item) in SCALARS else _freeze(item) for item in value])  # pyright: ignore[reportReturnType]  # as above
    return value  # pyright: ignore[reportReturnType]  # opaque values pass through by contract


def _thaw(value: object) -> Json:
    if is_mapping(value):
        return {str(key): item if type(item) in SCALARS else _thaw(item) for key, item in value.items()}  # pyright: ignore[reportReturnType]  # as above
    if is_sequence(value):
        return [item if type(item) in SCALARS else _thaw(item) for item in value]  # pyright: ignore[reportReturnType]  # as above
    return value  # pyright: ignore[reportReturnType]  # opaque values pass through by contract


def _copy_deep(value: object, mapping: Callable[[dict[str, Any]], Any], sequence: Callable[[list[Any]], Any]) -> Any:
    """Copy a value nested deeper than Python's recursion limit: any depth, but slower."""
    waiting = [_copy(value, mapping, sequence)]
    copied: object = None
    while waiting:
        try:
            item = waiting[-1].send(copied)
        except StopIteration as done:
            waiting.pop()
            copied = done.value
        else:
            if len(waiting) == MAX_NESTING:
                raise LimitExceededError(f"a value is nested deeper than {MAX_NESTING} levels", limit="MAX_NESTING")
            waiting.append(_copy(item, mapping, sequence))
            copied = None
    return copied


def _copy(
    value: object, mapping: Callable[[dict[str, Any]], Any], sequence: Callable[[list[Any]], Any]
) -> Generator[object, Any, Any]:
    """Copy one level: each value in it is yielded, and its copy is sent back."""
    if is_mapping(value):
        members: dict[str, Any] = {}
        for key, item in value.items():
            members[str(key)] = yield item
        return mapping(members)
    if is_sequence(value):
        items: list[Any] = []
        for item in value:
            copied: Any = yield item
            items.append(copied)
        return sequence(items)
    return value


def is_object(value: object) -> TypeGuard[dict[str, Json]]:
    """Return True if a parsed JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Json]]:
    """Return True if a parsed JSON value is a list."""
    return isinstance(value, list)


def is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    """Return True if a value of unknown origin is a mapping (frozen or not); keys are taken to be text."""
    kind = type(value)  # checking this first is faster than asking an abstract class
    if kind is dict or kind is MappingProxyType:
        return True
    return kind not in _NO_MAPPINGS and isinstance(value, Mapping)


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """Return True if a value of unknown origin is a list or tuple (text is not)."""
    return isinstance(value, (list, tuple))


def shown(value: object, length: int = 60) -> str:
    """Return the beginning of any value, for a message."""
    try:
        return repr(value)[:length]
    except RecursionError:
        return "a value that is nested too deeply"
    except ValueError:
        return "a number with too many digits"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun, such as "2 files"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Show control characters instead of sending them: a card must not control the terminal."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n"))


def deep_merge(left: Mapping[str, object], right: Mapping[str, object]) -> dict[str, object]:
    """Merge mappings recursively; where both have a value that is not a mapping, ``right`` wins (lists too)."""
    merged: dict[str, object] = dict(left)
    pairs: list[tuple[dict[str, object], Mapping[str, object]]] = [(merged, right)]
    for target, given in pairs:  # a list that grows while it is read, as values may be nested deeper than calls
        for key, value in given.items():
            old = target.get(key)
            if is_mapping(old) and is_mapping(value):
                target[key] = inner = dict(old)
                pairs.append((inner, value))
            else:
                target[key] = value
    return merged


_Items = TypeVar("_Items", list[Any], tuple[Any, ...])


def same_start(before: _Items, now: _Items, start: int = 0) -> int:
    """Return the index up to which two lists or two tuples have the same items, from ``start`` on.

    Identical objects are not compared, so this is fast for a list that has grown.
    """
    end = min(len(before), len(now))
    if not start:  # a slice of a long list takes longer than comparing it
        if (before if len(before) == end else before[:end]) == (now if len(now) == end else now[:end]):
            return end
    elif before[start:end] == now[start:end]:
        return end
    while end - start > 1:
        middle = (start + end) // 2
        if before[start:middle] == now[start:middle]:
            start = middle
        else:
            end = middle
    return start


class GrowingJoin:
    """Joins lists of bytes of which each begins as the one before: what is joined already is not joined again."""

    def __init__(self, separator: bytes) -> None:
        self._separator = separator
        self._joined = b""
        self._count = 0

    def join(self, parts: list[bytes], same: int) -> list[bytes]:
        """Return few parts that put together are the joined list.

        Args:
            parts: The list.
            same: How many of its first parts are those of the list before.
        """
        if not same >= self._count >= len(parts) - 2 * _OPEN_PARTS:
            self._count = max(len(parts) - _OPEN_PARTS, 0)
            self._joined = self._separator.join(parts[: self._count])
        shown = [self._joined, *parts[self._count :]] if self._count else parts
        found = [self._separator] * (2 * len(shown) - 1)
        found[::2] = shown
        return found


class LRUCache(Generic[K, V]):
    """A thread-safe cache that keeps the most recently used values: ``max_size`` of them.

    With ``weigh``, ``max_size`` limits their total weight, because sizes may differ a thousandfold.
    """

    def __init__(self, max_size: int, weigh: Callable[[K, V], int] | None = None) -> None:
        if max_size < 1:
            raise ValueError(f"max_size must be at least 1, not {max_size}")
        self._max_size = max_size
        self._weigh = weigh
        self._weight = 0
        self._items: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[LRUCache[K, V]], tuple[int, Callable[[K, V], int] | None]]:
        """A copy starts empty: cached values can be made again."""
        return type(self), (self._max_size, self._weigh)

    def get(self, key: K) -> V | None:
        """Return the value and mark it as used; None if it is not cached."""
        with self._lock:
            value = self._items.get(key)
            if value is not None:
                self._items.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Store a value; the least recently used ones are dropped to make room."""
        weigh = self._weigh
        with self._lock:
            old = self._items.pop(key, None)
            self._items[key] = value  # at the end
            if weigh is None:
                if len(self._items) > self._max_size:
                    self._items.popitem(last=False)
                return
            if old is not None:
                self._weight -= weigh(key, old)
            self._weight += weigh(key, value)
            while self._weight > self._max_size:
                self._weight -= weigh(*self._items.popitem(last=False))

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the cached value, or make and store it (outside the lock: two threads may both make it)."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def values(self) -> list[V]:
        """Return all values, the least recently used first."""
        with self._lock:
            return list(self._items.values())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self._weight = 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._items)


class IdentityCache(Generic[V]):
    """A cache of values by the objects they were made from; equal objects count as different ones."""

    def __init__(self, max_size: int) -> None:
        self._made: LRUCache[tuple[int, ...], tuple[tuple[object, ...], V]] = LRUCache(max_size)

    def get(self, *parts: object) -> V | None:
        """Return the value made from exactly these objects, or None."""
        known = self._made.get(tuple(map(id, parts)))
        return None if known is None else known[1]

    def put(self, value: V, *parts: object) -> V:
        """Store a value, and return it."""
        self._made.put(tuple(map(id, parts)), (parts, value))  # which keeps the objects, and so their ids, alive
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._made.clear()


class LazySequence(Sequence[T_co]):
    """A list that may be long and is rarely read as a whole: ``make`` creates the item at an index on demand."""

    __slots__ = ("_length", "_make")

    def __init__(self, length: int, make: Callable[[int], T_co]) -> None:
        self._length = length
        self._make = make

    def __reduce__(self) -> tuple[type[tuple[T_co, ...]], tuple[list[T_co]]]:
        """A pickle contains all items, not the function that makes them."""
        return tuple, (list(self),)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T_co]:
        return map(self._make, range(self._length))

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | list[T_co]:
        """The item at an index, or the items of a slice."""
        places = range(self._length)[index]
        return self._make(places) if isinstance(places, int) else [self._make(place) for place in places]
