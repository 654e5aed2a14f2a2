"""The parse tree of a text with macros, as both engines give it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

TreeKind: TypeAlias = Literal["document", "text", "macro", "block", "argument", "body", "tag", "unclosed"]
"""What a node is; a ``tag`` opens or closes a block, ``unclosed`` is one that the text ends in."""

MAX_TREE_DEPTH: Final = 60
"""Levels that a tree shows."""
MAX_TREE_NODES: Final = 5000
"""Nodes that a tree shows."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A part of a text and the parts in it; ``start`` and ``end`` are offsets into the text as it was given.

    ``value`` is what a macro gave, where the engine that made the tree ran it and that is known.
    """

    kind: TreeKind
    start: int
    end: int
    name: str = ""
    children: tuple[TreeNode, ...] = ()
    value: str | None = None
