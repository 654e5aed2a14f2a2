"""Characters, books, presets, personas, groups and modules, one by one or imported together."""

from __future__ import annotations

import asyncio
import pathlib
import shutil
import tempfile
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response, UploadFile
from pydantic import BaseModel, ConfigDict, Field

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._values import thaw
from tavernkit.cards import Bundle, load, to_bytes
from tavernkit.errors import TavernKitError
from tavernkit.server.api.dependencies import Reader, TheService, Writer
from tavernkit.server.api.openai_types import ID_PATTERN, ItemId, Name, Text
from tavernkit.server.errors import ServiceError
from tavernkit.server.imports import jobs
from tavernkit.server.imports.sources import copy_upload
from tavernkit.server.library.item_files import NewItem, group_item, persona_item, read_item, store_item
from tavernkit.server.library.library import StoredPersona, parse_item, read_persona
from tavernkit.server.limits import MAX_BOOKS, MAX_PAGE
from tavernkit.server.service import Service
from tavernkit.server.sessions.changes import owned_by
from tavernkit.server.storage.items import (
    ItemInfo,
    Kind,
    delete_item,
    infos,
    item_file,
    item_info,
    list_items,
)
from tavernkit.server.storage.tables import storable, storable_json

router = APIRouter(prefix="/api", tags=["library"])
imports = APIRouter(prefix="/api/imports", tags=["imports"])

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

PathId = Annotated[str, Path(min_length=1, max_length=100, pattern=ID_PATTERN)]


class ItemOut(BaseModel):
    """An item of the library."""

    kind: str
    id: str
    name: str
    platform: str
    version: int
    filename: str
    created_at: float
    updated_at: float
    warnings: list[str] = []

    @classmethod
    def of(cls, info: ItemInfo, warnings: list[str] | None = None) -> ItemOut:
        """Convert an item."""
        fields = {name: getattr(info, name) for name in cls.model_fields if name != "warnings"}
        return cls(**fields, warnings=warnings or [])


class ItemPage(BaseModel):
    """A page of items; ``next`` is the ``after`` of the next page."""

    data: list[ItemOut]
    next: str | None = None


class ItemContent(ItemOut):
    """An item with its content, in the platform's own JSON."""

    content: Any


class PersonaIn(BaseModel):
    """Who the user is."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    description: Text = Field(default="", max_length=100_000)
    position: int | Literal["in_prompt", "top_an", "bottom_an", "at_depth", "none"] = Field(default="in_prompt")
    depth: int = Field(default=2, ge=0, le=10_000)
    role: int = Field(default=0, ge=0, le=2)
    books: list[ItemId] = Field(default_factory=list, max_length=MAX_BOOKS)


class GroupIn(BaseModel):
    """A group: SillyTavern's own keys; members are ids of characters."""

    model_config = ConfigDict(extra="allow")

    name: Name
    members: list[ItemId] = Field(min_length=1, max_length=100)
    disabled_members: list[ItemId] = Field(default_factory=list, max_length=100)
    activation_strategy: int = Field(default=0, ge=0, le=3)
    generation_mode: int = Field(default=0, ge=0, le=2)
    allow_self_responses: bool = False


class JobOut(BaseModel):
    """An import."""

    id: str
    kind: str
    status: str
    total: int
    done: int
    result: dict[str, Any]
    created_at: float
    updated_at: float


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


@imports.post("", status_code=202)
async def begin_import(file: UploadFile, service: TheService, client: Writer) -> JobOut:
    """Import a ZIP file of a SillyTavern data folder or of RisuAI's exports, or a single file, as one job."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tavernkit-import-"))
    try:
        await asyncio.to_thread(copy_upload, file.file, folder / "upload")
        job = await service.imports.start(client.owner, folder, storable(file.filename or "upload"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return JobOut.model_validate(asdict(job))


@imports.get("/{job_id}")
async def get_import(job_id: PathId, service: TheService, client: Writer) -> JobOut:
    """The progress of an import, and what it left out."""
    async with service.database.read() as connection:
        return JobOut.model_validate(asdict(await jobs.get_job(connection, job_id, owner=owned_by(client))))


async def _read(kind: Kind, file: UploadFile) -> NewItem:
    data = await file.read()
    return await asyncio.to_thread(read_item, kind, file.filename or kind, data)


async def _save(service: Service, item: NewItem, item_id: ItemId | None = None) -> ItemOut:
    async with service.database.write() as connection:
        info = await store_item(connection, item, item_id)
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
