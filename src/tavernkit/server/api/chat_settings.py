"""What all chats share: the platforms' settings, SillyTavern's global regex scripts, global variables."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Body, Response
from pydantic import BaseModel, Field, JsonValue

from tavernkit._values import JsonObject, is_sequence
from tavernkit.server.api.dependencies import ChatClient, Reader, TheService, Writer
from tavernkit.server.api.openai_types import Platform
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.chat_settings import checked_settings, save_scripts, save_settings, stored_settings
from tavernkit.server.library.library import CHAT_SETTINGS, GLOBAL_SCRIPTS, SILLY_TAVERN, parse_item
from tavernkit.server.limits import MAX_SCRIPTS, MAX_SETTINGS_CHARACTERS
from tavernkit.server.storage import turns
from tavernkit.server.storage.items import delete_item, infos, item_file
from tavernkit.server.storage.tables import storable_json

router = APIRouter(prefix="/api/settings", tags=["library"])
scripts = APIRouter(prefix="/api/regex", tags=["library"])
variables = APIRouter(prefix="/api/variables", tags=["sessions"])

Scripts = Annotated[list[dict[str, JsonValue]], Field(max_length=MAX_SCRIPTS), Body()]


class ChatSettings(BaseModel):
    """Settings, and warnings about invalid values."""

    settings: dict[str, JsonValue]
    warnings: list[str] = []


@router.get("")
async def get_settings(service: TheService, client: Reader, platform: Platform = SILLY_TAVERN) -> ChatSettings:
    """The settings of all chats of a platform; what is not there is as in a fresh installation."""
    del client
    async with service.database.read() as connection:
        return ChatSettings(settings=await stored_settings(connection, platform) or {})


@router.put("")
async def replace_settings(
    body: Annotated[dict[str, JsonValue], Body()],
    service: TheService,
    client: Writer,
    platform: Platform = SILLY_TAVERN,
) -> ChatSettings:
    """Use these settings instead, named as in ``power_user`` of SillyTavern's settings or as in RisuAI's database."""
    del client
    warnings: list[str] = []
    given: JsonObject = storable_json(body)
    settings = checked_settings(given, platform, warnings.append)
    async with service.database.write() as connection:
        await save_settings(connection, settings, platform)
    return ChatSettings(settings=settings, warnings=warnings)


@router.delete("", status_code=204)
async def remove_settings(service: TheService, client: Writer, platform: Platform = SILLY_TAVERN) -> Response:
    """Reset to the settings of a fresh installation."""
    del client
    async with service.database.write() as connection:
        await delete_item(connection, *CHAT_SETTINGS[platform])
    return Response(status_code=204)


@scripts.get("")
async def get_scripts(service: TheService, client: Reader) -> list[dict[str, JsonValue]]:
    """The scripts that run in every SillyTavern chat, in order."""
    del client
    async with service.database.read() as connection:
        if GLOBAL_SCRIPTS not in await infos(connection, [GLOBAL_SCRIPTS]):
            return []
        data = await item_file(connection, *GLOBAL_SCRIPTS)
    found = parse_item("regex", "silly_tavern", "global", data)
    return storable_json(found) if is_sequence(found) else []


@scripts.put("")
async def replace_scripts(body: Scripts, service: TheService, client: Writer) -> list[dict[str, JsonValue]]:
    """Replace the scripts, in SillyTavern's own format. Scripts of cards and presets do not change."""
    del client
    scripts: list[JsonObject] = storable_json(body)
    async with service.database.write() as connection:
        saved = await save_scripts(connection, scripts)
    return storable_json(saved)


@scripts.delete("", status_code=204)
async def remove_scripts(service: TheService, client: Writer) -> Response:
    """Remove all global scripts."""
    del client
    async with service.database.write() as connection:
        await delete_item(connection, *GLOBAL_SCRIPTS)
    return Response(status_code=204)


@variables.get("")
async def get_variables(
    service: TheService, client: ChatClient, platform: Platform = SILLY_TAVERN
) -> dict[str, JsonValue]:
    """The global variables of the client's chats; RisuAI's toggles are among them."""
    async with service.database.read() as connection:
        return await turns.read_globals(connection, client.owner, platform)


@variables.put("")
async def replace_variables(
    body: Annotated[dict[str, JsonValue], Body()],
    service: TheService,
    client: ChatClient,
    platform: Platform = SILLY_TAVERN,
) -> dict[str, JsonValue]:
    """Use these global variables instead."""
    given: JsonObject = storable_json(body)
    if len(json.dumps(given)) > MAX_SETTINGS_CHARACTERS:
        raise ServiceError(422, f"they are longer than {MAX_SETTINGS_CHARACTERS} characters", code="variables_too_long")
    async with service.database.write() as connection:
        before = await turns.read_globals(connection, client.owner, platform)
        await turns.write_globals(connection, client.owner, platform, before, given)
    return given
