"""SillyTavern's settings of chats."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Response
from pydantic import BaseModel, JsonValue

from tavernkit._values import JsonObject
from tavernkit.server.api.dependencies import Reader, TheService, Writer
from tavernkit.server.chat_settings import checked_settings, save_settings, stored_settings
from tavernkit.server.library import CHAT_SETTINGS
from tavernkit.server.storage.columns import storable_json
from tavernkit.server.storage.items import delete_item

router = APIRouter(prefix="/api/settings", tags=["library"])


class ChatSettings(BaseModel):
    """Settings, and what is wrong with values that cannot be used."""

    settings: dict[str, JsonValue]
    warnings: list[str] = []


@router.get("")
async def get_settings(service: TheService, client: Reader) -> ChatSettings:
    """The settings of all chats of SillyTavern; what is not there is as in a fresh installation."""
    del client
    async with service.database.read() as connection:
        return ChatSettings(settings=await stored_settings(connection) or {})


@router.put("")
async def replace_settings(
    body: Annotated[dict[str, JsonValue], Body()], service: TheService, client: Writer
) -> ChatSettings:
    """Use these settings instead: names and values as in ``power_user`` of SillyTavern's ``settings.json``."""
    del client
    warnings: list[str] = []
    given: JsonObject = storable_json(body)
    settings = checked_settings(given, warnings.append)
    async with service.database.write() as connection:
        await save_settings(connection, settings)
    return ChatSettings(settings=settings, warnings=warnings)


@router.delete("", status_code=204)
async def remove_settings(service: TheService, client: Writer) -> Response:
    """Use those of a fresh installation."""
    del client
    async with service.database.write() as connection:
        await delete_item(connection, *CHAT_SETTINGS)
    return Response(status_code=204)
