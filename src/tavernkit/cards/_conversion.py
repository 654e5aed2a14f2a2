"""Converts between card versions V1, V2 and V3, and reports what a downgrade loses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._text.json_pointer import escape
from tavernkit._values import Json, JsonObject, is_list, is_object, thaw, thaw_object
from tavernkit.cards._book import BookEntry
from tavernkit.cards._character import (
    CARD_FIELDS,
    REQUIRED,
    SPEC_VERSIONS,
    V1_FIELDS,
    V3_FIELDS,
    CardVersion,
    Character,
)
from tavernkit.cards._fields import Field, ignore

V3_IN_V2 = "cc_extractor/v3"
"""The key in a V2 card's ``extensions`` under which V3's own fields survive a downgrade."""

_HEAD = ("spec", "spec_version", "data")
_EMPTY: tuple[Json, ...] = (None, "", [], {})


@dataclass(frozen=True, slots=True)
class ConversionNote:
    """One field that the target version does not have."""

    pointer: str
    """Where it was in the source card."""
    reason: str
    """Why the field could not be kept as it was."""
    kept_at: str | None = None
    """Where the value was put; programs of that version do not read it there. ``None`` if it is lost."""


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """What a conversion could not keep as it was."""

    source: CardVersion
    """The version that the card had."""
    target: CardVersion
    """The version that it has now."""
    notes: tuple[ConversionNote, ...] = ()
    """One note for each field that could not stay as it was."""

    @property
    def lost(self) -> tuple[ConversionNote, ...]:
        """The fields that are lost."""
        return tuple(note for note in self.notes if note.kept_at is None)

    @property
    def kept(self) -> tuple[ConversionNote, ...]:
        """The fields that are still in the card, where programs of the target version do not read them."""
        return tuple(note for note in self.notes if note.kept_at is not None)


def convert(character: Character, version: CardVersion, *, preserve: bool = True) -> tuple[Character, ConversionReport]:
    """Convert a character to another card version.

    A downgrade stores the newer fields so that converting back restores them; without ``preserve`` they are dropped.

    Args:
        character: The character to convert.
        version: ``v1``, ``v2`` or ``v3``.
        preserve: Keep newer fields in ``extensions``.
    """
    require("character", character, Character, "a Character (tk.load(…).character)")
    require("version", version, CardVersion)
    if version == character.version:
        return character, ConversionReport(version, version)
    card, notes = convert_card(character.to_card(), character.version, version, preserve=preserve)
    return Character.from_card(card, warn=ignore), ConversionReport(character.version, version, notes)


def convert_card(
    card: JsonObject, source: CardVersion, target: CardVersion, *, preserve: bool = True
) -> tuple[JsonObject, tuple[ConversionNote, ...]]:
    """Convert a card's JSON (possibly in place) and report what the target version does not support."""
    start, end = _ORDER.index(source), _ORDER.index(target)
    notes: tuple[ConversionNote, ...] = ()
    for index in range(start, end):
        card = _UPGRADES[index](card)
    for index in range(start, end, -1):
        card, more = _DOWNGRADES[index - 1](card, preserve)
        notes = (*_follow(notes, more), *more)
    return card, notes


def _v1_to_v2(card: JsonObject) -> JsonObject:
    data = _with_defaults(CARD_FIELDS, card, "v2")
    used = {field.key_in(card) for field in CARD_FIELDS}
    data |= {key: card[key] for key in _HEAD if key in card}
    rest = {key: value for key, value in card.items() if key not in used and key not in _HEAD}
    return _merge(_head("v2", data), rest)


def _v2_to_v3(card: JsonObject) -> JsonObject:
    data, card = _data_of(card)
    extensions = data.get("extensions")
    if is_object(extensions) and is_object(kept := extensions.get(V3_IN_V2)):
        data |= {key: value for key, value in kept.items() if key not in data}
        data["extensions"] = {key: value for key, value in extensions.items() if key != V3_IN_V2}
    data = _merge(_with_defaults((), data, "v3"), data)
    book = data.get("character_book")
    if is_object(book):
        data["character_book"] = _book_to_v3(book)
    return _merge(card, _head("v3", data))


def _book_to_v3(book: JsonObject) -> JsonObject:
    upgraded = _merge({"extensions": {}}, book)
    entries = book.get("entries")
    if isinstance(entries, list):
        upgraded["entries"] = [_entry_to_v3(entry) if is_object(entry) else entry for entry in entries]
    return upgraded


