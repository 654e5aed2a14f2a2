"""``if`` and ``unless``, with comparisons of comparable values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from liquid import Node, RenderContext, Token, TokenStream, Undefined
from liquid.builtin.expressions import BooleanExpression, Path
from liquid.builtin.expressions.logical import (
    ContainsExpression,
    EqExpression,
    GeExpression,
    GtExpression,
    LeExpression,
    LogicalAndExpression,
    LogicalOrExpression,
    LtExpression,
    NeExpression,
)
from liquid.builtin.expressions.primitive import Blank
from liquid.builtin.tags.if_tag import IfNode, IfTag
from liquid.builtin.tags.unless_tag import UnlessNode, UnlessTag
from liquid.exceptions import FilterArgumentError
from liquid.expression import Expression

from tavernkit._values import is_mapping, is_sequence
from tavernkit.vibe_tavern._liquid_macros.engine import MacroContext
from tavernkit.vibe_tavern._liquid_macros.lax import UNKNOWN_OPERATOR
from tavernkit.vibe_tavern._liquid_macros.numbers import equal, order, to_text

Compare: TypeAlias = Callable[[object, object], bool]


class Comparison(Expression):
    """A comparison of two values."""

    __slots__ = ("compare", "left", "right")

    def __init__(self, token: Token, left: Expression, right: Expression, compare: Compare) -> None:
        super().__init__(token)
        self.left = left
        self.right = right
        self.compare = compare

    def evaluate(self, context: RenderContext) -> object:
        """Compare the values."""
        assert isinstance(context, MacroContext)
        left, right = _value(self.left.evaluate(context)), _value(self.right.evaluate(context))
        context.work(len(left) if isinstance(left, str) or is_sequence(left) else 1)
        return self.compare(left, right)

    def children(self) -> list[Expression]:
        """Both sides."""
        return [self.left, self.right]


class UnknownOperator(Expression):
    """A comparison with an unknown operator."""

    __slots__ = ("message",)

    def __init__(self, token: Token, message: str) -> None:
        super().__init__(token)
        self.message = message

    def evaluate(self, context: RenderContext) -> object:
        """Raise an error."""
        raise FilterArgumentError(self.message, token=None)

    def children(self) -> list[Expression]:
        """Nothing."""
        return []


class MacroIf(IfTag):
    """``{% if … %}``."""

    def parse(self, stream: TokenStream) -> Node:
        """Parse the branches."""
        return _with_comparisons(super().parse(stream))


class MacroUnless(UnlessTag):
    """``{% unless … %}``."""

    def parse(self, stream: TokenStream) -> Node:
        """Parse the branches."""
        return _with_comparisons(super().parse(stream))


def _with_comparisons(node: Node) -> Node:
    if isinstance(node, (IfNode, UnlessNode)):
        for each in (node.condition, *(branch.expression for branch in node.alternatives)):
            _replace_comparisons(each)
    return node


def _replace_comparisons(expression: Expression) -> Expression:
    """Replace the comparisons in an expression with ours."""
    if isinstance(expression, BooleanExpression):
        expression.expression = _replace_comparisons(expression.expression)
    elif isinstance(expression, (LogicalAndExpression, LogicalOrExpression)):
        expression.left, expression.right = (
            _replace_comparisons(expression.left),
            _replace_comparisons(expression.right),
        )
    elif isinstance(expression, Path) and str(expression.path[0]).startswith(UNKNOWN_OPERATOR):
        return UnknownOperator(expression.token, str(expression.path[0]))
    elif isinstance(expression, _REPLACED):
        return Comparison(expression.token, expression.left, expression.right, _COMPARISONS[type(expression)])
    return expression


_REPLACED = (
    EqExpression,
    NeExpression,
    LtExpression,
    GtExpression,
    LeExpression,
    GeExpression,
    ContainsExpression,
)


def _contains(left: object, right: object) -> bool:
    if left is None or left is False or right is None or right is False:
        return False
    if isinstance(left, str):
        return to_text(right) in left
    if isinstance(left, range):
        return not isinstance(right, bool) and right in left
    if is_mapping(left):
        return isinstance(right, str) and right in left
    return is_sequence(left) and right in left and any(equal(each, right) for each in left)


def _equal(left: object, right: object) -> bool:
    if isinstance(right, Blank):
        left, right = right, left
    if isinstance(left, Blank):
        return right is None or right is False or left == right
    return equal(left, right)


def _ordering(holds: Callable[[int], bool]) -> Compare:
    """Compare two numbers or two texts; a number and a text cannot be compared; other values have no order."""

    def ordered(left: object, right: object) -> bool:
        kinds = _kind(left), _kind(right)
        if None in kinds:
            return False
        found = order(left, right)
        if found is None:
            shown = kinds[1] if isinstance(right, str) else to_text(right)
            raise FilterArgumentError(f"comparison of {kinds[0]} with {shown} failed", token=None)
        return holds(found)

    return ordered


def _kind(value: object) -> str | None:
    if isinstance(value, bool):
        return None
    return "String" if isinstance(value, str) else _NUMBERS.get(type(value))


_NUMBERS: Mapping[type, str] = {int: "Integer", float: "Float"}
_COMPARISONS: Mapping[type, Compare] = {
    EqExpression: _equal,
    NeExpression: lambda left, right: not _equal(left, right),
    LtExpression: _ordering(lambda found: found < 0),
    GtExpression: _ordering(lambda found: found > 0),
    LeExpression: _ordering(lambda found: found <= 0),
    GeExpression: _ordering(lambda found: found >= 0),
    ContainsExpression: _contains,
}


def _value(value: object) -> object:
    return None if isinstance(value, Undefined) else value
