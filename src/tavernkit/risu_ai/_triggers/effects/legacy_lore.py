"""Lorebook effects of an older format: entries that were lists of name, text and whether they are active.

Current entries are objects, so these effects find nothing in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit._text.js_values import number_to_string
from tavernkit._values import FrozenJson, thaw
from tavernkit.risu_ai._js import exact_index
from tavernkit.risu_ai._triggers.effects.arrays import element_text
from tavernkit.risu_ai._triggers.effects.lore import entries_of, fields_of, replace_entry
from tavernkit.risu_ai._triggers.registry import EffectTable
from tavernkit.risu_ai._triggers.signals import TriggerFailedError

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run

effects = EffectTable()

_NAME, _TEXT, _ACTIVE = 0, 1, 2


def _place(entry: FrozenJson, place: int) -> FrozenJson:
    """Return the item at an index of a list; in an object the index is a key."""
    if isinstance(entry, tuple):
        return entry[place] if place < len(entry) else None
    return fields_of(entry).get(str(place))


def _with_place(entry: FrozenJson, place: int, value: FrozenJson) -> FrozenJson:
    if not isinstance(entry, tuple):
        return {**fields_of(entry), str(place): value}
    items = [_place(entry, index) for index in range(max(len(entry), place + 1))]
    items[place] = value
    return items


def _named(run: Run, name: str) -> int | None:
    return next((i for i, entry in enumerate(entries_of(run)) if _place(entry, _NAME) == name), None)


def _index(run: Run, effect: Effect) -> int | None:
    number = run.number(effect, "index")
    return exact_index(0.0 if number != number else number, len(entries_of(run)))


@effects.effect("v2ModifyLorebook")
def modify(run: Run, effect: Effect) -> None:
    """Replace the text of the entry with a name."""
    name, text = run.value(effect, "target"), run.value(effect, "value")
    index = _named(run, name)
    if index is not None:
        replace_entry(run, index, _with_place(entries_of(run)[index], _TEXT, text))


@effects.effect("v2GetLorebook")
def get(run: Run, effect: Effect) -> None:
    """Read the text of the entry with a name."""
    index = _named(run, run.value(effect, "target"))
    run.output(effect, "null" if index is None else element_text(thaw(_place(entries_of(run)[index], _TEXT))))


@effects.effect("v2GetLorebookEntry")
def get_entry(run: Run, effect: Effect) -> None:
    """Read the text of an entry."""
    index = _index(run, effect)
    run.output(effect, "null" if index is None else element_text(thaw(_place(entries_of(run)[index], _TEXT))))


@effects.effect("v2GetLorebookIndexViaName")
def get_index(run: Run, effect: Effect) -> None:
    """Find the entry with a name."""
    index = _named(run, run.value(effect, "name"))
    run.output(effect, "-1" if index is None else str(index))


@effects.effect("v2SetLorebookActivation")
def set_activation(run: Run, effect: Effect) -> None:
    """Enable or disable an entry; in an object this only adds the key ``2``."""
    index = _index(run, effect)
    if index is None:
        raise TriggerFailedError(f"there is no lore entry {number_to_string(run.number(effect, 'index'))}")
    replace_entry(run, index, _with_place(entries_of(run)[index], _ACTIVE, effect.fields.get("value")))
