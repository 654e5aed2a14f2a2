"""The sandbox of chat templates: few functions and filters, and every loop and growing text is counted.

The filters are like those of RisuAI's Jinja library: they work on JavaScript's texts, and with lists as results.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from jinja2 import ChainableUndefined, Undefined, nodes, pass_context
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from tavernkit._text.js_values import js_lower, js_upper, number_to_string, remainder, trim, utf16_length
from tavernkit._values import is_mapping, is_sequence
from tavernkit.risu_ai._limits import MAX_TEMPLATE_LOOPS, MAX_TEMPLATE_NUMBER, MAX_TEMPLATE_OUTPUT

_WORD_START = re.compile(r"\b\w", re.ASCII)


def has_length(value: object) -> bool:
    """True if a value has the attribute ``length``."""
    return isinstance(value, (str, list, tuple))


def length(value: Any) -> int:
    """How long a value is; texts as JavaScript counts them."""
    return utf16_length(value) if isinstance(value, str) else len(value)


def _trim(value: object, characters: str | None = None) -> str:
    return trim(str(value)) if characters is None else str(value).strip(characters)


def _upper(value: object) -> str:
    return js_upper(str(value))


def _lower(value: object) -> str:
    return js_lower(str(value))


def _title(value: object) -> str:
    """Begin every word with a capital; the other letters stay as they are."""
    return _WORD_START.sub(lambda found: js_upper(found.group()), str(value))


def _capitalize(value: object) -> str:
    text = str(value)
    return js_upper(text[:1]) + text[1:]


def _reverse(value: Any) -> Any:
    return value[::-1] if isinstance(value, str) else list(reversed(value))


def _items(value: Mapping[str, Any]) -> list[Any]:
    return list(value.items())


def listed(pick: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return a Jinja filter that selects items, with a list as its result."""

    @pass_context
    def picked(context: Any, *arguments: Any, **named: Any) -> list[Any]:
        return list(pick(context, *arguments, **named))

    return picked


PICKING_FILTERS = ("map", "select", "reject", "selectattr", "rejectattr")
"""Jinja's filters that select items."""

JS_FILTERS: Mapping[str, Callable[..., Any]] = {
    "trim": _trim,
    "upper": _upper,
    "lower": _lower,
    "title": _title,
    "capitalize": _capitalize,
    "length": length,
    "reverse": _reverse,
    "items": _items,
}
"""Our own filters by name."""


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
_GROWING_METHODS = frozenset({"center", "encode", "expandtabs", "ljust", "rjust", "translate", "zfill"})
"""Methods of Python's strings that create long texts; RisuAI's Jinja library has none of them."""

TICK, JOIN, MEASURE, EACH, TIMED = "_tick", "_join", "_measure", "_each", "_timed"
"""Names under which a compiled template reaches its counters."""


_LOOK_AT_CLOCK = 100
"""Iterations of loops between two checks of the clock."""


class TemplateLimitError(TemplateError):
    """A template does more than a limit allows."""


class TemplateRefusal(TemplateError):  # noqa: N818 - it is the template that says no
    """A template called ``raise_exception``."""


class Absent(Undefined):
    """A name without a value, in strict mode: it may be printed and tested, but nothing else."""

    __slots__ = ()

    def __iter__(self) -> Iterator[object]:
        """Refuse a loop."""
        self._fail_with_undefined_error()


class ChatTemplateEnvironment(ImmutableSandboxedEnvironment):
    """Jinja for chat templates. Nothing of Python can be reached from inside."""

    intercepted_binops = frozenset({"+", "*", "**", "%", "/"})

    def __init__(self, *, strict: bool = False) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
            finalize=_printed,
            undefined=Absent if strict else ChainableUndefined,
        )
        filters: dict[str, Any] = self.filters
        functions: dict[str, Any] = self.globals
        self.filters = {name: filters[name] for name in _FILTERS}
        self.filters |= {name: listed(filters[name]) for name in PICKING_FILTERS}
        self.filters |= {**JS_FILTERS, "replace": _replace, "join": _join}
        kept = {name: functions[name] for name in ("namespace", "range")}
        self.globals = {**kept, "dict": _dict, "raise_exception": _raise_exception}

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Read an attribute; texts and lists know their length."""
        return length(obj) if attribute == "length" and has_length(obj) else super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Read an item or an attribute."""
        return length(obj) if argument == "length" and has_length(obj) else super().getitem(obj, argument)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Refuse ``format``, which Jinja would allow."""
        if super().wrap_str_format(value) is not None:
            raise TemplateLimitError("a text may not be formatted")
        return None

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Deny attributes that could fill the memory, besides those that Jinja denies."""
        if isinstance(obj, str) and attr in _GROWING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function; the methods of texts that put texts together measure the result first."""
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str) and not kwargs:
            if obj.__name__ == "replace" and len(args) in {2, 3}:
                return _replace(owner, *args)
            if obj.__name__ == "join" and len(args) == 1:
                return _join(args[0], owner)
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator whose result may grow."""
        if operator in {"*", "**"} and not (_small(left) and _small(right)):
            raise TemplateLimitError(f"{operator!r} is for small numbers only")
        if operator == "**" and abs(right) > 64:
            raise TemplateLimitError("the exponent is too large")
        if operator in {"%", "/"}:
            return _divided(operator, left, right)
        if operator == "+" and _text_and_number(left, right):
            return _join((left, right))
        result = super().call_binop(context, operator, left, right)
        return measured(result)


