"""The parse tree of a text as the Macros 2.0 engine reads it."""

from __future__ import annotations

from tavernkit._macros import MAX_TREE_DEPTH, MAX_TREE_NODES, TreeKind, TreeNode
from tavernkit._text.traced import plain
from tavernkit.silly_tavern._macros.call import Diagnostic
from tavernkit.silly_tavern._macros.document import Document, Node
from tavernkit.silly_tavern._macros.engine import MacroEngine
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.nodes import MacroNode, Part, StrayTag
from tavernkit.silly_tavern._macros.run import Overrides, Run
from tavernkit.silly_tavern._macros.source import Positions


def macro_tree(engine: MacroEngine, text: str, environment: MacroEnvironment) -> TreeNode:
    """Return how the engine reads a text: literal text, macros with their arguments, blocks with their bodies.

    Nothing is evaluated. A tree has at most ``MAX_TREE_NODES`` nodes in ``MAX_TREE_DEPTH`` levels; deeper parts have no
    nodes.

    Args:
        engine: The engine, whose macros decide what has a block.
        text: The text.
        environment: The environment for the engine's processors.
    """
    text = plain(text)
    run = Run(engine, environment, Overrides(), _ignore, text)
    return _TreeMaker(run, text).document(engine.compile(text, environment))


def _ignore(diagnostic: Diagnostic) -> None:
    """Ignore a problem: it is reported when the text is expanded."""


class _TreeMaker:
    """Walks through the documents of a text, within the limits of one expansion."""

    def __init__(self, run: Run, text: str) -> None:
        self._run = run
        self._positions = Positions(text)
        self._length = len(text)
        self._room = MAX_TREE_NODES

    def document(self, document: Document) -> TreeNode:
        return TreeNode("document", 0, self._length, children=self._inside(document, 1))

    def _inside(self, document: Document, depth: int) -> tuple[TreeNode, ...]:
        if depth > MAX_TREE_DEPTH:
            return ()
        nodes: list[TreeNode] = []
        at = document.source.position + document.start
        for part in document.parts(self._run):
            if self._room <= 0:
                break
            if isinstance(part, str):
                if part:
                    nodes.append(self._node("text", at, at + len(part)))
                at += len(part)
            else:
                nodes.append(self._call(part, depth))
                at = part.position + len(part.source)
        return tuple(nodes)

    def _call(self, node: Node, depth: int) -> TreeNode:
        start, end = node.position, node.position + len(node.source)
        if isinstance(node, StrayTag):
            return self._node("tag", start, end, node.name)
        if not isinstance(node, MacroNode):  # a shorthand, whose operand ends before its braces
            operand = () if node.operand is None else (self._part("argument", node.operand, end - 2, depth, ends=True),)
            return self._node("macro", start, end, f"{node.scope} {node.name} {node.operator}".strip(), operand)
        children: list[TreeNode] = []
        at = start + 2
        for before, part in zip(node.frame, node.args, strict=False):
            at += len(before)
            children.append(self._part("argument", part, at, depth))
            at += len(part.text)
        if node.content is None:
            return self._node("macro", start, end, node.name, tuple(children))
        # The body begins after the opening tag, which ends with its frame.
        children.append(self._part("body", node.content, at + len(node.frame[-1]) + 2, depth))
        return self._node("block", start, end, node.name, tuple(children))

    def _part(self, kind: TreeKind, part: Part, at: int, depth: int, *, ends: bool = False) -> TreeNode:
        """Make the node of an argument or body; ``at`` is where it begins, or ends if ``ends``."""
        length = len(part.text)
        start = at - length if ends else at
        inside = () if part.document is None else self._inside(part.document, depth + 1)
        return self._node(kind, start, start + length, children=inside)

    def _node(
        self, kind: TreeKind, start: int, end: int, name: str = "", children: tuple[TreeNode, ...] = ()
    ) -> TreeNode:
        self._room -= 1
        first = max(0, min(self._positions.original(start), self._length))
        last = max(first, min(self._positions.original(end), self._length))
        return TreeNode(kind, first, last, name, children)
