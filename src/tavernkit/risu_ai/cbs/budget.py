"""What the CBS texts of one build may take together."""

from __future__ import annotations

from tavernkit.risu_ai.limits import MAX_CBS_CHARACTERS, MAX_CBS_STEPS


class CBSBudget:
    """Counts what the texts of a build have used: each is bounded by itself, but a chat may have thousands of them."""

    __slots__ = ("_characters", "_steps", "told")

    def __init__(self) -> None:
        self._steps = 0
        self._characters = 0
        self.told = False
        """Whether somebody was told that it is used up."""

    @property
    def spent(self) -> bool:
        """Whether no more texts are expanded."""
        return self._steps > MAX_CBS_STEPS or self._characters > MAX_CBS_CHARACTERS

    def spend(self, steps: int, characters: int) -> None:
        """Count what a text took."""
        self._steps += steps
        self._characters += characters
