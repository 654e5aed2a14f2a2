"""The parse tree of a text with macros, in the form that both engines return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

TreeKind: TypeAlias = Literal["document", "text", "macro", "block", "argument", "body", "tag", "unclosed"]
"""The kind of a node; a ``tag`` opens or closes a block, ``unclosed`` is a macro that is not closed."""

MAX_TREE_DEPTH: Final = 60
"""Maximum number of levels in a tree."""
MAX_TREE_NODES: Final = 5000
"""Maximum number of nodes in a tree."""


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