def _entry_to_v3(entry: JsonObject) -> JsonObject:
    """V3 requires lists of keys and ``use_regex``; convert an entry to that form."""
    upgraded = _merge({"keys": [], "extensions": {}, "use_regex": False}, entry)
    wrong = [key for key in ("keys", "secondary_keys") if not is_list(upgraded.get(key, []))]
    wrong += [] if isinstance(upgraded["use_regex"], bool) else ["use_regex"]
    if wrong:
        read = BookEntry.from_json(entry, warn=ignore)
        upgraded |= {key: thaw(getattr(read, key)) for key in wrong}
    return upgraded


def _v3_to_v2(card: JsonObject, preserve: bool) -> tuple[JsonObject, tuple[ConversionNote, ...]]:
    data, card = _data_of(card)
    newer = {field.key: data.pop(field.key) for field in V3_FIELDS if field.key in data}
    newer = {key: value for key, value in newer.items() if value not in _EMPTY}
    extensions = data.get("extensions") or {}
    kept = preserve and bool(newer) and is_object(extensions) and V3_IN_V2 not in extensions
    if kept and is_object(extensions):
        data["extensions"] = _merge(extensions, {V3_IN_V2: newer})
    base = f"/data/extensions/{escape(V3_IN_V2)}/" if kept else None
    notes = tuple(
        ConversionNote(f"/data/{key}", _REASONS.get(key, "V2 has no such field"), base and base + key) for key in newer
    )
    return _merge(card, _head("v2", data)), notes


def _v2_to_v1(card: JsonObject, preserve: bool) -> tuple[JsonObject, tuple[ConversionNote, ...]]:
    data, card = _data_of(card)
    flat: JsonObject = {field.key: data.get(field.key, "") for field in V1_FIELDS}
    others = {key: value for key, value in card.items() if key not in _HEAD}
    notes: list[ConversionNote] = []
    for key, value in data.items():
        if key in flat or value in _EMPTY:
            continue
        kept = preserve and not (key == "spec" or (key == "data" and is_object(value) and "name" in value))
        if kept:
            flat[key] = value
        pointer = escape(key)
        notes.append(ConversionNote(f"/data/{pointer}", "V1 has no such field", f"/{pointer}" if kept else None))
    return _merge(others, flat), tuple(notes)


def _with_defaults(fields: Iterable[Field[Any]], card: JsonObject, version: CardVersion) -> JsonObject:
    """Return the fields of a card, with defaults for those that a version requires."""
    defaults = {field.key: field.write(field.default) for field in CARD_FIELDS}
    present = {field.key: card[field.key_in(card)] for field in fields if field.key_in(card) in card}
    return _merge({key: defaults[key] for key in REQUIRED[version]}, present)


def _head(version: CardVersion, data: JsonObject) -> JsonObject:
    return {"spec": f"chara_card_{version}", "spec_version": SPEC_VERSIONS[version], "data": data}


def _merge(*parts: Mapping[str, Json]) -> JsonObject:
    merged: JsonObject = {}
    for part in parts:
        merged.update(part)
    return merged


def _data_of(card: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Return a card's data and the card; a card without ``data`` has its fields at the top level."""
    data = card.get("data")
    if is_object(data):
        return thaw_object(data), card
    keys = {field.key for field in CARD_FIELDS}
    inner = {key: value for key, value in card.items() if key in keys}
    return inner, {key: value for key, value in card.items() if key not in keys}


def _follow(notes: tuple[ConversionNote, ...], later: tuple[ConversionNote, ...]) -> tuple[ConversionNote, ...]:
    """Update the notes of a first step with where the values are after a second one."""
    followed: list[ConversionNote] = []
    for note in notes:
        for step in later:
            if note.kept_at and note.kept_at.startswith(step.pointer + "/"):
                kept_at = step.kept_at and step.kept_at + note.kept_at[len(step.pointer) :]
                note = dataclasses.replace(note, kept_at=kept_at)
        followed.append(note)
    return tuple(followed)


_ORDER: tuple[CardVersion, ...] = ("v1", "v2", "v3")
_UPGRADES: tuple[Callable[[JsonObject], JsonObject], ...] = (_v1_to_v2, _v2_to_v3)
_DOWNGRADES = (_v2_to_v1, _v3_to_v2)
_REASONS: Mapping[str, str] = {
    "nickname": "V2 has no nickname: {{char}} will be the name",
    "assets": "V2 has no assets",
    "group_only_greetings": "V2 has no greetings for groups",
}
