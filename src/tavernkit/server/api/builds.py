"""Prompts without a model."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from tavernkit.errors import TavernKitError
from tavernkit.models._bodies import request_body
from tavernkit.server.api.dependencies import ChatClient, TheService
from tavernkit.server.api.openai import new_message, parse_model
from tavernkit.server.api.openai_types import ChatMessageIn, Id, TavernKitOptions
from tavernkit.server.api.session_types import ModelOptions
from tavernkit.server.errors import ServiceError
from tavernkit.server.limits import MAX_MESSAGES
from tavernkit.server.sessions.changes import owned_by
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import Selection
from tavernkit.server.storage.tables import storable_json
from tavernkit.server.turns.request import TurnRequest

router = APIRouter(prefix="/api", tags=["build"])


class BuildIn(BaseModel):
    """A prompt to build: for a session, or for given messages."""

    model_config = ConfigDict(extra="forbid")

    model: Id | None = None
    session_id: Id | None = None
    messages: list[ChatMessageIn] = Field(default_factory=list, max_length=MAX_MESSAGES)
    kind: Literal["normal", "regenerate", "swipe", "continue", "impersonate"] = "normal"
    options: ModelOptions = Field(default_factory=dict)
    tavernkit: TavernKitOptions = Field(default_factory=TavernKitOptions)


class BuildOut(BaseModel):
    """A prompt: what would be sent, its pieces, and why each is there."""

    request: dict[str, Any]
    payload: Any
    plan: dict[str, Any]
    explanation: dict[str, Any]
    fingerprint: str
    speaker: str
    warnings: list[str] = []


@router.post("/build")
async def build(body: BuildIn, service: TheService, client: ChatClient) -> BuildOut:
    """Build a prompt without a model: what would be sent, its pieces, and why each is there."""
    owner = client.owner
    if (body.session_id is None) == (body.model is None):
        raise ServiceError(422, "pass either a model or a session_id", code="invalid_request", param="model")
    if body.session_id is not None:
        async with service.database.read() as connection:
            owner = (await chats.get_chat(connection, body.session_id, owner=owned_by(client))).owner
        chosen = body.tavernkit
        selection = Selection(persona=chosen.persona, preset=chosen.preset, books=tuple(chosen.books))
    else:
        selection = parse_model(body.model or "", body.tavernkit)
    wanted = TurnRequest(
        owner=owner,
        payer=client,
        selection=selection,
        chat_id=body.session_id,
        platform=body.tavernkit.platform,
        messages=[new_message(message) for message in body.messages],
        kind=body.kind,
        speaker=body.tavernkit.speaker,
        options=storable_json(body.options),
        upstream=body.tavernkit.upstream,
        dialect=body.tavernkit.dialect,
        seed=body.tavernkit.seed,
        context_length=body.tavernkit.context_length,
        kept=body.tavernkit.kept,
    )
    built = await service.turns.build(wanted)
    dialect = body.tavernkit.dialect or built.request.dialect
    try:
        warnings = list(built.warnings)
        request = request_body(built.request, warn=warnings.append, fields=built.fields)
        payload = built.plan.to_messages(dialect)
        fingerprint = built.plan.fingerprint(dialect)
    except TavernKitError as error:
        raise ServiceError(422, str(error), code="unknown_dialect", param="tavernkit.dialect") from error
    return BuildOut(
        request=storable_json(request),
        payload=storable_json(payload),
        plan=storable_json(built.plan.to_dict()),
        explanation=storable_json(built.plan.explain().to_dict()),
        fingerprint=fingerprint,
        speaker=built.speaker,
        warnings=warnings,
    )
