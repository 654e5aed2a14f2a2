"""Lists of models: OpenAI's, and in pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel

from tavernkit._values import JsonObject
from tavernkit.server.api.dependencies import ChatClient, SafeJSONResponse, TheService
from tavernkit.server.api.openai import parse_model
from tavernkit.server.api.openai_types import TavernKitOptions
from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.library.models import Model, count_models, list_models
from tavernkit.server.limits import MAX_ID_CHARACTERS, MAX_PAGE
from tavernkit.server.storage.items import Kind, infos

router = APIRouter()

OWNED_BY = "tavernkit"
ALL_MODELS = "/api/models"


class ModelOut(BaseModel):
    """A character or group, alone or with a preset; ``id`` is the ``model`` of requests."""

    id: str
    name: str
    character: str | None
    group: str | None
    preset: str | None

    @classmethod
    def of(cls, model: Model) -> ModelOut:
        """Convert a model."""
        item = model.item
        of_group = item.kind == "group"
        return cls(
            id=model.id,
            name=item.name,
            character=None if of_group else item.id,
            group=item.id if of_group else None,
            preset=model.preset,
        )


class ModelPage(BaseModel):
    """A page of models; ``next`` is the ``after`` of the next page."""

    data: list[ModelOut]
    next: str | None = None


@router.get("/v1/models", tags=["openai"])
async def openai_models(service: TheService, client: ChatClient) -> Response:
    """Every character, alone and with every SillyTavern preset, and every group.

    OpenAI's list has no pages. If there are more than ``max_models``, characters and groups are listed alone, and
    ``tavernkit`` says how many models are left out; all of them are in ``/api/models``.
    """
    del client
    allowed = service.config.max_models
    async with service.database.read() as connection:
        total = await count_models(connection)
        found = await list_models(connection, limit=allowed, with_presets=total <= allowed)
    listed: JsonObject = {"object": "list", "data": [_model_object(model) for model in found]}
    if total > len(found):
        listed["tavernkit"] = {"total": total, "left_out": total - len(found), "more": ALL_MODELS}
    return SafeJSONResponse(listed)


@router.get("/v1/models/{model}", tags=["openai"])
async def openai_model(model: str, service: TheService, client: ChatClient) -> Response:
    """A character or a group, alone or with a preset."""
    del client
    chosen = parse_model(model, TavernKitOptions())
    key: tuple[Kind, str] = ("group", chosen.group) if chosen.group else ("character", chosen.character or "")
    async with service.database.read() as connection:
        try:
            await service.library.cast(connection, chosen)
        except ServiceError as error:
            raise not_found("model", model) from error
        info = (await infos(connection, [key]))[key]
    return SafeJSONResponse(_model_object(Model(info, chosen.preset)))


@router.get(ALL_MODELS, tags=["library"])
async def model_pages(
    service: TheService,
    client: ChatClient,
    after: Annotated[str, Query(max_length=MAX_ID_CHARACTERS + 1)] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
) -> ModelPage:
    """A page of all models: what a request may name as its ``model``."""
    del client
    async with service.database.read() as connection:
        found = await list_models(connection, after=after, limit=limit)
    following = found[-1].id if len(found) == limit else None
    return ModelPage(data=[ModelOut.of(model) for model in found], next=following)


def _model_object(model: Model) -> JsonObject:
    info = model.item
    return {"id": model.id, "object": "model", "created": int(info.created_at), "owned_by": OWNED_BY, "name": info.name}
