"""Converts between world books and the ``character_book`` of V2 and V3 cards, as SillyTavern does."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._text.js_values import UNDEFINED, Undefined, loose_equals, own_keys, to_string, truthy
from tavernkit._values import Json, JsonObject, is_list, is_object, thaw
from tavernkit.silly_tavern._world_info.entry import template_entry

EXTENSION_FIELDS: Mapping[str, tuple[str, Json]] = {
    "excludeRecursion": ("exclude_recursion", False),
    "preventRecursion": ("prevent_recursion", False),
    "delayUntilRecursion": ("delay_until_recursion", False),
    "probability": ("probability", 100),
    "useProbability": ("useProbability", True),
    "depth": ("depth", 4),
    "selectiveLogic": ("selectiveLogic", 0),
    "outletName": ("outlet_name", ""),
    "group": ("group", ""),
    "groupOverride": ("group_override", False),
    "groupWeight": ("group_weight", 100),
    "scanDepth": ("scan_depth", None),
    "caseSensitive": ("case_sensitive", None),
    "matchWholeWords": ("match_whole_words", None),
    "useGroupScoring": ("use_group_scoring", None),
    "automationId": ("automation_id", ""),
    "role": ("role", 0),
    "vectorized": ("vectorized", False),
    "sticky": ("sticky", None),
    "cooldown": ("cooldown", None),
    "delay": ("delay", None),
    "matchPersonaDescription": ("match_persona_description", False),
    "matchCharacterDescription": ("match_character_description", False),
    "matchCharacterPersonality": ("match_character_personality", False),
    "matchCharacterDepthPrompt": ("match_character_depth_prompt", False),
    "matchScenario": ("match_scenario", False),
    "matchCreatorNotes": ("match_creator_notes", False),
    "ignoreBudget": ("ignore_budget", False),
}
"""World field → its name in an entry's ``extensions``, and the default for missing or null on import."""

EXPORT_DEFAULTS: Mapping[str, Json] = {
    "probability": None,
    "useProbability": False,
    "groupWeight": None,
    "useGroupScoring": False,
}
"""Fields with different defaults for writing and reading."""


def character_book_to_world(book: object) -> JsonObject:
    """Convert a ``character_book`` to a world; the book itself is kept in ``originalData``."""
    original = thaw(book)
    entries: JsonObject = {}
    listed = original.get("entries") if is_object(original) else None
    for index, raw in enumerate(listed if is_list(listed) else []):
        if not is_object(raw):
            continue
        raw.setdefault("id", index)
        entries[to_string(raw["id"])] = _entry_to_world(raw, index)
    return {"entries": entries, "originalData": original}


def _entry_to_world(raw: JsonObject, index: int) -> JsonObject:
    given = raw.get("extensions")
    extensions: JsonObject = given if is_object(given) else {}
    position = extensions.get("position")
    if position is None:
        position = 0 if raw.get("position") == "before_char" else 1
    fields: dict[str, Json | Undefined] = {
        "key": raw.get("keys", UNDEFINED),
        "keysecondary": _or(raw, "secondary_keys", []),
        "comment": _or(raw, "comment", ""),
        "content": raw.get("content", UNDEFINED),
        "constant": _or(raw, "constant", False),
        "selective": _or(raw, "selective", False),  # new entries have true
        "order": raw.get("insertion_order", UNDEFINED),
        "position": position,
        "disable": not truthy(raw.get("enabled", UNDEFINED)),  # an entry that does not say is switched off
        "addMemo": truthy(raw.get("comment", UNDEFINED)),
        "triggers": _or(extensions, "triggers", []),
        "uid": raw["id"],
        "displayIndex": _coalesce(extensions, "display_index", index),
        "extensions": _coalesce(raw, "extensions", {}),
    }
    for field, (name, default) in EXTENSION_FIELDS.items():
        fields[field] = _coalesce(extensions, name, default)
    return template_entry(fields)


def world_to_character_book(name: str, world: Json) -> JsonObject:
    """Convert a world to a ``character_book``; character filters and book-level data are lost."""
    entries = world.get("entries") if is_object(world) else None
    listed: list[Json] = []
    if is_object(entries):
        listed = [entries[key] for key in own_keys(entries)]
    elif is_list(entries):
        listed = entries
    return {"entries": [_entry_to_book(raw) for raw in listed if is_object(raw)], "name": name}


_BOOK_FIELDS: tuple[tuple[str, str], ...] = (
    ("id", "uid"),
    ("keys", "key"),
    ("secondary_keys", "keysecondary"),
    ("comment", "comment"),
    ("content", "content"),
    ("constant", "constant"),
    ("selective", "selective"),
    ("insertion_order", "order"),
)


def _entry_to_book(raw: JsonObject) -> JsonObject:
    converted: JsonObject = {name: thaw(raw[field]) for name, field in _BOOK_FIELDS if field in raw}
    converted["enabled"] = not truthy(raw.get("disable", UNDEFINED))
    in_front = "position" in raw and loose_equals(raw["position"], 0)
    converted["position"] = "before_char" if in_front else "after_char"
    converted["use_regex"] = True  # always, as in SillyTavern
    given = raw.get("extensions")
    extensions: JsonObject = {key: thaw(value) for key, value in given.items()} if is_object(given) else {}
    for field, name in (
        ("position", "position"),
        ("excludeRecursion", "exclude_recursion"),
        ("displayIndex", "display_index"),
    ):
        # SillyTavern copies these three as they are: a missing field also removes the stored one.
        extensions.pop(name, None)
        if field in raw:
            extensions[name] = thaw(raw[field])
    for field, (name, default) in EXTENSION_FIELDS.items():
        if field == "excludeRecursion":
            continue
        default = EXPORT_DEFAULTS.get(field, default)
        extensions[name] = _coalesce(raw, field, default)
    extensions["triggers"] = _coalesce(raw, "triggers", [])
    converted["extensions"] = extensions
    return converted


def _coalesce(raw: Mapping[str, Json], name: str, default: Json) -> Json:
    value = raw.get(name)
    return thaw(default if value is None else value)


def _or(raw: Mapping[str, Json], name: str, default: Json) -> Json:
    value: Json | Undefined = raw.get(name, UNDEFINED)
    return thaw(value) if truthy(value) else thaw(default)
