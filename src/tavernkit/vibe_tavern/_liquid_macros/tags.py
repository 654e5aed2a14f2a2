"""Tags that write chat variables: ``setvar``, ``addvar``, ``incvar``, ``deletevar`` and the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, TextIO

from liquid import Node, Tag, Token, TokenStream
from liquid.builtin.expressions import FilteredExpression, tokenize
from liquid.builtin.expressions.filtered import TernaryFilteredExpression
from liquid.builtin.expressions.primitive import Blank, Empty, Identifier
from liquid.builtin.tags.assign_tag import AssignNode, AssignTag
from liquid.exceptions import LiquidSyntaxError
from liquid.token import TOKEN_EXPRESSION, TOKEN_TAG
from liquid.undefined import Undefined

from tavernkit._values import Json, thaw
from tavernkit.stores._variables import GLOBAL, LOCAL, VariablesStore
from tavernkit.vibe_tavern._liquid_macros.engine import MacroContext
from tavernkit.vibe_tavern._liquid_macros.lax import filtered_source
from tavernkit.vibe_tavern._liquid_macros.numbers import to_number, to_text

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
    left = 0 if old is None else to_number(old)
    right = to_number(value)
    store.set(name, to_text(old) + to_text(value) if left is None or right is None else left + right, scope)


def _increment(store: VariablesStore, name: str, scope: str, _: Json) -> None:
    store.set(name, (to_number(store.get(name, scope)) or 0) + 1, scope)


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
