"""What both platforms' macro engines share: limits on all texts of a build together, and the form of parse trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tavernkit._values import Json
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits

_BYTES_OF_A_VALUE = 64
"""How many bytes a number, or an item of a list or an object, counts."""
TreeKind: TypeAlias = Literal["document", "text", "macro", "block", "argument", "body", "tag", "unclosed"]
"""The kind of a node; a ``tag`` opens or closes a block, ``unclosed`` is a macro that is not closed."""

MAX_TREE_DEPTH: Final = 60
"""Maximum number of levels in a tree."""
MAX_TREE_NODES: Final = 5000
"""Maximum number of nodes in a tree."""


class BuildBudget:
    """Counts what the texts of a build have used: each is bounded by itself, but a build may have thousands of them."""

    __slots__ = ("_characters", "_kept", "_limits", "_steps", "reported", "used")

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._steps = 0
        self._characters = 0
        self._kept = 0
        self.reported = False
        """True once it was reported that the budget is used up."""
        self.used = False
        """True once a text was expanded."""

    @property
    def spent(self) -> bool:
        """True if no more texts are expanded."""
        return self._steps > self._limits.max_build_steps or self._characters > self._limits.max_build_characters

    def spend(self, steps: int, characters: int) -> None:
        """Count the steps and characters of a text."""
        self.used = True
        self._steps += steps
        self._characters += characters

    def keep(self, size: int) -> bool:
        """Count bytes that the build keeps from now on; return True if there is room for them."""
        if self._kept + size > self._limits.max_build_memory:
            return False
        self._kept += size
        return True


def size_of(value: Json) -> int:
    """Estimate the bytes of a value, the same on every machine; lists and objects count by their number of items."""
    if isinstance(value, str):
        return len(value) if value.isascii() else 4 * len(value)
    return _BYTES_OF_A_VALUE * (1 + len(value)) if isinstance(value, list | dict) else _BYTES_OF_A_VALUE


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A part of a text and the parts in it; ``start`` and ``end`` are offsets into the original text.

    ``value`` is the result of a macro, if the engine ran it and the result is known.
    """

    kind: TreeKind
    start: int
    end: int
    name: str = ""
    children: tuple[TreeNode, ...] = ()
    value: str | None = None
