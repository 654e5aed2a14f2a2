"""Lists (JSON arrays in text, or items separated by ``§``) and objects (JSON in text)."""

from __future__ import annotations

import math

from tavernkit._text.js_values import (
    JSSyntaxError,
    is_index_key,
    json_parse,
    to_integer,
    to_number,
    to_string,
    truthy,
    type_of,
)
from tavernkit._values import Json, is_list, is_object
from tavernkit.risu_ai._cbs.calculator import show
from tavernkit.risu_ai._cbs.limits import MAX_ITEMS, FunctionFailure
from tavernkit.risu_ai._cbs.lists import item_text, make_array, parse_dict, stringify
from tavernkit.risu_ai._cbs.registry import CBSCall, FunctionGroup
from tavernkit.risu_ai._js import INDEX_LIMIT, at_index, code_units, slice_index

array_functions = FunctionGroup("arrays")


@array_functions("makearray", "array", "a", args=("items...",), pure=True)
def makearray(call: CBSCall) -> str:
    """A list of the arguments."""
    return make_array(call.args)


@array_functions("arraylength", args=("list",), pure=True)
def arraylength(call: CBSCall) -> str:
    """The number of items."""
    return str(len(call.array(0)))


@array_functions("arrayelement", args=("list", "index"), pure=True)
def arrayelement(call: CBSCall) -> str:
    """One item; a negative index counts from the end; ``null`` if there is none."""
    items = call.array(0)
    index = at_index(call.number(1), len(items))
    return "null" if index is None else item_text(items[index])


@array_functions("arrayshift", args=("list",), pure=True)
def arrayshift(call: CBSCall) -> str:
    """The list without its first item."""
    return make_array(call.array(0)[1:])


@array_functions("arraypop", args=("list",), pure=True)
def arraypop(call: CBSCall) -> str:
    """The list without its last item."""
    return make_array(call.array(0)[:-1])


@array_functions("arraypush", args=("list", "item"), pure=True)
def arraypush(call: CBSCall) -> str:
    """The list with an item at its end."""
    return make_array([*call.array(0), call.get(1)])


@array_functions("arraysplice", args=("list", "start", "count", "item"), pure=True)
def arraysplice(call: CBSCall) -> str:
    """The list with some items replaced by one."""
    items = call.array(0)
    first = slice_index(call.number(1), len(items))
    count = int(min(max(to_integer(call.number(2)), 0), len(items) - first))
    items[first : first + count] = [call.get(3)]  # it always inserts: null if no item is given
    return make_array(items)


@array_functions("arrayassert", args=("list", "index", "item"), pure=True)
def arrayassert(call: CBSCall) -> str:
    """The list with an item at an index beyond its end; existing items stay."""
    items = call.array(0)
    index = call.number(1)
    # In JavaScript any other number names a property, which JSON leaves out.
    if index >= len(items) and index < INDEX_LIMIT and index == int(index):
        if index > MAX_ITEMS:
            raise FunctionFailure(f"a list may have at most {MAX_ITEMS} items")
        items += [None] * (int(index) - len(items))
        items.append(call.get(2))
    return make_array(items)


@array_functions("range", args=("list",), pure=True)
def range_(call: CBSCall) -> str:
    """A list of numbers; the argument is a list of the end, or of start and end, or of start, end and step."""
    given = [to_number(item) for item in call.array(0)[:3]]
    start = given[0] if len(given) > 1 else 0.0
    end = given[1] if len(given) > 1 else given[0] if given else math.nan
    step = given[2] if len(given) > 2 else 1.0
    if start < end and end - start > step * MAX_ITEMS:  # with a step of 0 or less RisuAI would never end
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


@array_functions("filter", args=("list", "kind"), pure=True)
def filter_(call: CBSCall) -> str:
    """The list without empty items (``nonempty``), without repeated ones (``unique``), or without both (``all``)."""
    items = call.array(0)
    kind = call.get(1)  # an unknown word counts as `all`
    if kind != "unique":
        items = [item for item in items if item != ""]
    if kind != "nonempty":
        first: dict[object, Json] = {}
        for item in items:
            first.setdefault(_identity(item), item)
        items = [*first.values()]
    return make_array(items)


object_functions = FunctionGroup("objects")


def _member(value: Json, key: str) -> Json:
    """Return ``value[key]``; None if it does not exist. Inherited properties of JavaScript do not exist here."""
    if is_object(value):
        return value.get(key)
    if is_list(value) or isinstance(value, str):
        items = value if is_list(value) else code_units(str(value))
        if key == "length":
            return len(items)
        return items[int(key)] if is_index_key(key) and int(key) < len(items) else None
    return None


@object_functions("makedict", "dict", "d", "makeobject", "object", "o", args=("key=value...",), pure=True)
def makedict(call: CBSCall) -> str:
    """An object of the arguments."""
    members: dict[str, Json] = {}
    for argument in call.args:
        key, found, value = argument.partition("=")
        if found and key != "__proto__":  # JavaScript would set the prototype: the key is lost
            members[key] = value
    return stringify(members)


@object_functions("dictelement", "objectelement", args=("object", "key"), pure=True)
def dictelement(call: CBSCall) -> str:
    """One member of an object or list; ``null`` if there is none."""
    value = parse_dict(call.get(0))
    if value is None:
        raise FunctionFailure("null has no members")
    return item_text(_member(value, call.shown(1)))


@object_functions("objectassert", "dictassert", "object_assert", args=("object", "key", "value"), pure=True)
def objectassert(call: CBSCall) -> str:
    """The object with a member set; an existing non-empty one stays."""
    value = parse_dict(call.get(0))
    key, given = call.shown(1), call.get(2)
    if value is None:
        raise FunctionFailure("null has no members")
    if truthy(_member(value, key)):  # 0 and false are replaced like missing members
        return stringify(value)
    if is_object(value):
        if given is None:
            value.pop(key, None)
        elif key != "__proto__":
            value[key] = given
    elif is_list(value):
        _assign(value, key, given)
    else:
        raise FunctionFailure("only objects and lists have members")
    return stringify(value)


def _assign(items: list[Json], key: str, value: str | None) -> None:
    if key == "length":
        size = to_number(value) if value is not None else -1
        if size != to_integer(size) or not 0 <= size < 2**32:
            raise FunctionFailure("the length is not valid")
    elif is_index_key(key):
        size = max(int(key) + 1, len(items))
    else:
        return  # JSON does not have other properties of lists
    if size > MAX_ITEMS:
        raise FunctionFailure(f"a list may have at most {MAX_ITEMS} items")
    del items[int(size) :]
    items += [None] * (int(size) - len(items))
    if key != "length":
        items[int(key)] = value


@object_functions("element", "ele", args=("json", "path..."), pure=True)
def element(call: CBSCall) -> Json:
    """The value at a path, through JSON texts; ``null`` if there is none.

    A result that is not text makes the whole text fail in RisuAI, unless it is an object with ``text`` and ``var``.
    """
    if not call.args:
        return None
    current: Json = call.args[0]
    for key in call.args[1:]:
        try:
            value = json_parse(to_string(current))  # a list found here is no JSON any more: it lost its brackets
        except JSSyntaxError:
            return "null"
        current = _member(value, key) if isinstance(value, (dict, list)) else None
        if not truthy(current):  # also 0, false and an empty text
            return "null"
    return current
