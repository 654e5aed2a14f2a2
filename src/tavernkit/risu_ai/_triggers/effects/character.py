"""The character: its texts and its lorebook; the texts of the persona and the author's note."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import json_stringify, number_to_string, to_number, to_string, truthy
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenJson,
    FrozenObject,
    Json,
    freeze,
    freeze_object,
    is_mapping,
    is_sequence,
    thaw,
)
from tavernkit.risu_ai._js import exact_index, replace_all
from tavernkit.risu_ai._triggers.effects.arrays import element_text
from tavernkit.risu_ai._triggers.limits import TriggerFailedError
from tavernkit.risu_ai._triggers.program import EffectTable

if TYPE_CHECKING:
    from tavernkit.risu_ai._objects import RisuCharacter
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run


effects = EffectTable()


@effects.effect("v2GetCharacterDesc")
def get_description(run: Run, effect: Effect) -> None:
    """Read the description unexpanded."""
    run.output(effect, run.character.description or "")


@effects.effect("v2SetCharacterDesc")
def set_description(run: Run, effect: Effect) -> None:
    """Write the description."""
    text = run.value(effect, "value")

    def change(character: RisuCharacter) -> RisuCharacter:
        return dataclasses.replace(character, description=text, raw=freeze_object({**character.raw, "desc": text}))

    run.change_character(change, "desc")


@effects.effect("v2GetReplaceGlobalNote")
def get_global_note(run: Run, effect: Effect) -> None:
    """Read the text that replaces the global note."""
    note = run.character.raw.get("replaceGlobalNote")
    run.output(effect, "" if note is None else to_string(note))


@effects.effect("v2SetReplaceGlobalNote")
def set_global_note(run: Run, effect: Effect) -> None:
    """Write the text that replaces the global note."""
    text = run.value(effect, "value")

    def change(character: RisuCharacter) -> RisuCharacter:
        return dataclasses.replace(character, raw=freeze_object({**character.raw, "replaceGlobalNote": text}))

    run.change_character(change, "replaceGlobalNote")


@effects.effect("v2GetPersonaDesc")
def get_persona(run: Run, effect: Effect) -> None:
    """Read the persona's text unexpanded."""
    run.output(effect, run.world.persona_prompt)


@effects.effect("v2SetPersonaDesc")
def set_persona(run: Run, effect: Effect) -> None:
    """Write the text of the selected persona, if there is one."""
    if run.world.set_persona(run.value(effect, "value")):
        run.world.event("persona")


@effects.effect("v2GetAuthorNote")
def get_note(run: Run, effect: Effect) -> None:
    """Read the author's note."""
    run.output(effect, run.chat.note)


@effects.effect("v2SetAuthorNote")
def set_note(run: Run, effect: Effect) -> None:
    """Write the author's note, in the stored chat as well."""
    note = run.world.budget.text(run.value(effect, "value"))
    run.chat = dataclasses.replace(run.chat, note=note)
    run.world.chat = dataclasses.replace(run.world.chat, note=note)
    run.world.event("note", note)


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
    """List the texts of all entries; empty ones are left out, so that places in this list are not indexes."""
    run.output(
        effect,
        json_stringify(
            [to_string(text) for entry in entries_of(run) if truthy(text := fields_of(entry).get("content"))]
        ),
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
    run.output(effect, json_stringify(found))


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
        "insertorder": DEFAULT_ORDER if order != order else order,  # an empty text is 0
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
    # An order of 0 counts as missing.
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


# Effects of an older format, whose entries were lists of name, text and whether they are active. Current entries are
# objects, so these effects find nothing in them.
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


def _legacy_index(run: Run, effect: Effect) -> int | None:
    number = run.number(effect, "index")
    return exact_index(0.0 if number != number else number, len(entries_of(run)))  # NaN counts as 0


@effects.effect("v2ModifyLorebook")
def modify_legacy(run: Run, effect: Effect) -> None:
    """Replace the text of the entry with a name."""
    name, text = run.value(effect, "target"), run.value(effect, "value")
    index = _named(run, name)
    if index is not None:
        replace_entry(run, index, _with_place(entries_of(run)[index], _TEXT, text))


@effects.effect("v2GetLorebook")
def get_legacy(run: Run, effect: Effect) -> None:
    """Read the text of the entry with a name."""
    index = _named(run, run.value(effect, "target"))
    run.output(effect, "null" if index is None else element_text(thaw(_place(entries_of(run)[index], _TEXT))))


@effects.effect("v2GetLorebookEntry")
def get_entry(run: Run, effect: Effect) -> None:
    """Read the text of an entry."""
    index = _legacy_index(run, effect)
    run.output(effect, "null" if index is None else element_text(thaw(_place(entries_of(run)[index], _TEXT))))


@effects.effect("v2GetLorebookIndexViaName")
def get_index(run: Run, effect: Effect) -> None:
    """Find the entry with a name."""
    index = _named(run, run.value(effect, "name"))
    run.output(effect, "-1" if index is None else str(index))


@effects.effect("v2SetLorebookActivation")
def set_activation(run: Run, effect: Effect) -> None:
    """Enable or disable an entry; in an object this only adds the key ``2``."""
    index = _legacy_index(run, effect)
    if index is None:
        raise TriggerFailedError(f"there is no lore entry {number_to_string(run.number(effect, 'index'))}")
    replace_entry(run, index, _with_place(entries_of(run)[index], _ACTIVE, effect.fields.get("value")))