class Counted(NodeTransformer):
    """Makes every loop count its iterations, and measures the results of all joining operations."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Make a loop check its list and call the counter first."""
        self.generic_visit(node)
        node.iter = _call(EACH, [cast("nodes.Expr", node.iter)], node)
        node.body.insert(0, nodes.ExprStmt(_call(TICK, [], node), lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Make ``~`` join through a measuring function."""
        self.generic_visit(node)
        return _call(JOIN, node.nodes, node)

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Check the clock after a filter; filters of a block have no value of their own."""
        self.generic_visit(node)
        return node if node.node is None else _call(TIMED, [node], node)

    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Check the clock after a call."""
        self.generic_visit(node)
        return _call(TIMED, [node], node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Leave the call of a block unchanged: Jinja expects it there."""
        node.body = [cast("nodes.Node", self.visit(each)) for each in node.body]
        return node

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Leave the filters of a block unchanged: Jinja expects them there."""
        node.body = [cast("nodes.Node", self.visit(each)) for each in node.body]
        return node

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Measure a list."""
        return self._measured(node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Measure a dictionary."""
        return self._measured(node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Measure a tuple, except targets of an assignment."""
        if node.ctx == "load":
            return self._measured(node)
        self.generic_visit(node)
        return node

    def _measured(self, node: nodes.Expr) -> nodes.Node:
        self.generic_visit(node)
        return _call(MEASURE, [node], node)


def counters(seconds: float, *, strict: bool = False) -> dict[str, Callable[..., object]]:
    """The counters of one rendering, by the names a compiled template uses; ``seconds`` are processor time."""
    rounds = 0
    deadline = time.thread_time() + seconds

    def tick() -> None:
        nonlocal rounds
        rounds += 1
        if rounds > MAX_TEMPLATE_LOOPS or (not rounds % _LOOK_AT_CLOCK and time.thread_time() > deadline):
            raise TemplateLimitError("the template loops too long")

    def timed(value: T) -> T:
        if time.thread_time() > deadline:
            raise TemplateLimitError(f"the template takes longer than {seconds:g} seconds")
        return value

    def each(items: object) -> object:
        if strict and (isinstance(items, str) or is_mapping(items)):
            raise TemplateError("a loop goes over a list only")
        return items

    return {TICK: tick, JOIN: lambda *parts: _join(parts), MEASURE: measured, EACH: each, TIMED: timed}


def measured(value: T) -> T:
    """Return a value if its text would not be too long, even with repeated parts."""
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


def _divided(operator: str, left: object, right: object) -> float:
    """Divide as JavaScript does: by zero too, and the remainder has the sign of the left side."""
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        raise TemplateLimitError(f"{operator!r} is for numbers only")
    if operator == "%":
        result = remainder(left, right)
    elif right:
        result = left / right
    else:
        result = math.copysign(math.inf, left) if left else math.nan
    return int(result) if result.is_integer() else result


def _text_and_number(left: object, right: object) -> bool:
    """Return True if JavaScript would join two values as texts."""
    kinds = {type(left), type(right)}
    return str in kinds and bool(kinds & {int, float, bool})


def _small(value: object) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= MAX_TEMPLATE_NUMBER


def _printed(value: object) -> object:
    """Print a value as JavaScript does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_to_string(value)
    if isinstance(value, (list, tuple)):
        return ",".join(["[object Object]"] * len(cast("list[object]", value)))
    if isinstance(value, dict):
        return "[object Map]"
    return "" if value is None else value


def _raise_exception(message: object = "") -> str:
    raise TemplateRefusal(str(message))
