"""``for`` and ``tablerow``, with limits and offsets as in Liquid."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from liquid import Node, RenderContext, TokenStream
from liquid.builtin.expressions import LoopExpression, StringLiteral
from liquid.builtin.tags.for_tag import ForNode, ForTag
from liquid.builtin.tags.tablerow_tag import TablerowNode, TablerowTag
from liquid.exceptions import LoopIterationLimitError
from liquid.expression import Expression

from tavernkit.vibe_tavern._limits import MAX_LIQUID_STEPS
from tavernkit.vibe_tavern._liquid_macros.operands import given, to_whole_number

_CONTINUE = "continue"


class MacroLoop(LoopExpression):
    """The elements of a loop; a limit of zero means no iterations, a limit of None no limit."""

    @classmethod
    def of(cls, loop: LoopExpression) -> MacroLoop:
        """Copy a loop."""
        return cls(
            loop.token,
            loop.identifier,
            loop.iterable,
            limit=loop.limit,
            offset=loop.offset,
            reversed_=loop.reversed,
            cols=loop.cols,
        )

    def evaluate(self, context: RenderContext) -> tuple[Iterator[object], int]:
        """Return the elements to run over, and their number."""
        elements, length = self._to_iter(self.iterable.evaluate(context), context)
        key = f"{self.identifier}-{self.iterable}"
        if isinstance(self.offset, StringLiteral) and self.offset.value == _CONTINUE:
            start = context.stopindex(key)
        else:
            start = _whole(self.offset, context) or 0
        limit = _whole(self.limit, context)
        stop = min(length if limit is None else start + limit, length)
        first = min(max(start, 0), length)
        count = max(stop - first, 0)
        if count > MAX_LIQUID_STEPS:
            raise LoopIterationLimitError("memory limits exceeded", token=None)
        context.stopindex(key, max(stop, 0))
        found = islice(elements, first, first + count)
        return (reversed(list(found)) if self.reversed else found), count


class MacroFor(ForTag):
    """``{% for … %}``."""

    def parse(self, stream: TokenStream) -> Node:
        """Parse the loop."""
        node = super().parse(stream)
        if isinstance(node, ForNode):
            node.expression = MacroLoop.of(node.expression)
        return node


class MacroTablerow(TablerowTag):
    """``{% tablerow … %}``."""

    def parse(self, stream: TokenStream) -> TablerowNode:
        """Parse the loop."""
        node = super().parse(stream)
        node.expression = MacroLoop.of(node.expression)
        return node


def _whole(expression: Expression | None, context: RenderContext) -> int | None:
    value = given(expression.evaluate(context)) if expression is not None else None
    return None if value is None else to_whole_number(value)
