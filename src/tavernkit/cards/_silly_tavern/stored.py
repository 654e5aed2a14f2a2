"""The card that SillyTavern stores: V2 with copies of its fields outside of ``data``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime

from tavernkit._text.js_values import UNDEFINED, json_parse, to_number, to_string, trim, truthy
from tavernkit._values import Json, JsonObject, deep_merge, is_object, is_sequence, thaw, thaw_object
from tavernkit.cards._json_text import check_depth
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._silly_tavern.names import ImportFailedError
from tavernkit.errors import TavernKitError

PLACEHOLDER_NOTES = "Creator's notes go here."
_COPIED = ("name", "description", "personality", "scenario", "first_mes", "mes_example")
_COPIED_EXTENSIONS = ("talkativeness", "fav")


def iso_time(now: datetime) -> str:
    """Return the time in the format of ``create_date`` (UTC)."""
    return f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z"


def file_time(now: datetime) -> str:
    """Return the time in the format of chat names."""
    return f"{now:%Y-%m-%d@%Hh%Mm%Ss}{now.microsecond // 1000:03d}ms"


def chat_name(name: Json | object, now: datetime) -> str:
    """The name of a character's first chat."""
    return f"{to_string(name)} - {file_time(now)}"


def reset_private(card: JsonObject) -> None:
    """Clear a card's favourite mark and its chat; missing objects are created."""
    card["fav"] = False
    data = card.get("data")
    if not isinstance(data, (dict, list)):
        data = card["data"] = {}
    if is_object(data):
        extensions = data.get("extensions")
        if not isinstance(extensions, (dict, list)):
            extensions = data["extensions"] = {}
        if is_object(extensions):
            extensions["fav"] = False
    card.pop("chat", None)


def read_v2(card: JsonObject, now: datetime) -> None:
    """Copy a card's fields from ``data`` to the top level."""
    data = card.get("data")
    if not truthy(data):
        return
    card.pop("json_data", None)
    fields = data if is_object(data) else {}
    for key in (*_COPIED, "tags"):
        if key in fields:
            card[key] = fields[key]
    stated = fields.get("extensions")
    extensions = stated if is_object(stated) else {}
    for key in _COPIED_EXTENSIONS:
        if key in extensions:
            card[key] = extensions[key]
        elif key != "fav" or not isinstance(stated, list):  # JSON.stringify ignores other properties of a list
            card.pop(key, None)
    if card.get("chat") is None:
        card["chat"] = chat_name(card.get("name", UNDEFINED), now)


def create(form: Mapping[str, object], now: datetime, worlds: Mapping[str, JsonObject] | None = None) -> JsonObject:
    """Make the card that SillyTavern's editor stores for a form.

    ``worlds`` are the world books that exist, as character books: the one that the form names goes into the card.
    """
    card = _form_json(form.get("json_data"))
    card.pop("json_data", None)
    name = form.get("ch_name")
    texts: JsonObject = {key: _or(form.get(key), "") for key in _COPIED if key != "name"}
    texts["name"] = thaw(name)
    talkativeness = _or(form.get("talkativeness"), 0.5)
    tags = _tags(form.get("tags"))
    notes = _or(form.get("creator_notes"), "")
    favourite = form.get("fav") == "true"
    card.update(texts)
    card.update(
        {
            "creatorcomment": notes,
            "avatar": "none",
            "chat": chat_name(name, now),
            "talkativeness": talkativeness,
            "fav": favourite,
            "tags": tags,
            "spec": "chara_card_v2",
            "spec_version": "2.0",
        }
    )
    old = card.get("data")
    data: JsonObject = old if is_object(old) else {}
    card["data"] = data
    data.update(texts)
    data.update({"creator_notes": notes, "tags": thaw(tags), "alternate_greetings": _greetings(form)})
    for key in ("system_prompt", "post_history_instructions", "creator", "character_version"):
        data[key] = _or(form.get(key), "")
    world = _or(form.get("world"), "")
    data["extensions"] = _extensions(data.get("extensions"), form, talkativeness, favourite, world)
    if isinstance(world, str) and worlds and world in worlds:
        data["character_book"] = thaw_object(worlds[world])
    return card


def _extensions(old: Json, form: Mapping[str, object], talkativeness: Json, favourite: bool, world: Json) -> JsonObject:
    extensions: JsonObject = old if is_object(old) else {}
    extensions |= {"talkativeness": talkativeness, "fav": favourite, "world": world}
    extensions["depth_prompt"] = {
        "prompt": _present(form.get("depth_prompt_prompt"), ""),
        "depth": _depth(form),
        "role": _present(form.get("depth_prompt_role"), "system"),
    }
    more = _form_json(form.get("extensions"))
    return thaw_object(deep_merge(extensions, more)) if more else extensions


def _depth(form: Mapping[str, object]) -> Json:
    depth = to_number(form["depth_prompt_depth"]) if form.get("depth_prompt_depth") is not None else 4
    if math.isnan(depth):
        return 4
    if math.isinf(depth):
        return None
    return int(depth) if depth == int(depth) else depth


def _form_json(text: object) -> JsonObject:
    if not isinstance(text, str):
        return {}
    try:
        check_depth(text, DEFAULT_LIMITS.max_json_depth, what="form")
        value = json_parse(text)
    except TavernKitError:
        return {}
    return value if is_object(value) else {}


def _greetings(form: Mapping[str, object]) -> Json:
    greetings = form.get("alternate_greetings")
    if is_sequence(greetings):
        return thaw(greetings)
    return [greetings] if isinstance(greetings, str) else []


def _tags(tags: object) -> Json:
    if isinstance(tags, str):
        return [tag for tag in (trim(part) for part in tags.split(",")) if tag]
    return thaw(tags) if is_sequence(tags) else []


def _or(value: object, otherwise: Json) -> Json:
    return thaw(value) if truthy(value) else otherwise


def _present(value: object, otherwise: Json) -> Json:
    return otherwise if value is None else thaw(value)


def from_v1(fields: Mapping[str, object], name: str, now: datetime, chat: str | None = None) -> JsonObject:
    """Make the stored card from a V1 card's fields; other keys are dropped."""
    notes = fields.get("creator_notes")
    if isinstance(notes, str):
        notes = notes.replace(PLACEHOLDER_NOTES, "", 1)
    elif truthy(notes):
        raise ImportFailedError(f"creator_notes is {type(notes).__name__}, not a string")
    char: JsonObject = {
        "name": name,
        "creatorcomment": _present(fields.get("creatorcomment"), _present(notes, "")),
        "avatar": "none",
        "chat": chat or chat_name(name, now),
        "create_date": iso_time(now),
        "talkativeness": _present(fields.get("talkativeness"), 0.5),
        "creator": _present(fields.get("creator"), ""),
        "tags": _present(fields.get("tags"), ""),
    }
    char |= {key: _present(fields.get(key), "") for key in _COPIED if key != "name"}
    form: dict[str, object] = dict(char)
    form |= {"ch_name": name, "creator_notes": char["creatorcomment"], "json_data": json.dumps(char)}
    card = create(form, now)
    card["chat"] = char["chat"]
    card["create_date"] = char["create_date"]
    return card
