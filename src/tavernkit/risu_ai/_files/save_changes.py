"""Changes of a save's database: another persona or preset, and what the operations of a chat changed."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._values import Json, is_mapping, is_sequence, thaw_object
from tavernkit.errors import ConfigError
from tavernkit.risu_ai._files.message_pack import Packed
from tavernkit.risu_ai._files.preset import preset_from_database, preset_in_database
from tavernkit.risu_ai._files.start_up import Stored

_CHATS = ("chats", "chatPage")
_SETTINGS = {"username": "username", "persona_prompt": "personaPrompt", "selected_persona": "selectedPersona"}
_LISTS = {"personas": "personas", "presets": "botPresets"}


def changed_database(database: Stored, index: int, snapshot: Mapping[str, object]) -> Stored:
    """Return the database with a chat snapshot's changes of characters and settings.

    Args:
        database: RisuAI's own object.
        index: The index of the chat's character or group.
        snapshot: The result of ``Chat.snapshot()``.
    """
    characters = database.get("characters")
    found: list[Packed] = [*characters] if isinstance(characters, list) else []
    own, others = snapshot.get("character"), snapshot.get("members")
    if is_mapping(own):
        found[index] = _laid_over(found[index], own)
    for changed in others if is_sequence(others) else ():
        for place, each in enumerate(found):
            if is_mapping(changed) and isinstance(each, dict) and each.get("chaId") == changed.get("chaId"):
                found[place] = _laid_over(each, changed)
    made: Stored = {**database, "characters": found}
    settings, variables = snapshot.get("settings"), snapshot.get("global_variables")
    if is_mapping(variables):
        made["globalChatVariables"] = _stored(variables)
    if is_mapping(settings):
        raw = settings.get("raw")
        made |= _stored(raw) if is_mapping(raw) else {}
        made |= {key: settings[name] for name, key in _SETTINGS.items() if name in settings}  # pyright: ignore[reportAssignmentType, reportCallIssue, reportArgumentType, reportOperatorIssue]  # texts and numbers
        for name, key in _LISTS.items():
            listed = settings.get(name)
            if is_sequence(listed):
                made[key] = _merged(database.get(key), [_stored(each) for each in listed if is_mapping(each)])
    return made


def _laid_over(before: Packed, changed: Mapping[str, object]) -> Packed:
    """Return a character with changed fields; its chats are stored separately."""
    kept = {key: value for key, value in changed.items() if key not in _CHATS}
    return {**(before if isinstance(before, dict) else {}), **_stored(kept)}


def _merged(before: Packed, after: list[Stored]) -> list[Packed]:
    """Return the objects of a list with changed fields; other fields stay."""
    known = before if isinstance(before, list) else []
    return [
        {**old, **new} if index < len(known) and isinstance(old := known[index], dict) else new
        for index, new in enumerate(after)
    ]


def _place(items: Packed, which: str | int, what: str) -> tuple[int, Stored]:
    """Find an object of a list by its name, id or index."""
    listed = items if isinstance(items, list) else []
    for index, item in enumerate(listed):
        if isinstance(item, dict) and which in (index, item.get("name"), item.get("id")):
            return index, item
    names = ", ".join(str(item.get("name")) for item in listed[:12] if isinstance(item, dict)) or "(there are none)"
    raise ConfigError(f"there is no {what} {which!r}: choose one of {names}")


def _stored(value: Mapping[str, object]) -> Stored:
    return thaw_object(value)  # pyright: ignore[reportReturnType]  # JSON is part of what a database may hold


def with_persona(database: Stored, which: str | int) -> Stored:
    """Switch personas: active values are stored in the old one first."""
    index, persona = _place(database.get("personas"), which, "persona")
    pairs = (("username", "name"), ("personaPrompt", "personaPrompt"), ("userIcon", "icon"), ("userNote", "note"))
    stored = database.get("personas")
    personas: list[Packed] = [*stored] if isinstance(stored, list) else []
    selected = database.get("selectedPersona")
    old = personas[selected] if isinstance(selected, int) and 0 <= selected < len(personas) else None
    if isinstance(old, dict) and isinstance(selected, int):
        personas[selected] = stored = {**old, **{name: database.get(key) for key, name in pairs}}
        persona = stored if selected == index else persona
    chosen: Stored = {key: persona.get(name) or "" for key, name in pairs}
    return {**database, **chosen, "personas": personas, "selectedPersona": index}


def with_preset(database: Stored, which: str | int) -> Stored:
    """Switch presets: the active one is stored first, so choosing it changes nothing."""
    index, preset = _place(database.get("botPresets"), which, "preset")
    active = database.get("botPresetsId")
    if index == active:
        return database
    stored = database.get("botPresets")
    presets: list[Packed] = [*stored] if isinstance(stored, list) else []
    old = presets[active] if isinstance(active, int) and 0 <= active < len(presets) else None
    if isinstance(old, dict) and isinstance(active, int):
        presets[active] = packed(preset_from_database(database, old))
    laid: Stored = {key: packed(value) for key, value in preset_in_database(preset).items()}
    return {**database, **laid, "botPresets": presets, "botPresetsId": index}


def packed(value: Json) -> Packed:
    """Return JSON as part of a database."""
    return value  # pyright: ignore[reportReturnType]  # JSON is part of what a database may hold
