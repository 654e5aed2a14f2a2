"""The character's lorebook."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import number_to_string, to_number, to_string, truthy
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenJson,
    FrozenObject,
    Json,
    freeze,
    freeze_object,
    is_mapping,
    is_sequence,
)
from tavernkit.risu_ai._js import exact_index, replace_all
from tavernkit.risu_ai._triggers.effects.arrays import write
from tavernkit.risu_ai._triggers.registry import EffectTable
from tavernkit.risu_ai._triggers.signals import TriggerFailedError

if TYPE_CHECKING:
    from tavernkit.risu_ai._objects import RisuCharacter
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run

effects = EffectTable()

DEFAULT_ORDER = 100
SLOT = "{{slot}}"
"""The placeholder for the old text when an entry is modified."""


def entries_of(run: Run) -> tuple[FrozenJson, ...]:
    """Return the entries of the run's copy of the character; in very old ones they are lists, not objects."""
    raw = run.character.raw.get("globalLore")
    if is_sequence(raw) and any(is_sequence(entry) for entry in raw):
        return tuple(freeze(entry) for entry in raw)
    return run.character.lore or ()


def store_entries(run: Run, entries: tuple[FrozenJson, ...]) -> None:
    """Replace the entries of the character."""
    run.world.budget.count("lore", len(entries), run.world.budget.limits.lore)
    objects = tuple(freeze_object(entry) for entry in entries if is_mapping(entry))

    def change(character: RisuCharacter) -> RisuCharacter:
        return dataclasses.replace(character, lore=objects, raw=freeze_object({**character.raw, "globalLore": entries}))

    run.change_character(change, "lore")


def replace_entry(run: Run, index: int, entry: FrozenJson) -> None:
    """Replace an entry."""
    entries = entries_of(run)
    store_entries(run, (*entries[:index], freeze(entry), *entries[index + 1 :]))


def fields_of(entry: FrozenJson) -> FrozenObject:
    """Return the fields of an entry; a list has none that effects use."""
    return entry if isinstance(entry, Mapping) else EMPTY_OBJECT


def _index(run: Run, effect: Effect) -> int | None:
    return exact_index(run.number(effect, "index"), len(entries_of(run)))


@effects.effect("v2GetAllLorebooks")
def get_all(run: Run, effect: Effect) -> None:
    """List the texts of all entries."""
    run.output(
        effect, write([to_string(text) for entry in entries_of(run) if truthy(text := fields_of(entry).get("content"))])
    )


@effects.effect("v2GetLorebookByName")
def find_by_name(run: Run, effect: Effect) -> None:
    """List the indexes of entries whose name matches a pattern."""
    name = run.value(effect, "name")
    try:
        regex = JSRegex.compile(name, "i")
    except JSRegexSyntaxError as error:
        raise TriggerFailedError(str(error), kind="SyntaxError") from error
    found: list[Json] = []
    for index, entry in enumerate(entries_of(run)):
        run.world.budget.check_time()
        if regex.test(to_string(fields_of(entry).get("comment", "undefined")), warn=run.world.warn):
            found.append(index)
    run.output(effect, write(found))


@effects.effect("v2GetLorebookByIndex")
def get_by_index(run: Run, effect: Effect) -> None:
    """Read the text of an entry."""
    index = _index(run, effect)
    content = None if index is None else fields_of(entries_of(run)[index]).get("content")
    run.output(effect, "null" if content is None else to_string(content))


@effects.effect("v2GetLorebookCountNew", "v2GetLorebookCount")
def get_count(run: Run, effect: Effect) -> None:
    """Count the entries."""
    run.output(effect, str(len(entries_of(run))))


@effects.effect("v2CreateLorebook")
def create(run: Run, effect: Effect) -> None:
    """Add an entry."""
    name, key, content = run.value(effect, "name"), run.value(effect, "key"), run.value(effect, "content")
    order = run.number(effect, "insertOrder")
    entry: dict[str, FrozenJson] = {
        "key": key,
        "comment": name,
        "content": run.world.budget.text(content),
        "mode": "normal",
        "insertorder": DEFAULT_ORDER if order != order else order,
        "alwaysActive": False,
        "secondkey": "",
        "selective": False,
    }
    store_entries(run, (*entries_of(run), freeze_object(entry)))


@effects.effect("v2ModifyLorebookByIndex")
def modify(run: Run, effect: Effect) -> None:
    """Change an entry; ``{{slot}}`` is the old text."""
    index = _index(run, effect)
    if index is None:
        return
    entry = fields_of(entries_of(run)[index])
    old_order = entry.get("insertorder")
    order = old_order if isinstance(old_order, (int, float)) and old_order else DEFAULT_ORDER
    new_order = _filled(run, effect, "insertOrder", number_to_string(order))
    number = to_number(new_order)
    replace_entry(
        run,
        index,
        {
            **entry,
            "comment": _filled(run, effect, "name", entry.get("comment")),
            "key": _filled(run, effect, "key", entry.get("key")),
            "content": _filled(run, effect, "content", entry.get("content")),
            "insertorder": order if number != number else number,
        },
    )


def _filled(run: Run, effect: Effect, name: str, old: object) -> str:
    text = run.value(effect, name)
    previous = "" if old is None else to_string(old)
    run.world.budget.size(len(text) + text.count(SLOT) * len(previous))
    return replace_all(text, SLOT, previous, warn=run.world.warn)


@effects.effect("v2DeleteLorebookByIndex")
def delete(run: Run, effect: Effect) -> None:
    """Remove an entry."""
    index = _index(run, effect)
    if index is not None:
        entries = entries_of(run)
        store_entries(run, entries[:index] + entries[index + 1 :])


@effects.effect("v2SetLorebookAlwaysActive")
def set_always_active(run: Run, effect: Effect) -> None:
    """Switch whether an entry is always active."""
    index = _index(run, effect)
    if index is not None:
        entry = fields_of(entries_of(run)[index])
        replace_entry(run, index, {**entry, "alwaysActive": effect.fields.get("value")})
