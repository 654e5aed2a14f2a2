"""Uploaded files: what they are, and how the library stores them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePath

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import silly_tavern as st
from tavernkit._values import is_object
from tavernkit.cards import load, parse_json
from tavernkit.errors import TavernKitError
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import RISU_AI, SILLY_TAVERN, StoredPersona, persona_file
from tavernkit.server.limits import MAX_NAME_CHARACTERS
from tavernkit.server.storage.items import ItemInfo, Kind, save_item
from tavernkit.server.storage.tables import storable

RISU_PRESET_SUFFIXES = (".risup", ".risupreset")
RISU_PRESET_KEYS = frozenset(("promptTemplate", "formatingOrder", "aiModel"))


@dataclass(frozen=True, slots=True)
class NewItem:
    """A file that was read and can be stored."""

    kind: Kind
    name: str
    platform: str
    file: bytes
    filename: str
    warnings: tuple[str, ...] = ()
    scripts_allowed: bool = True
    """False if its regex scripts do not run, because they did not in the installation that it comes from."""


def read_item(kind: Kind, filename: str, data: bytes, *, name: str | None = None) -> NewItem:
    """Read a file of a kind; other files are refused with the reason."""
    warnings: list[str] = []
    path = PurePath(storable(filename).replace("\\", "/"))
    stem = name or path.stem or kind
    try:
        item = _READERS[kind](stem, path.name or kind, data, warnings)
    except TavernKitError as error:
        if isinstance(error, ServiceError):
            raise
        raise ServiceError(422, f"the {kind} cannot be read: {error}", code=f"invalid_{kind}") from error
    chosen = storable(name or item.name).strip()[:MAX_NAME_CHARACTERS] or kind
    return NewItem(kind, chosen, item.platform, item.file, item.filename, tuple(map(storable, warnings)))


async def store_item(connection: AsyncConnection, item: NewItem, item_id: str | None = None) -> ItemInfo:
    """Store an item, or a new version of the one with an id."""
    return await save_item(
        connection,
        item.kind,
        name=item.name,
        platform=item.platform,
        file=item.file,
        filename=item.filename,
        item_id=item_id,
    )


def _character(stem: str, filename: str, data: bytes, warnings: list[str]) -> NewItem:
    bundle = load(data)
    warnings.extend(bundle.warnings)
    if bundle.card is None:
        raise ServiceError(422, "the file contains no character", code="invalid_character")
    return NewItem("character", bundle.card.name or stem, SILLY_TAVERN, data, filename)


def _book(stem: str, filename: str, data: bytes, warnings: list[str]) -> NewItem:
    book = st.import_world(filename, data, warn=warnings.append)
    if book is None:
        raise ServiceError(422, f"the file contains no book: {'; '.join(warnings)}", code="invalid_book")
    return NewItem("book", stem, SILLY_TAVERN, book.dumps().encode("utf-8", "replace"), f"{stem}.json")


def _preset(stem: str, filename: str, data: bytes, warnings: list[str]) -> NewItem:
    value: object = None
    if not filename.lower().endswith(RISU_PRESET_SUFFIXES):
        value = parse_json(data, what="preset", warn=warnings.append)
    if value is None or (is_object(value) and RISU_PRESET_KEYS & set(value)):
        from tavernkit import risu_ai

        risu_ai.Preset.load(data, name=stem, warn=warnings.append)
        return NewItem("preset", stem, RISU_AI, data, filename)
    # A preset may contain its author's connections, which clients of a server must not get.
    preset = st.Preset.from_json(value, name=stem, warn=warnings.append)
    warnings += unused_body(preset)
    kept = preset.without_secrets().dumps().encode("utf-8", "replace")
    return NewItem("preset", stem, SILLY_TAVERN, kept, filename)


def unused_body(preset: st.Preset) -> list[str]:
    """Return warnings about fields that a preset adds to requests of its own connection: here, upstreams do that."""
    if preset.chat_completion_source != "custom":
        return []
    return [
        f"{key} belongs to a connection and is not used: set body and fields of the upstream instead"
        for key in ("custom_include_body", "custom_exclude_body")
        if preset.get(key)
    ]


def _module(stem: str, filename: str, data: bytes, warnings: list[str]) -> NewItem:
    from tavernkit import risu_ai

    module = risu_ai.read_module(data, name=stem, new_id=None, warn=warnings.append)
    return NewItem("module", module.name or stem, RISU_AI, data, filename)


def _group(stem: str, filename: str, data: bytes, warnings: list[str]) -> NewItem:
    value = parse_json(data, what="group", warn=warnings.append)
    if not is_object(value):
        raise ServiceError(422, "a group must be a JSON object", code="invalid_group")
    group = st.Group.from_json(value)
    return NewItem("group", group.name or stem, SILLY_TAVERN, data, filename)


def _persona(stem: str, filename: str, data: bytes, warnings: list[str]) -> NewItem:
    from tavernkit.server.library.library import read_persona

    persona = read_persona(parse_json(data, what="persona", warn=warnings.append))
    return NewItem("persona", persona.name or stem, SILLY_TAVERN, persona_file(persona), filename)


def persona_item(persona: StoredPersona) -> NewItem:
    """Return a persona that can be stored."""
    return NewItem("persona", persona.name, SILLY_TAVERN, persona_file(persona), "persona.json")


def group_item(content: dict[str, object]) -> NewItem:
    """Return a group that can be stored."""
    return NewItem("group", str(content["name"]), SILLY_TAVERN, json.dumps(content).encode(), "group.json")


_READERS = {
    "character": _character,
    "book": _book,
    "preset": _preset,
    "module": _module,
    "group": _group,
    "persona": _persona,
}
