"""Lists that may be long and are seldom read whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class LazySequence(Sequence[T_co]):
    """A list whose items are made each time they are asked for; ``make`` gets their places."""

    __slots__ = ("_length", "_make")

    def __init__(self, length: int, make: Callable[[int], T_co]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | list[T_co]:
        """The item, or items, at a place of the list."""
        places = range(self._length)[index]
        return self._make(places) if isinstance(places, int) else [self._make(place) for place in places]
