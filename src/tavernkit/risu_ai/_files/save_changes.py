"""Applies the changes of a chat's operations to a save."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._values import is_mapping, is_sequence, thaw_object
from tavernkit.risu_ai._files.message_pack import Packed
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
        made["globalChatVariables"] = _packed(variables)
    if is_mapping(settings):
        raw = settings.get("raw")
        made |= _packed(raw) if is_mapping(raw) else {}
        made |= {key: settings[name] for name, key in _SETTINGS.items() if name in settings}  # pyright: ignore[reportAssignmentType, reportCallIssue, reportArgumentType, reportOperatorIssue]  # texts and numbers
        for name, key in _LISTS.items():
            listed = settings.get(name)
            if is_sequence(listed):
                made[key] = _merged(database.get(key), [_packed(each) for each in listed if is_mapping(each)])
    return made


def _laid_over(before: Packed, changed: Mapping[str, object]) -> Packed:
    """Return a character with changed fields; its chats are stored separately."""
    kept = {key: value for key, value in changed.items() if key not in _CHATS}
    return {**(before if isinstance(before, dict) else {}), **_packed(kept)}


def _merged(before: Packed, after: list[Stored]) -> list[Packed]:
    """Return the objects of a list with changed fields; other fields stay."""
    known = before if isinstance(before, list) else []
    return [
        {**old, **new} if index < len(known) and isinstance(old := known[index], dict) else new
        for index, new in enumerate(after)
    ]


def _packed(value: Mapping[str, object]) -> Stored:
    return thaw_object(value)  # pyright: ignore[reportReturnType]  # JSON is part of what a database may hold
