"""What all texts of one build may take together."""

from __future__ import annotations

from tavernkit._values import Json
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits

_BYTES_OF_A_VALUE = 64
"""What a number, or a part of a list or an object, counts."""


class BuildBudget:
    """Counts what the texts of a build have used: each is bounded by itself, but a build may have thousands of them."""

    __slots__ = ("_characters", "_kept", "_limits", "_steps", "reported")

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._steps = 0
        self._characters = 0
        self._kept = 0
        self.reported = False
        """Whether it was reported that it is used up."""

    @property
    def spent(self) -> bool:
        """Whether no more texts are expanded."""
        return self._steps > self._limits.max_build_steps or self._characters > self._limits.max_build_characters

    def spend(self, steps: int, characters: int) -> None:
        """Count what a text took."""
        self._steps += steps
        self._characters += characters

    def keep(self, size: int) -> bool:
        """Count bytes that the build keeps from now on; return True if there is room for them."""
        if self._kept + size > self._limits.max_build_memory:
            return False
        self._kept += size
        return True


def size_of(value: Json) -> int:
    """Estimate the bytes of a value, the same on every machine; of lists and objects only how many parts they have."""
    if isinstance(value, str):
        return len(value) if value.isascii() else 4 * len(value)
    return _BYTES_OF_A_VALUE * (1 + len(value)) if isinstance(value, list | dict) else _BYTES_OF_A_VALUE
