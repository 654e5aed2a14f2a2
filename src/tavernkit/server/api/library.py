"""Characters, books, presets, personas, groups and modules."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response, UploadFile

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._values import thaw
from tavernkit.cards import Bundle, load, to_bytes
from tavernkit.errors import TavernKitError
from tavernkit.server.api.dependencies import Reader, TheService, Writer
from tavernkit.server.api.openai_types import ItemId
from tavernkit.server.api.rest_types import GroupIn, ItemContent, ItemOut, ItemPage, PersonaIn
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.item_files import NewItem, group_item, persona_item, read_item
from tavernkit.server.library.library import StoredPersona, parse_item, read_persona
from tavernkit.server.limits import MAX_PAGE
from tavernkit.server.service import Service
from tavernkit.server.storage.columns import storable_json
from tavernkit.server.storage.items import Kind, delete_item, infos, item_file, item_info, list_items, save_item

router = APIRouter(prefix="/api", tags=["library"])

Plural = Literal["characters", "books", "presets", "personas", "groups", "modules"]
FilePlural = Literal["characters", "books", "presets", "modules"]
KIND: dict[str, Kind] = {
    "characters": "character",
    "books": "book",
    "presets": "preset",
    "personas": "persona",
    "groups": "group",
    "modules": "module",
}
ExportFormat = Literal["json", "png", "charx", "yaml", "webp", "jpeg", "byaf"]
MEDIA_TYPES = {
    "json": "application/json",
    "png": "image/png",
    "webp": "image/webp",
    "jpeg": "image/jpeg",
    "yaml": "application/yaml",
}

PathId = Annotated[str, Path(min_length=1, max_length=100, pattern=r"^[\w.-]+$")]


@router.get("/{plural}")
async def list_library(
    plural: Plural,
    service: TheService,
    client: Reader,
    after: Annotated[str, Query(max_length=100)] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
) -> ItemPage:
    """A page of the items of a kind."""
    del client
    async with service.database.read() as connection:
        found = await list_items(connection, KIND[plural], after=after, limit=limit)
    following = found[-1].id if len(found) == limit else None
    return ItemPage(data=[ItemOut.of(info) for info in found], next=following)


@router.post("/personas", status_code=201)
async def create_persona(body: PersonaIn, service: TheService, client: Writer) -> ItemOut:
    """Add a persona."""
    del client
    return await _save(service, _persona(body))


@router.put("/personas/{item_id}")
async def replace_persona(item_id: PathId, body: PersonaIn, service: TheService, client: Writer) -> ItemOut:
    """Change a persona, or add it with your own id."""
    del client
    return await _save(service, _persona(body), item_id)


@router.post("/groups", status_code=201)
async def create_group(body: GroupIn, service: TheService, client: Writer) -> ItemOut:
    """Add a group of characters."""
    del client
    await _check_members(service, body)
    return await _save(service, group_item(storable_json(body.model_dump())))


@router.put("/groups/{item_id}")
async def replace_group(item_id: PathId, body: GroupIn, service: TheService, client: Writer) -> ItemOut:
    """Change a group, or add it with your own id."""
    del client
    await _check_members(service, body)
    return await _save(service, group_item(storable_json(body.model_dump())), item_id)


@router.post("/{plural}", status_code=201)
async def import_file(plural: FilePlural, file: UploadFile, service: TheService, client: Writer) -> ItemOut:
    """Add a file: a card of any format, a world book, a preset, a module."""
    del client
    return await _save(service, await _read(KIND[plural], file))


@router.put("/{plural}/{item_id}")
async def replace_file(
    plural: FilePlural, item_id: PathId, file: UploadFile, service: TheService, client: Writer
) -> ItemOut:
    """Store a new version of a file, or add it with your own id."""
    del client
    return await _save(service, await _read(KIND[plural], file), item_id)


@router.get("/{plural}/{item_id}")
async def get_item(plural: Plural, item_id: PathId, service: TheService, client: Reader) -> ItemContent:
    """An item with its content, in the platform's own JSON."""
    del client
    kind = KIND[plural]
    async with service.database.read() as connection:
        info = await item_info(connection, kind, item_id)
        data = await item_file(connection, kind, item_id)
    value = await asyncio.to_thread(parse_item, kind, info.platform, info.name, data)
    return ItemContent(**ItemOut.of(info).model_dump(), content=storable_json(_content(value)))


@router.delete("/{plural}/{item_id}", status_code=204)
async def remove_item(plural: Plural, item_id: PathId, service: TheService, client: Writer) -> Response:
    """Remove an item."""
    del client
    async with service.database.write() as connection:
        await delete_item(connection, KIND[plural], item_id)
    return Response(status_code=204)


@router.get("/{plural}/{item_id}/file", response_class=Response)
async def get_file(plural: Plural, item_id: PathId, service: TheService, client: Reader) -> Response:
    """The file of an item, as it is stored."""
    del client
    async with service.database.read() as connection:
        data = await item_file(connection, KIND[plural], item_id)
    return _download(data, "application/octet-stream", f"{item_id}.bin")


@router.get("/characters/{item_id}/export", response_class=Response)
async def export_character(
    item_id: PathId,
    service: TheService,
    client: Reader,
    format: ExportFormat = "png",  # noqa: A002  # the name of the query
) -> Response:
    """A character as a card file of any format."""
    del client
    async with service.database.read() as connection:
        data = await item_file(connection, "character", item_id)
    try:
        written = await asyncio.to_thread(lambda: to_bytes(load(data), format))
    except TavernKitError as error:
        raise ServiceError(
            422, f"the character cannot be written as {format}: {error}", code="export_failed"
        ) from error
    return _download(written, MEDIA_TYPES.get(format, "application/octet-stream"), f"{item_id}.{format}")


async def _read(kind: Kind, file: UploadFile) -> NewItem:
    data = await file.read()
    return await asyncio.to_thread(read_item, kind, file.filename or kind, data)


async def _save(service: Service, item: NewItem, item_id: ItemId | None = None) -> ItemOut:
    async with service.database.write() as connection:
        info = await save_item(
            connection,
            item.kind,
            name=item.name,
            platform=item.platform,
            file=item.file,
            filename=item.filename,
            item_id=item_id,
        )
    return ItemOut.of(info, list(item.warnings))


async def _check_members(service: Service, body: GroupIn) -> None:
    async with service.database.read() as connection:
        found = await infos(connection, [("character", member) for member in body.members])
    missing = [member for member in body.members if ("character", member) not in found]
    if missing:
        raise ServiceError(422, f"there is no character {missing[0]!r}", code="character_not_found", param="members")


def _persona(body: PersonaIn) -> NewItem:
    return persona_item(read_persona(body.model_dump()))


def _content(value: object) -> Any:
    if isinstance(value, Bundle):
        return value.character.to_card()
    if isinstance(value, (st.WorldBook, st.Preset, st.Group, risu_ai.Preset)):
        return value.to_json()
    if isinstance(value, StoredPersona):
        return PersonaIn.model_validate({**_fields(value), "books": list(value.books)}).model_dump()
    return thaw(value.raw) if isinstance(value, risu_ai.RisuModule) else None


def _fields(persona: StoredPersona) -> dict[str, object]:
    return {name: getattr(persona, name) for name in PersonaIn.model_fields}


def _download(data: bytes, media_type: str, filename: str) -> Response:
    name = filename.encode("ascii", "replace").decode().replace("?", "_")
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type=media_type, headers=headers)
