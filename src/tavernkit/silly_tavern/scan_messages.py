"""The chat as it is searched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from tavernkit.silly_tavern.core_chat import CoreMessage


class ScanMessages(Sequence[str]):
    """The core chat newest first, as keys are looked for in it; each text is made when the search reaches it."""

    def __init__(self, core: Sequence[CoreMessage], *, with_names: bool) -> None:
        self._core = core
        self._with_names = with_names

    def __len__(self) -> int:
        return len(self._core)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """The text, or texts, at a place counted from the newest."""
        places = range(len(self._core) - 1, -1, -1)[index]
        return self._text(places) if isinstance(places, int) else [self._text(place) for place in places]

    def _text(self, place: int) -> str:
        message = self._core[place]
        return f"{message.line.name}: {message.text}" if self._with_names else message.text
