"""What the macros of all texts of one build may take together."""

from __future__ import annotations

from tavernkit.cards._limits import DEFAULT_LIMITS, Limits


class BuildBudget:
    """Counts what the texts of a build have used: each is bounded by itself, but a build may have thousands of them."""

    __slots__ = ("_characters", "_limits", "_steps", "reported")

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._steps = 0
        self._characters = 0
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
