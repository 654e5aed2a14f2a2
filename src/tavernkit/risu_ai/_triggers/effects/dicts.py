"""Dictionaries: variables (or texts) with the JSON text of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit._text.js_values import is_index_key, utf16_length
from tavernkit._values import Json
from tavernkit.risu_ai._cbs.lists import code_units
from tavernkit.risu_ai._triggers.effects.arrays import element_text, parse, write
from tavernkit.risu_ai._triggers.registry import EffectTable
from tavernkit.risu_ai._triggers.signals import RunAbortedError

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run

effects = EffectTable()

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
            value[index] = text
        elif text is not None:
            value += [None] * (index - len(value)) + [text]
    elif not (_deletable(value, key) if text is None else isinstance(value, list)):
        if kind != "var":
            return
        value = _pair(key, text)
    run.set(name, write(value))


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
    """Return True if a key exists."""
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
    run.output(effect, write([*own_items(parse(run.value(effect, "var")))]))


@effects.effect("v2GetDictValues")
def get_values(run: Run, effect: Effect) -> None:
    """List the values."""
    run.output(effect, write([*own_items(parse(run.value(effect, "var"))).values()]))
