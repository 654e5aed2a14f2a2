"""The routes of the conversation."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse

from tavernkit.studio._api import PREFIX, StudioResponse, StudioRoute, TheStudio
from tavernkit.studio._api_types import ChangeIn, EmptyIn, ModelIn, TurnIn

if TYPE_CHECKING:
    from tavernkit.studio._talk import Event

router = APIRouter(
    prefix=f"{PREFIX}/talk", tags=["studio"], default_response_class=StudioResponse, route_class=StudioRoute
)


@router.get("")
async def talk(studio: TheStudio) -> Response:
    """The lines of the chat, and which model answers."""
    return StudioResponse(studio.talk.describe())


@router.post("/turn")
async def turn(studio: TheStudio, body: TurnIn) -> Response:
    """Run a turn; the reply is streamed as server-sent events."""
    studio.talk.check_free()
    events = _encoded(studio.talk.turn(body.kind, body.text))
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


@router.post("/change")
async def change(studio: TheStudio, body: ChangeIn) -> Response:
    """Change the chat without a model."""
    view, changed = await studio.talk.change(body.op, body.index, body.text)
    return StudioResponse({"talk": view, "edit": studio.changed(changed)})


@router.post("/stop")
async def stop(studio: TheStudio, body: EmptyIn) -> Response:
    """Stop the current reply; the text so far is kept."""
    del body
    return StudioResponse({"stopped": await studio.talk.stop()})


@router.post("/model")
async def choose_model(studio: TheStudio, body: ModelIn) -> Response:
    """Choose the model that answers."""
    studio.talk.choose(body.model, body.script)
    return StudioResponse(studio.talk.describe())


async def _encoded(events: AsyncGenerator[Event]) -> AsyncGenerator[bytes]:
    async with aclosing(events) as open_events:
        async for name, data in open_events:
            # ASCII, so that lone surrogates cannot break the stream.
            yield f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
