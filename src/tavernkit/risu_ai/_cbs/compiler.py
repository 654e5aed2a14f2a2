"""Compiles a text to a tree, as far as the text alone decides how the scanner reads it.

The compiler runs the scanner's own algorithm over parts instead of text. Results that depend only on the text are
computed at once; those that depend on values become nodes; where a value could change the structure itself (for
example, a tag that starts with the result of another tag), the tree ends and the scanner takes over at run time.
"""

from __future__ import annotations

from typing import NamedTuple

from tavernkit.risu_ai._cbs.blocks import Block, close_block, legacy_block
from tavernkit.risu_ai._cbs.folding import FoldBudget, Folder, Opening, Undecided, closes_alike, foresee
from tavernkit.risu_ai._cbs.limits import MAX_COMPILED_LEVELS, MAX_FOLDED_INSERTS, MAX_FOLDED_TOTAL
from tavernkit.risu_ai._cbs.nodes import (
    BlockNode,
    Discarded,
    DynamicCall,
    Expression,
    FunctionCall,
    HandOver,
    Kept,
    LegacyBlock,
    NoBlock,
    Node,
    Part,
    Place,
    RawLevel,
    StaticCall,
    Tag,
    Unclosed,
)
from tavernkit.risu_ai._cbs.registry import CBSCall
from tavernkit.risu_ai._cbs.scanner import CALCULATOR, LevelKind
from tavernkit.risu_ai._cbs.source import CLOSE, OPENERS, TOKEN, joined, needs_joining

TAG, BLOCK, RAW = LevelKind.TAG, LevelKind.BLOCK, LevelKind.RAW


class Program(NamedTuple):
    """A compiled text, and its result if already known; ``size`` and ``depth`` are the cost of running it.

    ``texts`` is about how many bytes the plain text in it may use.
    """

    source: str
    parts: tuple[Part, ...]
    text: str | None
    size: int
    depth: int
    texts: int


class _Level:
    """An open level and the parts it has so far; ``dynamic`` if one of them is not text."""

    __slots__ = ("dynamic", "kind", "parts", "position")

    def __init__(self, kind: LevelKind, position: int, parts: list[Part]) -> None:
        self.kind = kind
        self.position = position
        self.parts = parts
        self.dynamic = False

    @property
    def head(self) -> str:
        """The known text at the start."""
        parts = self.parts
        if len(parts) > 1 and isinstance(parts[0], str) and not isinstance(parts[1], str):
            return parts[0]
        known: list[str] = []
        for part in parts:
            if not isinstance(part, str):
                break
            known.append(part)
        return joined(known)

    @property
    def text(self) -> str:
        """The whole text, if nothing in it is dynamic."""
        if len(self.parts) == 1 and isinstance(self.parts[0], str):
            return self.parts[0]
        return joined([part for part in self.parts if isinstance(part, str)])


class _OpenBlock(_Level):
    """An open block: its kind if known, else the parts of its opener; and where its body begins."""

    __slots__ = ("block", "inside", "opener", "pure", "token")

    def __init__(self, position: int, opener: list[Part], opening: Opening, inside: int, token: int) -> None:
        super().__init__(BLOCK, position, [])
        self.opener = opener
        self.block = opening.block
        self.pure = opening.pure
        self.inside = inside
        self.token = token


