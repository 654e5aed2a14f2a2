"""The parse tree of a text as RisuAI's scanner reads it.

The meaning of a CBS text is only known while it is scanned: a tag may be made from other tags, a false block is not
evaluated, an ``each`` inserts new text after itself. So the scanner makes the tree while it works, and the tree has the
result of every tag.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._macros import MAX_TREE_DEPTH, MAX_TREE_NODES, TreeKind, TreeNode
from tavernkit._text.js_values import join_surrogates
from tavernkit._text.traced import plain
from tavernkit.risu_ai._cbs.blocks import Block
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.engine import CBSEngine
from tavernkit.risu_ai._cbs.registry import CBSRegistry
from tavernkit.risu_ai._cbs.run import CBSResult, Run
from tavernkit.risu_ai._cbs.scanner import Level, LevelKind, Scanner
from tavernkit.risu_ai._cbs.source import LEGACY_CLOSE, Origins, prepare

_NAME: Final = re.compile(r"[#/:]?([^\s:]*)")


def evaluate_with_tree(
    text: str, context: CBSContext, *, registry: CBSRegistry | None = None
) -> tuple[CBSResult, TreeNode]:
    """Expand a text, and return its parse tree: literal text, tags with their results, blocks with their tags.

    A tree has at most ``MAX_TREE_NODES`` nodes in ``MAX_TREE_DEPTH`` levels. Text inserted by an ``each`` is not part
    of the original text and has no nodes.

    Args:
        text: The text.
        context: The context of the expansion.
        registry: The functions; by default RisuAI's.
    """
    text = join_surrogates(plain(text))
    engine = _TreeEngine(registry)
    result = engine.evaluate(text, context)
    return result, engine.tree(text)


class _TreeEngine(CBSEngine):
    """An engine for one text, whose scanner records the tree; nested texts are expanded as usual."""

    def __init__(self, registry: CBSRegistry | None) -> None:
        super().__init__(registry)
        self._scanner: _TreeScanner | None = None

    def execute(self, run: Run) -> str:
        """Expand the text of a run."""
        if self._scanner is not None:
            return super().execute(run)
        self._scanner = _TreeScanner(run, prepare(run.text))
        return self._scanner.scan()

    def tree(self, text: str) -> TreeNode:
        """Return the parse tree so far."""
        root = _Node("document", 0, len(prepare(text))) if self._scanner is None else self._scanner.root()
        return _Freezer(text).frozen(root, 0)


@dataclass(slots=True, eq=False)
class _Node:
    kind: TreeKind
    start: int
    end: int
    name: str = ""
    value: str | None = None
    children: list[_Node] = field(default_factory=list["_Node"])


class _TreeScanner(Scanner):
    """Keeps a node for every open level, in parallel to the scanner's own stack."""

    def __init__(self, run: Run, text: str) -> None:
        super().__init__(run, [Level(LevelKind.ROOT, [], 0)], text, source_length=len(text), tail=len(text))
        self._length = len(text)
        self._nodes = [_Node("document", 0, len(text))]
        self._closed = self._nodes[0]

    def root(self) -> _Node:
        """The tree so far; what is still open ends with the text."""
        while len(self._nodes) > 1:
            node = self._nodes.pop()
            node.kind, node.end = "unclosed", self._length
            self._attach(node)
        return self._nodes[0]

    def _take(self, token: str, top: Level, start: int) -> None:
        super()._take(token, top, start)
        if token == LEGACY_CLOSE and top.kind is LevelKind.TAG:
            node = self._closed
            node.kind, node.name, node.end = "block", "#", self._position(self._at)
            node.value = plain(self._levels[-1].buffer[-1])
            self._attach(node)

    def _push(self, kind: LevelKind, position: int, block: Block | None = None) -> None:
        super()._push(kind, position, block)
        self._nodes.append(_Node("macro" if kind is LevelKind.TAG else "block", position, position))

    def _pop(self) -> str:
        self._closed = self._nodes.pop()
        return super()._pop()

    def _close_tag(self, tag: str, position: int) -> None:
        node = self._closed
        node.end = self._position(self._at)
        named = _NAME.match(plain(tag))
        node.name = named[1] if named is not None else ""
        depth = len(self._nodes)
        super()._close_tag(tag, position)
        if len(self._nodes) == depth:
            self._attach(node)
            return
        node.kind = "tag"
        if len(self._nodes) > depth:  # it opened a block, which begins with it
            self._nodes[-1].name = node.name
            self._nodes[-1].children.append(node)
        else:
            block = self._closed
            block.children.append(node)
            block.end = node.end
            self._attach(block)

    def _close_level(self, tag: str) -> bool:
        level = self._levels[-1]
        closed = super()._close_level(tag)
        if closed and level.block is not None and level.block.kind not in ("each", "function"):
            self._closed.value = plain(self._levels[-1].buffer[-1])
        return closed

    def _evaluate(self, tag: str, position: int) -> str:
        node = self._closed
        result = super()._evaluate(tag, position)
        node.value = None if result == "{{" + tag + "}}" else plain(result)
        return result

    def _attach(self, node: _Node) -> None:
        # Inserted text has no place in the original text.
        if node.end > node.start:
            self._nodes[-1].children.append(node)


class _Freezer:
    """Converts a tree to one of the original text, with the literal text between its nodes."""

    def __init__(self, text: str) -> None:
        self._origins = Origins(text)
        self._room = MAX_TREE_NODES

    def frozen(self, node: _Node, depth: int) -> TreeNode:
        self._room -= 1
        children: list[TreeNode] = []
        around = node.kind in ("document", "block", "unclosed") or bool(node.children)
        # The braces of a tag are not text.
        at, end = (node.start + 2, node.end - 2) if node.kind in ("macro", "tag") else (node.start, node.end)
        for child in sorted(node.children, key=lambda each: each.start) if depth < MAX_TREE_DEPTH else ():
            if self._room <= 0:
                break
            if child.start < at:
                continue
            if child.start > at:
                children.append(self._text(at, child.start))
            children.append(self.frozen(child, depth + 1))
            at = child.end
        if around and at < end and self._room > 0:
            children.append(self._text(at, end))
        start, last = self._origins.of(node.start), self._origins.of(node.end)
        return TreeNode(node.kind, start, last, node.name, tuple(children), node.value)

    def _text(self, start: int, end: int) -> TreeNode:
        self._room -= 1
        return TreeNode("text", self._origins.of(start), self._origins.of(end))
