"""The card that SillyTavern stores: V2 with copies of its fields outside of ``data``, its check, and its file name."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from datetime import datetime
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import (
    UNDEFINED,
    join_surrogates,
    json_parse,
    json_stringify,
    to_number,
    to_string,
    trim,
    truthy,
)
from tavernkit._values import Json, JsonObject, deep_merge, is_mapping, is_object, is_sequence, thaw, thaw_object
from tavernkit.cards._character import REQUIRED
from tavernkit.cards._json_text import check_depth
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.errors import InvalidCardError, TavernKitError


class ImportRefusedError(InvalidCardError):
    """SillyTavern's importer refuses the file and answers HTTP 400."""


class ImportFailedError(InvalidCardError):
    """SillyTavern's importer throws; it answers HTTP 200 with ``{error: true}``."""


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
        # SillyTavern overwrites its own defaults with undefined, so the keys are not stored.
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
    favourite = form.get("fav") == "true"  # the text of a form field: true itself does not count
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
    """Return the depth of a form: 4 if there is none, but 0 for an empty field, which JavaScript takes for a number."""
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
    form |= {"ch_name": name, "creator_notes": char["creatorcomment"], "json_data": json_stringify(char)}
    card = create(form, now)
    card["chat"] = char["chat"]
    card["create_date"] = char["create_date"]
    return card


@dataclass(frozen=True, slots=True)
class CardCheck:
    """What SillyTavern thinks of a card."""

    version: Literal[1, 2, 3] | None
    """The first version of the format that the card is valid for; None if SillyTavern refuses it."""
    last_error: str | None
    """The last check that failed, such as a missing field; None for a valid V1 card."""


def check_card(card: Mapping[str, object]) -> CardCheck:
    """Check the JSON of a card as SillyTavern does when attributes are merged into it: as V1, then V2, then V3.

    ``tavernkit.cards.validate()`` finds more, and says what to do.
    """
    # V1 comes first: a V2 card with copies of its fields at the top counts as V1.
    last_error = next((key for key in REQUIRED["v1"] if key not in card), None)
    if last_error is None:
        return CardCheck(1, None)
    problem = _v2_problem(card)
    if problem is None:
        return CardCheck(2, last_error)
    last_error, problem = problem, _v3_problem(card)
    return CardCheck(3, last_error) if problem is None else CardCheck(None, problem)


def _v2_problem(card: Mapping[str, object]) -> str | None:
    if card.get("spec") != "chara_card_v2":
        return "spec"
    if card.get("spec_version") != "2.0":
        return "spec_version"
    data = card.get("data")
    if not is_mapping(data):
        return "no_tavern_card_data"
    missing = next((key for key in REQUIRED["v2"] if key not in data), None)
    if missing is not None:
        return missing
    for key in ("alternate_greetings", "tags"):
        if not is_sequence(data[key]):
            return key
    return "extensions" if not _is_object_type(data["extensions"]) else _book_problem(data.get("character_book"))


def _book_problem(book: object) -> str | None:
    if not truthy(book):
        return None
    if not is_mapping(book) or "extensions" not in book or "entries" not in book:
        return "character_book"
    return None if _is_object_type(book["extensions"]) and is_sequence(book["entries"]) else "character_book"


def _v3_problem(card: Mapping[str, object]) -> str | None:
    if card.get("spec") != "chara_card_v3":
        return "spec"
    version = to_number(card.get("spec_version", UNDEFINED))
    if version < 3 or version >= 4:  # a version that is no number passes
        return "spec_version"
    data = card.get("data")
    return None if data is not None and _is_object_type(data) else "no_card_data"


def _is_object_type(value: object) -> bool:
    """Return True for what ``typeof`` calls an object, including null and arrays."""
    return value is None or is_mapping(value) or is_sequence(value)


MAX_NAME_BYTES = 255

_ILLEGAL = re.compile(r'[/?<>\\:*|"]')
_CONTROL = re.compile(r"[\x00-\x1f\x80-\x9f]")
_DOTS = re.compile(r"\A\.+\Z")
_RESERVED = re.compile(r"\A(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?\Z", re.IGNORECASE | re.DOTALL)
_TRAILING = re.compile(r"(?<![. ])[. ]++\Z")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def sanitize(name: object, replacement: str = "") -> str:
    """Remove characters that a file name cannot have; raises ``ImportFailedError`` if the name is not text.

    Half characters become U+FFFD, as in the names of files that Node.js writes.
    """
    if not isinstance(name, str):
        raise ImportFailedError(f"the name is {type(name).__name__}, not a string")
    for pattern in (_ILLEGAL, _CONTROL, _DOTS, _RESERVED, _TRAILING):
        name = pattern.sub(replacement, name)
    return _cut(_HALF_CHARACTER.sub("\ufffd", join_surrogates(name)))


def _cut(name: str) -> str:
    encoded = name.encode()
    return name if len(encoded) <= MAX_NAME_BYTES else encoded[:MAX_NAME_BYTES].decode("utf-8", errors="ignore")


def free_name(name: str, taken: Container[str]) -> str:
    """Return the name, or the name with the first number that makes it unique."""
    if not name:
        raise ImportFailedError("the character has no name that could be a file name")
    if len(f"{name}.png".encode()) > MAX_NAME_BYTES:
        raise ImportRefusedError("the name is too long for a file")
    chosen, number = name, 0
    while chosen in taken:
        number += 1
        chosen = f"{name}{number}"
    return chosen
