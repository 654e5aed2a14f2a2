"""Lists and dictionaries: variables (or texts) with the JSON text of a list or an object."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tavernkit._text.js_values import (
    JSError,
    is_index_key,
    join,
    json_parse,
    json_stringify,
    number_to_string,
    to_string,
    utf16_at,
    utf16_find,
    utf16_length,
    utf16_slice,
)
from tavernkit._values import Json
from tavernkit.risu_ai._js import INDEX_LIMIT, code_units, exact_index, slice_index
from tavernkit.risu_ai._triggers.limits import RunAbortedError
from tavernkit.risu_ai._triggers.program import EffectTable

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run


effects = EffectTable()


def parse(text: str) -> Json:
    """Read JSON; None for invalid JSON."""
    try:
        return json_parse(text)
    except JSError:
        return None


def element_text(value: Json) -> Json:
    """Return an element as a variable's value: None becomes the text ``null``."""
    return "null" if value is None else value


@effects.effect("v2MakeArrayVar")
def make_list(run: Run, effect: Effect) -> None:
    """Set a variable to an empty list. A name that looks like a list itself ends the run."""
    name = run.name(effect, "var")
    if name.startswith("[") and name.endswith("]"):
        raise RunAbortedError
    run.set(name, "[]")


@effects.effect("v2GetArrayVarLength")
def get_length(run: Run, effect: Effect) -> None:
    """Count the elements."""
    value = parse(run.get(run.name(effect, "var")))
    length: Json
    if isinstance(value, str):
        length = utf16_length(value)
    elif isinstance(value, list):
        length = len(value)
    else:
        length = value.get("length") if isinstance(value, dict) else None
    run.output(effect, "0" if length is None else to_string(length))


@effects.effect("v2GetArrayVar")
def get_element(run: Run, effect: Effect) -> None:
    """Read an element."""
    value = parse(run.get(run.name(effect, "var")))
    run.output(effect, element_text(indexed(value, run.number(effect, "index"))))


def indexed(value: Json, number: float) -> Json:
    """Plain indexing: exact places of lists and texts, number-like keys of objects."""
    if isinstance(value, dict):
        return value.get(number_to_string(number))
    if isinstance(value, (list, str)):
        index = exact_index(number, utf16_length(value) if isinstance(value, str) else len(value))
        if index is not None:
            return utf16_at(value, index) if isinstance(value, str) else value[index]
    return None


@effects.effect("v2SetArrayVar")
def set_element(run: Run, effect: Effect) -> None:
    """Write an element; missing ones before it are filled with null."""
    name = run.name(effect, "var")
    number, text = run.number(effect, "index"), run.value(effect, "value")
    value = parse(run.get(name))
    if math.isnan(number):
        return
    if isinstance(value, dict):
        value[number_to_string(number)] = text
    elif isinstance(value, list):
        _put(run, value, number, text)
    else:
        return
    run.set(name, json_stringify(value))


def _put(run: Run, items: list[Json], number: float, text: str) -> None:
    if not 0 <= number < INDEX_LIMIT or number != int(number):  # a property of the list, which JSON leaves out
        return
    index = int(number)
    run.world.budget.size(5 * max(index - len(items), 0))
    items += [None] * (index + 1 - len(items))
    items[index] = text


def _change(run: Run, effect: Effect, change: Callable[[list[Json]], None]) -> None:
    """Change a list and write it back. Other values become an empty list: the first push to a new variable is lost."""
    name = run.name(effect, "var")
    value = parse(run.get(name))
    if not isinstance(value, list):
        run.set(name, "[]")
        return
    change(value)
    run.set(name, json_stringify(value))


@effects.effect("v2PushArrayVar")
def push(run: Run, effect: Effect) -> None:
    """Add an element at the end."""
    text = run.value(effect, "value")
    _change(run, effect, lambda items: items.append(text))


@effects.effect("v2UnshiftArrayVar")
def unshift(run: Run, effect: Effect) -> None:
    """Add an element at the start."""
    text = run.value(effect, "value")
    _change(run, effect, lambda items: items.insert(0, text))


@effects.effect("v2SpliceArrayVar")
def splice(run: Run, effect: Effect) -> None:
    """Insert an element; nothing is removed."""
    start, text = run.number(effect, "start"), run.value(effect, "item")
    _change(run, effect, lambda items: items.insert(slice_index(start, len(items)), text))


@effects.effect("v2RemoveIndexFromArrayVar")
def remove_element(run: Run, effect: Effect) -> None:
    """Remove an element."""
    number = run.number(effect, "index")

    def remove(items: list[Json]) -> None:
        index = slice_index(number, len(items))
        del items[index : index + 1]

    _change(run, effect, remove)


def _take(run: Run, effect: Effect, index: int) -> None:
    """Remove an element: first the output is written, then the list."""
    name = run.name(effect, "var")
    value = parse(run.get(name))
    if not isinstance(value, list):
        run.set(name, "[]")
        run.output(effect, "null")
        return
    run.output(effect, element_text(value.pop(index)) if value else "null")
    run.set(name, json_stringify(value))


@effects.effect("v2PopArrayVar")
def pop(run: Run, effect: Effect) -> None:
    """Take out the last element."""
    _take(run, effect, -1)


@effects.effect("v2ShiftArrayVar")
def shift(run: Run, effect: Effect) -> None:
    """Take out the first element."""
    _take(run, effect, 0)


