"""The sandbox chat templates run in: few functions, and every loop and every growing text is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from tavernkit.risu_ai.limits import MAX_TEMPLATE_LOOPS, MAX_TEMPLATE_NUMBER, MAX_TEMPLATE_OUTPUT
from tavernkit.text.js_values import number_to_string, utf16_length
from tavernkit.values import is_mapping, is_sequence

T = TypeVar("T")

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
TICK, JOIN, MEASURE = "_tick", "_join", "_measure"
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
        self.filters |= {"replace": _replace, "join": _join, "length": _length}
        kept = {name: functions[name] for name in ("namespace", "range")}
        self.globals = {**kept, "dict": _dict, "raise_exception": _raise_exception}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Carry out an operator whose result may grow."""
        if operator in {"*", "**"} and not (_small(left) and _small(right)):
            raise TemplateLimitError(f"{operator!r} is for small numbers only")
        if operator == "**" and abs(right) > 64:
            raise TemplateLimitError("the exponent is too large")
        if operator == "%" and isinstance(left, str):
            raise TemplateLimitError("'%' is for numbers only")
        if operator == "+" and _text_and_number(left, right):
            return _join((left, right))
        result = super().call_binop(context, operator, left, right)
        return measured(result)


class Counted(NodeTransformer):
    """Makes every loop count its rounds, and everything that puts values together measure the result."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Let a loop call the counter first."""
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_call(TICK, [], node), lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Let ``~`` join through a function that measures."""
        self.generic_visit(node)
        return _call(JOIN, node.nodes, node)

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Measure a list."""
        return self._measured(node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Measure a dictionary."""
        return self._measured(node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Measure a tuple; one that names targets of an assignment is none."""
        if node.ctx == "load":
            return self._measured(node)
        self.generic_visit(node)
        return node

    def _measured(self, node: nodes.Expr) -> nodes.Node:
        self.generic_visit(node)
        return _call(MEASURE, [node], node)


def counters() -> dict[str, Callable[..., object]]:
    """The counters of one rendering, by the names a compiled template uses."""
    rounds = 0

    def tick() -> None:
        nonlocal rounds
        rounds += 1
        if rounds > MAX_TEMPLATE_LOOPS:
            raise TemplateLimitError("the template loops too long")

    return {TICK: tick, JOIN: lambda *parts: _join(parts), MEASURE: measured}


def measured(value: T) -> T:
    """Give a value back if its text would not be too long, however often it holds the same thing."""
    if _weight(value, {}) > MAX_TEMPLATE_OUTPUT:
        raise TemplateLimitError("a text grows too long")
    return value


def _weight(value: object, known: dict[int, int]) -> int:
    if isinstance(value, str):
        return len(value) + 1
    if not is_mapping(value) and not is_sequence(value):
        return 1
    weight = known.get(id(value))
    if weight is None:
        inner = (*value.keys(), *value.values()) if is_mapping(value) else value
        weight = known[id(value)] = 1 + sum(_weight(item, known) for item in inner)
    return weight


def _join(parts: Iterable[object], between: str = "") -> str:
    texts = [str(_printed(part)) for part in parts]
    if sum(map(len, texts)) + len(between) * len(texts) > MAX_TEMPLATE_OUTPUT:
        raise TemplateLimitError("a text grows too long")
    return between.join(texts)


def _replace(text: object, old: str, new: str, count: int = -1) -> str:
    source = str(text)
    if len(source) + source.count(old) * len(new) > MAX_TEMPLATE_OUTPUT:
        raise TemplateLimitError("a text grows too long")
    return source.replace(old, new, count)


def _dict(*items: Any, **values: Any) -> dict[str, Any]:
    return measured(dict(*items, **values))


def _call(name: str, arguments: list[nodes.Expr], node: nodes.Node) -> nodes.Call:
    return nodes.Call(nodes.Name(name, "load", lineno=node.lineno), arguments, [], None, None, lineno=node.lineno)


def _length(value: Any) -> int:
    """Texts are as long as JavaScript counts them."""
    return utf16_length(value) if isinstance(value, str) else len(value)


def _text_and_number(left: object, right: object) -> bool:
    """Whether JavaScript would put two values together as texts."""
    kinds = {type(left), type(right)}
    return str in kinds and bool(kinds & {int, float, bool})


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
