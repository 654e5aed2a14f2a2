"""SillyTavern's global regex scripts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Response
from pydantic import Field, JsonValue

from tavernkit._values import JsonObject, is_sequence
from tavernkit.server.api.dependencies import Reader, TheService, Writer
from tavernkit.server.library.library import GLOBAL_SCRIPTS, parse_item
from tavernkit.server.library.regex_files import save_scripts
from tavernkit.server.limits import MAX_SCRIPTS
from tavernkit.server.storage.columns import storable_json
from tavernkit.server.storage.items import delete_item, infos, item_file

router = APIRouter(prefix="/api/regex", tags=["library"])

Scripts = Annotated[list[dict[str, JsonValue]], Field(max_length=MAX_SCRIPTS), Body()]


@router.get("")
async def get_scripts(service: TheService, client: Reader) -> list[dict[str, JsonValue]]:
    """The scripts that run in every SillyTavern chat, in order."""
    del client
    async with service.database.read() as connection:
        if GLOBAL_SCRIPTS not in await infos(connection, [GLOBAL_SCRIPTS]):
            return []
        data = await item_file(connection, *GLOBAL_SCRIPTS)
    found = parse_item("regex", "silly_tavern", "global", data)
    return storable_json(found) if is_sequence(found) else []


@router.put("")
async def replace_scripts(body: Scripts, service: TheService, client: Writer) -> list[dict[str, JsonValue]]:
    """Replace the scripts, in SillyTavern's own format. Scripts of cards and presets do not change."""
    del client
    scripts: list[JsonObject] = storable_json(body)
    async with service.database.write() as connection:
        saved = await save_scripts(connection, scripts)
    return storable_json(saved)


@router.delete("", status_code=204)
async def remove_scripts(service: TheService, client: Writer) -> Response:
    """Remove all global scripts."""
    del client
    async with service.database.write() as connection:
        await delete_item(connection, *GLOBAL_SCRIPTS)
    return Response(status_code=204)