class Compiler:
    """Compiles one text. ``base`` is its surroundings: an inserted text may close the tag or block around it.

    ``following`` is the character after an inserted text.
    """

    def __init__(
        self,
        source: str,
        folder: Folder,
        *,
        base: LevelKind = LevelKind.ROOT,
        inserted: int = 0,
        following: str = "",
        budget: FoldBudget | None = None,
    ) -> None:
        self._source = source
        self._folder = folder
        self._inserted = inserted
        self._following = following
        self._budget = FoldBudget() if budget is None else budget
        self._tokens = TOKEN.split(source)
        self._levels = [_Level(base, 0, [])]
        self._pure = 0
        self._size = 1
        self._depth = 1
        self._resume = 0  # where the scanner would take over: before what is undecided
        self._index = 0  # the token that closes the current tag, and where it ends
        self._end = 0

    def compile(self) -> Program:
        """Compile as far as possible."""
        try:
            self._scan()
            if len(self._levels) > 1:
                self._hand_over(len(self._source))
        except Undecided:
            self._hand_over(self._resume)
        root = self._levels[0]
        if not root.dynamic:
            text = root.text
            return Program(self._source, (text,), text, self._size, self._depth, len(text))
        return Program(self._source, tuple(root.parts), None, self._size, self._depth, _TOKEN_BYTES * len(self._tokens))

    def _scan(self) -> None:
        tokens = self._tokens
        last = len(tokens) - 1
        at = index = 0
        while index < last:
            literal, token = tokens[index], tokens[index + 1]
            top = self._levels[-1]
            if literal:
                top.parts.append(literal)
                at += len(literal)
            self._resume = at
            if token in OPENERS:
                if index + 3 < last and tokens[index + 3] == CLOSE:
                    tag = tokens[index + 2]
                    index += 2
                    self._end = at + len(tag) + 4
                    self._index = index + 1
                    self._leaf(tag, at)
                    at = self._end - 2
                else:
                    self._push(_Level(TAG, at, []))
            elif top.kind is not TAG:
                top.parts.append(token)
            else:
                self._end = at + 2
                self._index = index + 1
                self._close(top, token)
            at += 2
            index += 2
        if tokens[last]:
            self._levels[-1].parts.append(tokens[last])

    def _leaf(self, tag: str, position: int) -> None:
        """Compile a tag without nested tags in one step."""
        first = tag[:1]
        if first in _STRUCTURAL:
            if first == ":" and not self._pure:
                self._add(f"{{{{{tag}}}}}")
            else:
                self._close_tag(_Level(TAG, position, [tag]))
        elif tag.startswith("call::"):
            self._add_node(FunctionCall([tag], position, pure=self._pure > 0))
        elif self._pure:
            self._add(f"{{{{{tag}}}}}")
        else:
            self._static_tag(tag, position)

    def _check_depth(self) -> None:
        if len(self._levels) >= MAX_COMPILED_LEVELS:
            raise Undecided

    def _push(self, level: _Level) -> None:
        self._check_depth()
        self._levels.append(level)
        self._depth = max(self._depth, len(self._levels))

    def _add(self, text: str) -> None:
        self._levels[-1].parts.append(text)

    def _add_node(self, node: Node) -> None:
        level = self._levels[-1]
        level.parts.append(node)
        level.dynamic = True
        self._size += 1

    def _hand_over(self, at: int) -> None:
        """End the tree; open levels are passed to the scanner."""
        self._add_node(HandOver(self._source, at))
        while len(self._levels) > 1:
            level = self._levels.pop()
            block = level.block if isinstance(level, _OpenBlock) else None
            if isinstance(level, _OpenBlock) and block is None:
                self._add_node(BlockNode(level.opener, None, level.parts, self._place(level.position, level.inside)))
            else:
                self._add_node(Unclosed(level.kind, level.parts, level.position, block))

    def _place(self, start: int, inside: int) -> Place:
        return Place(self._source, self._levels[-1].kind, start, inside, self._end)

    def _close(self, level: _Level, token: str) -> None:
        if len(self._levels) == 1:
            raise Undecided  # an inserted text closes the tag around it
        self._levels.pop()
        try:
            if token == CLOSE:
                self._close_tag(level)
            elif level.dynamic:
                self._add_node(LegacyBlock(level.parts, level.position))
            else:
                content = level.text
                result = legacy_block(content)
                self._add(f"{{#{content}#}}" if result is None else result)
        except Undecided:
            self._levels.append(level)
            raise

    def _close_tag(self, level: _Level) -> None:
        head = level.head if level.dynamic else level.text
        if level.dynamic and not head:
            raise Undecided
        first = head[:1]
        if first == "#" or first == ":":
            self._open(level, head)
        elif first == "/" and self._levels[-1].kind in (BLOCK, RAW) and self._is_closer(level, head):
            self._close_level(level, head)
        elif head.startswith("call::"):
            self._add_node(FunctionCall(level.parts, level.position, pure=self._pure > 0))
        elif self._pure:
            if level.dynamic and "call::".startswith(head):
                raise Undecided
            self._keep(level, head)
        elif level.dynamic:
            self._add_node(self._dynamic_tag(level, head))
        else:
            self._static_tag(head, level.position)

    def _keep(self, level: _Level, head: str) -> None:
        if level.dynamic:
            self._add_node(Kept(level.parts, level.position))
        else:
            self._add(f"{{{{{head}}}}}")

    # Tags

    def _static_tag(self, tag: str, position: int) -> None:
        budget = self._budget
        folded = self._folder.fold(tag) if budget.spent <= MAX_FOLDED_TOTAL else self._folder.look_up(tag)
        budget.spent += folded.cost
        if folded.text is not None and budget.spent <= MAX_FOLDED_TOTAL:
            self._levels[-1].parts.append(folded.text)
        elif tag.startswith(CALCULATOR):
            self._add_node(Expression([tag], position))
        elif folded.function is None:
            self._add_node(Tag([tag], self._place(position, self._end - 2)))
        elif folded.function.edits:
            self._edit(StaticCall(folded.function, tag, [*folded.args], position))
        else:
            self._add_node(StaticCall(folded.function, tag, [*folded.args], position))

    def _edit(self, node: StaticCall) -> None:
        """Let a function edit the text before it: now if it is known, else at run time."""
        around = self._levels[-1]
        known = not around.dynamic and not (self._inserted and len(self._levels) == 1)
        if known and node.function.pure:
            buffer = [part for part in around.parts if isinstance(part, str)]
            node.function.handler(CBSCall(node.tag, node.args, None, buffer, node.position))
            around.parts = list[Part](buffer)
        elif around.kind is TAG:
            raise Undecided
        else:
            self._add_node(node)

    def _dynamic_tag(self, level: _Level, head: str) -> Node:
        if head.startswith(CALCULATOR):
            return Expression(level.parts, level.position)
        at = head.find(":")
        if at < 0 or at + 1 == len(head):
            return Tag(level.parts, self._place(level.position, self._end - 2))
        function = self._folder.function(head[:at])
        if function is None:
            return Tag(level.parts, self._place(level.position, self._end - 2))
        if function.edits and self._levels[-1].kind is TAG:
            raise Undecided
        return DynamicCall(function, "::" if head[at + 1] == ":" else ":", level.parts, level.position)

    # Blocks

    def _open(self, level: _Level, head: str) -> None:
        if self._pure:
            self._check_depth()
            self._keep(level, head)
            self._push(_Level(RAW, level.position, []))
            return
        opening = foresee(head, complete=not level.dynamic)
        if opening is None:
            if head.startswith("#"):
                self._add_node(NoBlock(level.parts, level.position))
            else:
                self._keep(level, head)
            return
        opened = _OpenBlock(level.position, level.parts, opening, self._end, self._index + 1)
        self._push(opened)
        self._pure += opened.pure

    def _is_closer(self, level: _Level, head: str) -> bool:
        if head == "/" and level.dynamic:
            raise Undecided
        return head[1:2] != "/"

    def _close_level(self, level: _Level, head: str) -> None:
        if len(self._levels) == 1:
            raise Undecided  # an inserted text closes the block around it
        closed = self._levels.pop()
        if not isinstance(closed, _OpenBlock):
            if closed.dynamic:
                self._add_node(RawLevel(closed.parts, closed.position))
            else:
                self._add(closed.text)
            self._keep(level, head)
            return
        self._pure -= closed.pure
        if level.dynamic:
            closed.parts.append(Discarded(level.parts, level.position))
            closed.dynamic = True
        if closed.block is not None and not closed.dynamic and self._fold_block(closed.block, closed.text):
            return
        skippable = closed.block is None and self._skippable(closed)
        place = self._place(closed.position, closed.inside)
        self._add_node(BlockNode(closed.opener, closed.block, closed.parts, place, skippable=skippable))

    def _skippable(self, closed: _OpenBlock) -> bool:
        """Return True if a block that may be false also ends here if its body is not evaluated."""
        head = closed.opener[0]
        may_be_false = isinstance(head, str) and head.startswith("#if")
        return may_be_false and closes_alike(self._tokens, closed.token, self._index)

    def _fold_block(self, block: Block, body: str) -> bool:
        """Evaluate a block with a known body. Functions are defined at run time."""
        if block.kind == "each":
            return self._fold_each(block, body)
        if block.kind == "function":
            return False
        self._add(close_block(block, body))
        return True

    def _fold_each(self, block: Block, body: str) -> bool:
        if self._inserted >= MAX_FOLDED_INSERTS or not self._budget.left:
            return False
        text = self._folder.fold_each(block, body)
        if text is None:
            return False
        self._budget.spent += len(text)
        following = self._source[self._end : self._end + 1] or self._following
        if not self._budget.left or needs_joining(text, following):
            return False
        result = self._insert(text, self._levels[-1].kind, following)
        if result is None:
            return False
        self._add(result)
        return True

    def _insert(self, text: str, base: LevelKind, following: str) -> str | None:
        """Return the result of an inserted text, if known at compile time, cached."""
        inserts, inserted = self._budget.inserts, self._inserted + 1
        key = (text, base, inserted, following)
        if key not in inserts:
            program = Compiler(
                text, self._folder, base=base, inserted=inserted, following=following, budget=self._budget
            ).compile()
            inserts[key] = program.text
        return inserts[key]


_STRUCTURAL = frozenset("#:/")
_TOKEN_BYTES = 60
