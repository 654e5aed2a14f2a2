"""The sandbox chat templates run in: few functions, and every loop and every growing text is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from tavernkit.risu_ai.limits import MAX_TEMPLATE_LOOPS, MAX_TEMPLATE_NUMBER, MAX_TEMPLATE_OUTPUT
from tavernkit.text.js_values import number_to_string

_FILTERS = [
    "abs",
    "capitalize",
    "default",
    "dictsort",
    "first",
    "float",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "safe",
    "select",
    "selectattr",
    "sort",
    "string",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
]
TICK, JOIN = "_tick", "_join"
"""Names under which a compiled template reaches its counters."""


class TemplateLimitError(TemplateError):
    """A template does more than a limit allows."""


class TemplateRefusal(TemplateError):  # noqa: N818 - it is the template that says no
    """A template called ``raise_exception``."""


class ChatTemplateEnvironment(ImmutableSandboxedEnvironment):
    """Jinja as chat templates need it. Nothing of Python can be reached from inside."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, autoescape=False, finalize=_printed)
        filters: dict[str, Any] = self.filters
        functions: dict[str, Any] = self.globals
        self.filters = {name: filters[name] for name in _FILTERS}
        kept = {name: functions[name] for name in ("namespace", "range", "dict")}
        self.globals = {**kept, "raise_exception": _raise_exception}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Carry out an operator whose result may grow."""
        if operator in {"*", "**"} and not (_small(left) and _small(right)):
            raise TemplateLimitError(f"{operator!r} is for small numbers only")
        if operator == "**" and abs(right) > 64:
            raise TemplateLimitError("the exponent is too large")
        if operator == "%" and isinstance(left, str):
            raise TemplateLimitError("'%' is for numbers only")
        result = super().call_binop(context, operator, left, right)
        size = len(result) if hasattr(result, "__len__") else 0
        if size > MAX_TEMPLATE_OUTPUT:
            raise TemplateLimitError("a text grows too long")
        return result


class Counted(NodeTransformer):
    """Makes every loop count its rounds and every ``~`` measure its text."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Let a loop call the counter first."""
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_call(TICK, [], node), lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Let ``~`` join through a function that measures."""
        self.generic_visit(node)
        return _call(JOIN, node.nodes, node)


def counters() -> dict[str, Callable[..., object]]:
    """The counters of one rendering, by the names a compiled template uses."""
    rounds = 0

    def tick() -> None:
        nonlocal rounds
        rounds += 1
        if rounds > MAX_TEMPLATE_LOOPS:
            raise TemplateLimitError("the template loops too long")

    def join(*parts: object) -> str:
        text = "".join(str(_printed(part)) for part in parts)
        if len(text) > MAX_TEMPLATE_OUTPUT:
            raise TemplateLimitError("a text grows too long")
        return text

    return {TICK: tick, JOIN: join}


def _call(name: str, arguments: list[nodes.Expr], node: nodes.Node) -> nodes.Call:
    return nodes.Call(nodes.Name(name, "load", lineno=node.lineno), arguments, [], None, None, lineno=node.lineno)


def _small(value: object) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= MAX_TEMPLATE_NUMBER


def _printed(value: object) -> object:
    """Values are printed as JavaScript prints them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_to_string(value)
    return "" if value is None else value


def _raise_exception(message: object = "") -> str:
    raise TemplateRefusal(str(message))
