"""The tags: those that write chat variables, ``if`` and ``unless``, ``for`` and ``tablerow``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, TextIO, TypeAlias

from liquid import Node, RenderContext, Tag, Token, TokenStream, Undefined
from liquid.builtin.expressions import (
    BooleanExpression,
    FilteredExpression,
    LoopExpression,
    Path,
    StringLiteral,
    tokenize,
)
from liquid.builtin.expressions.filtered import TernaryFilteredExpression
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
from liquid.builtin.expressions.primitive import Blank, Empty, Identifier
from liquid.builtin.tags.assign_tag import AssignNode, AssignTag
from liquid.builtin.tags.for_tag import ForNode, ForTag
from liquid.builtin.tags.if_tag import IfNode, IfTag
from liquid.builtin.tags.tablerow_tag import TablerowNode, TablerowTag
from liquid.builtin.tags.unless_tag import UnlessNode, UnlessTag
from liquid.exceptions import FilterArgumentError, LiquidSyntaxError, LoopIterationLimitError
from liquid.expression import Expression
from liquid.token import TOKEN_EXPRESSION, TOKEN_TAG

from tavernkit._values import Json, is_mapping, is_sequence, thaw
from tavernkit.stores._variables import GLOBAL, LOCAL, VariablesStore
from tavernkit.vibe_tavern._limits import MAX_LIQUID_STEPS
from tavernkit.vibe_tavern._liquid_macros.engine import MacroContext
from tavernkit.vibe_tavern._liquid_macros.lax import UNKNOWN_OPERATOR, filtered_source
from tavernkit.vibe_tavern._liquid_macros.values import equal, given, order, to_number, to_text, to_whole_number

if TYPE_CHECKING:
    from liquid import Environment, RenderContext
    from liquid.expression import Expression


_NAME = r"([\w\-.\[\]]+)"
_ASSIGNMENT = re.compile(rf"\s*{_NAME}\s*=(.*)", re.DOTALL)
_LONE_NAME = re.compile(rf"\s*{_NAME}\s*")

Write = Callable[[VariablesStore, str, str, Json], None]


def _set(store: VariablesStore, name: str, scope: str, value: Json) -> None:
    store.set(name, value, scope)


def _set_default(store: VariablesStore, name: str, scope: str, value: Json) -> None:
    if not store.has(name, scope):
        store.set(name, value, scope)


def _add(store: VariablesStore, name: str, scope: str, value: Json) -> None:
    old = store.get(name, scope)
    left = 0 if old is None else to_number(old)  # "5" + "5" is 10; only other texts are joined
    right = to_number(value)
    store.set(name, to_text(old) + to_text(value) if left is None or right is None else left + right, scope)


def _increment(store: VariablesStore, name: str, scope: str, _: Json) -> None:
    store.set(name, (to_number(store.get(name, scope)) or 0) + 1, scope)  # a text that is no number counts as 0


def _decrement(store: VariablesStore, name: str, scope: str, _: Json) -> None:
    store.set(name, (to_number(store.get(name, scope)) or 0) - 1, scope)


def _delete(store: VariablesStore, name: str, scope: str, _: Json) -> None:
    store.delete(name, scope)


WRITE_TAGS: tuple[tuple[str, str, Write, bool], ...] = (
    ("setvar", LOCAL, _set, True),
    ("setglobal", GLOBAL, _set, True),
    ("setdefaultvar", LOCAL, _set_default, True),
    ("addvar", LOCAL, _add, True),
    ("addglobal", GLOBAL, _add, True),
    ("incvar", LOCAL, _increment, False),
    ("incglobal", GLOBAL, _increment, False),
    ("decvar", LOCAL, _decrement, False),
    ("decglobal", GLOBAL, _decrement, False),
    ("deletevar", LOCAL, _delete, False),
    ("deleteglobal", GLOBAL, _delete, False),
)
"""Tag, scope, what it does, whether it has a right side."""


class WriteNode(Node):
    """A write to the chat's variables; prints nothing."""

    __slots__ = ("expression", "name", "scope", "write")

    def __init__(self, token: Token, scope: str, write: Write, name: str, expression: Expression | None) -> None:
        super().__init__(token)
        self.scope = scope
        self.write = write
        self.name = name
        self.expression = expression

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        """Evaluate the right side and write."""
        assert isinstance(context, MacroContext)
        value = _to_json(self.expression.evaluate(context)) if self.expression else None
        store = context.run.variables
        if store is not None:
            context.charge(value)
            self.write(store, self.name, self.scope, value)
        return 0


class WriteTag(Tag):
    """Parses one of ``WRITE_TAGS``."""

    block = False
    scope: ClassVar[str]
    write: ClassVar[tuple[Write]]
    has_value: ClassVar[bool]

    def parse(self, stream: TokenStream) -> Node:
        """Parse ``name = expression`` or ``name``."""
        token = stream.eat(TOKEN_TAG)
        source = stream.current if stream.current.kind == TOKEN_EXPRESSION else None
        match = (_ASSIGNMENT if self.has_value else _LONE_NAME).fullmatch(source.value if source else "")
        if source is None or match is None:
            raise LiquidSyntaxError(
                f"{self.name} is written {self.name} name{' = value' if self.has_value else ''}", token=token
            )
        expression = _parse_expression(self.env, match.group(2).strip(), source) if self.has_value else None
        return WriteNode(token, self.scope, self.write[0], match.group(1), expression)


class MacroAssign(AssignTag):
    """``{% assign name = value %}``; a name may contain dots, but cannot be read then."""

    def parse(self, stream: TokenStream) -> AssignNode:
        """Parse the name and the value."""
        token = stream.eat(TOKEN_TAG)
        source = stream.current
        match = _ASSIGNMENT.fullmatch(source.value if source.kind == TOKEN_EXPRESSION else "")
        if match is None:
            raise LiquidSyntaxError("assign is written assign name = value", token=token)
        expression = _parse_expression(self.env, match.group(2).strip() or "nil", source)
        assert expression is not None
        return AssignNode(token, name=Identifier(match.group(1), token=source), expression=expression)


def write_tags() -> list[type[Tag]]:
    """Make the tag classes."""
    return [
        type(
            f"{name.title()}Tag",
            (WriteTag,),
            {"name": name, "scope": scope, "write": (write,), "has_value": has_value},
        )
        for name, scope, write, has_value in WRITE_TAGS
    ]


def _parse_expression(
    env: Environment, source: str, token: Token
) -> FilteredExpression | TernaryFilteredExpression | None:
    if not source:
        return None
    try:
        return FilteredExpression.parse(env, TokenStream(tokenize(source, token)))
    except LiquidSyntaxError:
        return FilteredExpression.parse(env, TokenStream(tokenize(filtered_source(source), token)))


def _to_json(value: object) -> Json:
    if isinstance(value, Undefined):
        value.poke()
        return None
    return to_text(value) if isinstance(value, (range, Empty, Blank)) else thaw(value)


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