@effects.effect("v2SliceArrayVar")
def slice_list(run: Run, effect: Effect) -> None:
    """Copy a part of a list; an end that is empty or not a number counts as 0."""
    value = parse(run.get(run.name(effect, "var")))
    start, end = run.number(effect, "start"), run.number(effect, "end")
    part: Json = []
    if isinstance(value, list):
        part = value[slice_index(start, len(value)) : slice_index(end, len(value))]
    elif isinstance(value, str):
        length = utf16_length(value)
        first, last = slice_index(start, length), slice_index(end, length)
        part = utf16_slice(value, first, last) if first < last else ""
    run.output(effect, json_stringify(part))


@effects.effect("v2GetIndexOfValueInArrayVar")
def index_of(run: Run, effect: Effect) -> None:
    """Find a text in a list; numbers never match it."""
    value, wanted = parse(run.get(run.name(effect, "var"))), run.value(effect, "value")
    index = -1
    if isinstance(value, list):
        index = value.index(wanted) if wanted in value else -1
    elif isinstance(value, str):
        index = utf16_find(value, wanted)
    run.output(effect, str(index))


@effects.effect("v2JoinArrayVar")
def join_list(run: Run, effect: Effect) -> None:
    """Join the elements to a text."""
    value, delimiter = parse(run.value(effect, "var")), run.value(effect, "delimiter")
    if not isinstance(value, list):
        run.output(effect, "")
        return
    run.world.budget.size(len(delimiter) * len(value))
    run.output(effect, join(value, delimiter))


PROTOTYPE = "__proto__"
"""A key that JavaScript does not store, because it is the prototype of the object."""


def own_items(value: Json) -> dict[str, Json]:
    """The enumerable keys of a value as JavaScript sees them: of objects, lists and texts."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        return {str(index): item for index, item in enumerate(value)}
    if isinstance(value, str):
        return {str(index): unit for index, unit in enumerate(code_units(value))}
    return {}


@effects.effect("v2MakeDictVar", "v2ClearDict")
def make_dict(run: Run, effect: Effect) -> None:
    """Set a variable to an empty object. A name that looks like an object before it is expanded ends the run."""
    name = effect.fields.get("var")
    if isinstance(name, str) and name.startswith("{") and name.endswith("}"):
        raise RunAbortedError
    run.set(run.cbs(name), "{}")


@effects.effect("v2GetDictVar")
def get_value(run: Run, effect: Effect) -> None:
    """Read a value."""
    value, key = parse(run.value(effect, "var")), run.value(effect, "key")
    found: Json = own_items(value).get(key)
    if key == "length" and isinstance(value, (list, str)):
        found = len(value) if isinstance(value, list) else utf16_length(value)
    run.output(effect, element_text(found))


def _rewrite(run: Run, effect: Effect, key: str, text: str | None) -> None:
    """Set or remove a key. A dictionary given as text is never written anywhere."""
    kind = effect.fields.get("varType")
    if kind == "value":
        return
    name = run.name(effect, "var")
    value = parse(run.get(name))
    if isinstance(value, dict):
        if text is None:
            value.pop(key, None)
        elif key != PROTOTYPE or key in value:
            value[key] = text
    elif isinstance(value, list) and (index := _list_index(key, run)) is not None:
        if index < len(value):
            value[index] = text  # deleting from a list leaves null
        elif text is not None:
            value += [None] * (index - len(value)) + [text]
    elif not (_deletable(value, key) if text is None else isinstance(value, list)):
        if kind != "var":
            return
        value = _pair(key, text)
    run.set(name, json_stringify(value))


def _deletable(value: Json, key: str) -> bool:
    """Return True if JavaScript deletes a key silently: missing keys, but not fixed ones."""
    if value is None or (isinstance(value, (list, str)) and key == "length"):
        return False
    return not isinstance(value, str) or key not in own_items(value)


def _pair(key: str, text: str | None) -> dict[str, Json]:
    return {} if text is None or key == PROTOTYPE else {key: text}


def _list_index(key: str, run: Run) -> int | None:
    if not is_index_key(key):
        return None
    run.world.budget.size(5 * int(key))
    return int(key)


@effects.effect("v2SetDictVar")
def set_value(run: Run, effect: Effect) -> None:
    """Write a value; a variable without a dictionary becomes one."""
    key, text = run.value(effect, "key"), run.value(effect, "value")
    _rewrite(run, effect, key, text)


@effects.effect("v2DeleteDictKey")
def delete_key(run: Run, effect: Effect) -> None:
    """Remove a key."""
    _rewrite(run, effect, run.value(effect, "key"), None)


@effects.effect("v2HasDictKey")
def has_key(run: Run, effect: Effect) -> None:
    """Store whether a key exists."""
    value, key = parse(run.value(effect, "var")), run.value(effect, "key")
    found = key in own_items(value) or (key == "length" and isinstance(value, (list, str)))
    run.output(effect, "1" if found else "0")


@effects.effect("v2GetDictSize")
def get_size(run: Run, effect: Effect) -> None:
    """Count the keys."""
    run.output(effect, str(len(own_items(parse(run.value(effect, "var"))))))


@effects.effect("v2GetDictKeys")
def get_keys(run: Run, effect: Effect) -> None:
    """List the keys."""
    run.output(effect, json_stringify([*own_items(parse(run.value(effect, "var")))]))


@effects.effect("v2GetDictValues")
def get_values(run: Run, effect: Effect) -> None:
    """List the values."""
    run.output(effect, json_stringify([*own_items(parse(run.value(effect, "var"))).values()]))
