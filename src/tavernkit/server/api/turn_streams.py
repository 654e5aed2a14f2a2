"""Turns of the REST API, answered as a whole or as a stream of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from fastapi import Request
from fastapi.responses import Response

from tavernkit._values import JsonObject
from tavernkit.models import ReplyPiece
from tavernkit.server.api.openai import explanation
from tavernkit.server.api.replies import EventStream, ReplyListener, await_first_piece, call_delta, until_done
from tavernkit.server.api.session_types import TurnOut
from tavernkit.server.errors import ServiceError, error_body
from tavernkit.server.service import Service
from tavernkit.server.turns.request import TurnOutcome, TurnRequest
from tavernkit.server.upstreams.listeners import SpeakerChange

SHOWN = (
    "status",
    "text",
    "reasoning",
    "tool_calls",
    "finish_reason",
    "usage",
    "speaker",
    "message_id",
    "replies",
    "broken",
    "warnings",
    "alerts",
)


async def answer(
    request: Request, service: Service, wanted: TurnRequest, *, stream: bool, explain: bool
) -> TurnOut | Response:
    """Run a turn and return its result; in a stream, failures before the first piece still set the HTTP status."""
    listener = ReplyListener(streaming=stream)
    turn = service.turns.start(wanted, listener)
    if not stream:
        return _turn_out(await until_done(request, turn, listener), explain=explain)
    pieces = await await_first_piece(request, turn, listener)
    return EventStream(_events(turn, pieces, explain=explain), listener)


async def _events(
    turn: asyncio.Task[TurnOutcome], pieces: AsyncGenerator[ReplyPiece | SpeakerChange], *, explain: bool
) -> AsyncGenerator[bytes]:
    """Yield ``delta`` as the model speaks, ``speaker`` before each of several speakers, then ``turn`` or ``error``."""
    async for piece in pieces:
        if isinstance(piece, SpeakerChange):
            yield _event("speaker", {"speaker": piece.speaker})
        elif delta := _delta(piece):
            yield _event("delta", delta)
    try:
        outcome = await asyncio.shield(turn)
    except ServiceError as error:
        yield _event("error", error.body())
        return
    except Exception:  # noqa: BLE001  # the answer has begun: errors are part of it
        yield _event("error", error_body(500, "the server failed; the log says why", code="internal_error"))
        return
    yield _event("turn", _turn_out(outcome, explain=explain).model_dump())


def _delta(piece: ReplyPiece) -> JsonObject:
    delta: JsonObject = {}
    if piece.text:
        delta["text"] = piece.text
    if piece.reasoning:
        delta["reasoning"] = piece.reasoning
    if piece.tool_calls:
        delta["tool_calls"] = [call_delta(each) for each in piece.tool_calls]
    return delta


def _turn_out(outcome: TurnOutcome, *, explain: bool) -> TurnOut:
    response = outcome.response
    plan = outcome.result.plan if outcome.result is not None else None
    return TurnOut.model_validate(
        {
            "id": outcome.turn_id,
            "replayed": outcome.replayed,
            "explanation": explanation(plan) if explain and plan is not None else None,
            **{key: response.get(key) for key in SHOWN if key in response},
        }
    )


def _event(name: str, value: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=True, separators=(',', ':'))}\n\n".encode()
