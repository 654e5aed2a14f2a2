"""Objects: JSON in text."""

from __future__ import annotations

from tavernkit._text.js_values import JSSyntaxError, is_index_key, json_parse, to_integer, to_number, to_string, truthy
from tavernkit._values import Json, is_list, is_object
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.limits import MAX_ITEMS
from tavernkit.risu_ai._cbs.lists import code_units, item_text, parse_dict, stringify
from tavernkit.risu_ai._cbs.registry import FunctionGroup
from tavernkit.risu_ai._cbs.signals import FunctionFailure

functions = FunctionGroup("objects")


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


@functions("makedict", "dict", "d", "makeobject", "object", "o", args=("key=value...",), pure=True)
def makedict(call: CBSCall) -> str:
    """An object of the arguments."""
    members: dict[str, Json] = {}
    for argument in call.args:
        key, found, value = argument.partition("=")
        if found and key != "__proto__":
            members[key] = value
    return stringify(members)


@functions("dictelement", "objectelement", args=("object", "key"), pure=True)
def dictelement(call: CBSCall) -> str:
    """One member of an object or list; ``null`` if there is none."""
    value = parse_dict(call.get(0))
    if value is None:
        raise FunctionFailure("null has no members")
    return item_text(_member(value, call.shown(1)))


@functions("objectassert", "dictassert", "object_assert", args=("object", "key", "value"), pure=True)
def objectassert(call: CBSCall) -> str:
    """The object with a member set; an existing non-empty one stays."""
    value = parse_dict(call.get(0))
    key, given = call.shown(1), call.get(2)
    if value is None:
        raise FunctionFailure("null has no members")
    if truthy(_member(value, key)):
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
        return
    if size > MAX_ITEMS:
        raise FunctionFailure(f"a list may have at most {MAX_ITEMS} items")
    del items[int(size) :]
    items += [None] * (int(size) - len(items))
    if key != "length":
        items[int(key)] = value


@functions("element", "ele", args=("json", "path..."), pure=True)
def element(call: CBSCall) -> Json:
    """The value at a path, through JSON texts; ``null`` if there is none.

    A result that is not text makes the whole text fail in RisuAI, unless it is an object with ``text`` and ``var``.
    """
    if not call.args:
        return None
    current: Json = call.args[0]
    for key in call.args[1:]:
        try:
            value = json_parse(to_string(current))
        except JSSyntaxError:
            return "null"
        current = _member(value, key) if isinstance(value, (dict, list)) else None
        if not truthy(current):
            return "null"
    return current
