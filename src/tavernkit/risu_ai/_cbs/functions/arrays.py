"""Lists: JSON arrays in text, or items separated by ``§``."""

from __future__ import annotations

import math

from tavernkit._text.js_values import to_integer, to_number, type_of
from tavernkit._values import Json
from tavernkit.risu_ai._cbs.calculator import show
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.limits import MAX_ITEMS
from tavernkit.risu_ai._cbs.lists import item_text, make_array
from tavernkit.risu_ai._cbs.registry import FunctionGroup
from tavernkit.risu_ai._cbs.signals import FunctionFailure

functions = FunctionGroup("arrays")

_INDEX_LIMIT = 2**32 - 1


@functions("makearray", "array", "a", args=("items...",), pure=True)
def makearray(call: CBSCall) -> str:
    """A list of the arguments."""
    return make_array(call.args)


@functions("arraylength", args=("list",), pure=True)
def arraylength(call: CBSCall) -> str:
    """The number of items."""
    return str(len(call.array(0)))


@functions("arrayelement", args=("list", "index"), pure=True)
def arrayelement(call: CBSCall) -> str:
    """One item; a negative index counts from the end; ``null`` if there is none."""
    items = call.array(0)
    index = to_integer(call.number(1))
    return item_text(items[int(index)]) if -len(items) <= index < len(items) else "null"


@functions("arrayshift", args=("list",), pure=True)
def arrayshift(call: CBSCall) -> str:
    """The list without its first item."""
    return make_array(call.array(0)[1:])


@functions("arraypop", args=("list",), pure=True)
def arraypop(call: CBSCall) -> str:
    """The list without its last item."""
    return make_array(call.array(0)[:-1])


@functions("arraypush", args=("list", "item"), pure=True)
def arraypush(call: CBSCall) -> str:
    """The list with an item at its end."""
    return make_array([*call.array(0), call.get(1)])


@functions("arraysplice", args=("list", "start", "count", "item"), pure=True)
def arraysplice(call: CBSCall) -> str:
    """The list with some items replaced by one."""
    items = call.array(0)
    start = to_integer(call.number(1))
    first = int(max(start + len(items), 0) if start < 0 else min(start, len(items)))
    count = int(min(max(to_integer(call.number(2)), 0), len(items) - first))
    items[first : first + count] = [call.get(3)]
    return make_array(items)


@functions("arrayassert", args=("list", "index", "item"), pure=True)
def arrayassert(call: CBSCall) -> str:
    """The list with an item at an index beyond its end; existing items stay."""
    items = call.array(0)
    index = call.number(1)
    if index >= len(items) and index < _INDEX_LIMIT and index == int(index):
        if index > MAX_ITEMS:
            raise FunctionFailure(f"a list may have at most {MAX_ITEMS} items")
        items += [None] * (int(index) - len(items))
        items.append(call.get(2))
    return make_array(items)


@functions("range", args=("list",), pure=True)
def range_(call: CBSCall) -> str:
    """A list of numbers; the argument is a list of the end, or of start and end, or of start, end and step."""
    given = [to_number(item) for item in call.array(0)[:3]]
    start = given[0] if len(given) > 1 else 0.0
    end = given[1] if len(given) > 1 else given[0] if given else math.nan
    step = given[2] if len(given) > 2 else 1.0
    if start < end and end - start > step * MAX_ITEMS:
        raise FunctionFailure(f"a list may have at most {MAX_ITEMS} items")
    numbers: list[str] = []
    while start < end:
        if len(numbers) >= MAX_ITEMS:  # a step too small for floating-point precision
            raise FunctionFailure(f"a list may have at most {MAX_ITEMS} items")
        numbers.append(show(start))
        start += step
    return make_array(numbers)


def _identity(item: Json) -> object:
    """Return a key that distinguishes items as ``===`` does."""
    return id(item) if isinstance(item, (list, dict)) else (type_of(item), item)


@functions("filter", args=("list", "kind"), pure=True)
def filter_(call: CBSCall) -> str:
    """The list without empty items (``nonempty``), without repeated ones (``unique``), or without both (``all``)."""
    items = call.array(0)
    kind = call.get(1)
    if kind != "unique":
        items = [item for item in items if item != ""]
    if kind != "nonempty":
        first: dict[object, Json] = {}
        for item in items:
            first.setdefault(_identity(item), item)
        items = [*first.values()]
    return make_array(items)
