"""Answers of turns, whole and streamed: in OpenAI's shape, and in that of the REST API."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tavernkit import Plan
from tavernkit._values import Json, JsonObject, is_object, thaw_object
from tavernkit.models import ReplyPiece, ToolCallPiece
from tavernkit.models._readers import OpenAIReader
from tavernkit.models._reply import CUSTOM
from tavernkit.server.api.session_types import TurnOut
from tavernkit.server.errors import ServiceError, server_failure
from tavernkit.server.limits import MAX_STREAM_BACKLOG
from tavernkit.server.service import Service
from tavernkit.server.turns.request import TurnOutcome, TurnRequest
from tavernkit.server.upstreams.listeners import SpeakerChange

logger = logging.getLogger("tavernkit.server")

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
"""Parts of a turn's response in the REST API."""


class ReplyListener:
    """Waits for a reply on behalf of a client."""

    def __init__(self, *, streaming: bool) -> None:
        self.streaming = streaming
        self.gone = asyncio.Event()
        self.turn_id = ""
        self._pieces: asyncio.Queue[ReplyPiece | SpeakerChange] = asyncio.Queue(MAX_STREAM_BACKLOG)
        self._news = asyncio.Event()

    async def piece(self, piece: ReplyPiece | SpeakerChange) -> None:
        """Receive a piece."""
        if not self.gone.is_set():
            await self._pieces.put(piece)
            self._news.set()

    async def pieces(self, turn: asyncio.Task[TurnOutcome]) -> AsyncGenerator[ReplyPiece | SpeakerChange]:
        """Yield all pieces until the turn has ended."""
        turn.add_done_callback(lambda _: self._news.set())
        while True:
            while not self._pieces.empty():
                yield self._pieces.get_nowait()
            if turn.done():
                return
            self._news.clear()
            await self._news.wait()  # a task for each piece would cost more than the piece


async def until_done(request: Request, turn: asyncio.Task[TurnOutcome], listener: ReplyListener) -> TurnOutcome:
    """Wait for a turn; if the client disconnects, the model is stopped."""
    watcher = asyncio.create_task(watch(request.receive, listener))
    try:
        return await asyncio.shield(turn)
    except asyncio.CancelledError:
        listener.gone.set()
        raise
    finally:
        watcher.cancel()


async def await_first_piece(
    request: Request, turn: asyncio.Task[TurnOutcome], listener: ReplyListener
) -> AsyncGenerator[ReplyPiece | SpeakerChange]:
    """Wait for the first piece, then yield all: earlier failures can still set the HTTP status."""
    pieces = listener.pieces(turn)
    watcher = asyncio.create_task(watch(request.receive, listener))
    try:
        first = await anext(pieces, None)
        if first is None:
            await asyncio.shield(turn)
    except asyncio.CancelledError:
        listener.gone.set()
        raise
    finally:
        watcher.cancel()
    return _with_first(first, pieces)


async def _with_first(
    first: ReplyPiece | SpeakerChange | None, pieces: AsyncGenerator[ReplyPiece | SpeakerChange]
) -> AsyncGenerator[ReplyPiece | SpeakerChange]:
    if first is not None:
        yield first
        async for piece in pieces:
            yield piece


async def watch(receive: Receive, *listeners: ReplyListener) -> None:
    """Watch for a disconnect of the client."""
    while (await receive())["type"] != "http.disconnect":
        pass
    for listener in listeners:
        listener.gone.set()


class EventStream(Response):
    """Server-sent events; a disconnect is noticed even while nothing is sent."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], *listeners: ReplyListener) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})  # else nginx sends the pieces all at once
        self._events = events
        self._listeners = listeners
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything."""
        watcher = asyncio.create_task(watch(receive, *self._listeners))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            watcher.cancel()
            for listener in self._listeners:  # of several choices, others may still run when one fails
                listener.gone.set()


def completion(outcomes: Sequence[TurnOutcome], model: str, extension: JsonObject) -> JsonObject:
    """Return a whole answer; each outcome is a choice."""
    first = outcomes[0]
    body: JsonObject = {
        "id": f"chatcmpl-{first.turn_id}",
        "object": "chat.completion",
        "created": first.response.get("created"),
        "model": model,
        "choices": [_choice(index, outcome.response) for index, outcome in enumerate(outcomes)],
        "usage": summed_usage([outcome.response.get("usage") for outcome in outcomes]),
    }
    return {**body, "tavernkit": extension} if extension else body


def summed_usage(usages: Sequence[Json]) -> Json:
    """Return the usage of all choices together."""
    if len(usages) == 1:
        return usages[0]
    counts = [usage for usage in usages if is_object(usage)]
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {name: sum(value for each in counts if isinstance(value := each.get(name), int)) for name in names}


def _choice(index: int, response: JsonObject) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": response["text"], "refusal": response.get("refusal") or None}
    if response.get("tool_calls"):
        message["tool_calls"] = response["tool_calls"]
        message["content"] = response["text"] or None
    if response.get("reasoning"):
        message["reasoning_content"] = response["reasoning"]
    return {
        "index": index,
        "message": message,
        "finish_reason": response.get("finish_reason"),
        "logprobs": response.get("logprobs"),
    }


class ChunkWriter:
    """Writes the events of one stream."""

    def __init__(self, completion_id: str, model: str, created: int, *, with_usage: bool = False) -> None:
        """Start a stream.

        Args:
            completion_id: The id of the answer.
            model: The model that the client asked.
            created: When, in seconds.
            with_usage: True if token counts follow at the end; as with OpenAI, they are null until then.
        """
        self.index = 0
        """The index of the choice."""
        self._head: JsonObject = {
            "id": completion_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
            **({"usage": None} if with_usage else {}),
        }

    def delta(
        self,
        delta: JsonObject,
        *,
        finish_reason: str | None = None,
        extension: JsonObject | None = None,
        logprobs: Json = None,
    ) -> bytes:
        """Return a piece of the message."""
        choice: JsonObject = {
            "index": self.index,
            "delta": delta,
            "finish_reason": finish_reason,
            "logprobs": logprobs,
        }
        event: JsonObject = {**self._head, "choices": [choice]}
        return _event({**event, "tavernkit": extension} if extension else event)

    def usage(self, usage: Json) -> bytes:
        """Return the token counts, after everything else."""
        return _event({**self._head, "choices": [], "usage": usage})

    def error(self, error: Exception) -> bytes:
        """Return the error that ends the stream."""
        return _event(stream_error(error).body())


def stream_error(error: Exception) -> ServiceError:
    """Return the error that ends a stream: its answer has begun, so nobody else logs what is our mistake."""
    if isinstance(error, ServiceError):
        return error
    logger.error("a reply failed", exc_info=error)
    return server_failure()


def interruption(outcome: TurnOutcome) -> ServiceError | None:
    """Return the error that ends the stream of a broken reply; None for whole and stored ones."""
    broken = outcome.response.get("broken")
    if not broken or outcome.replayed:
        return None
    return ServiceError(502, f"the reply was interrupted: {broken}", code="upstream_error")


DONE = b"data: [DONE]\n\n"


def piece_delta(piece: ReplyPiece | SpeakerChange) -> JsonObject | None:
    """Return a model's piece as a delta; None if it is empty."""
    if isinstance(piece, SpeakerChange):
        return {"content": piece.lead}
    delta: JsonObject = {}
    if piece.text:
        delta["content"] = piece.text
    if piece.reasoning:
        delta["reasoning_content"] = piece.reasoning
    if piece.refusal:
        delta["refusal"] = piece.refusal
    if piece.tool_calls:
        delta["tool_calls"] = [call_delta(each) for each in piece.tool_calls]
    return delta or None


def piece_logprobs(piece: ReplyPiece | SpeakerChange) -> Json:
    """Return the probabilities of a piece's tokens, if the model reports them."""
    return None if isinstance(piece, SpeakerChange) or piece.logprobs is None else thaw_object(piece.logprobs)


def call_delta(piece: ToolCallPiece) -> JsonObject:
    """Return a piece of a call; as in OpenAI's API, the first piece has the type."""
    extra = thaw_object(piece.extra or {})
    custom = extra.pop("type", None) == CUSTOM
    called: JsonObject = {"input" if custom else "arguments": piece.arguments}
    if piece.name is not None:
        called["name"] = piece.name
    kind = CUSTOM if custom else "function"
    head: JsonObject = {} if piece.id is None else {"id": piece.id, "type": kind}
    return {"index": piece.index, **extra, kind: called, **head}


def stored_piece(response: JsonObject) -> ReplyPiece:
    """Return a stored answer as one piece: a repeated request has no other pieces to stream."""
    message = {key: response.get(key) for key in ("refusal", "tool_calls")}
    message |= {"content": response.get("text"), "reasoning_content": response.get("reasoning")}
    return OpenAIReader().read({"choices": [{"message": message}]})


def explanation(plan: Plan) -> JsonObject:
    """Return what is in a prompt and why."""
    return {**plan.explain().to_dict(), "messages": [*plan.to_messages()]}


def _event(value: JsonObject) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=True, separators=(',', ':'))}\n\n".encode()


async def answer(
    request: Request, service: Service, wanted: TurnRequest, *, stream: bool, explain: bool
) -> TurnOut | Response:
    """Run a turn and return its result; in a stream, failures before the first piece still set the HTTP status."""
    listener = ReplyListener(streaming=stream)
    turn = service.turns.start(wanted, listener)
    if not stream:
        return _turn_out(await until_done(request, turn, listener), explain=explain)
    pieces = await await_first_piece(request, turn, listener)
    return EventStream(_turn_events(turn, pieces, explain=explain), listener)


async def _turn_events(
    turn: asyncio.Task[TurnOutcome], pieces: AsyncGenerator[ReplyPiece | SpeakerChange], *, explain: bool
) -> AsyncGenerator[bytes]:
    """Yield ``delta`` as the model speaks, ``speaker`` before each of several speakers, then ``turn`` or ``error``."""
    async for piece in pieces:
        if isinstance(piece, SpeakerChange):
            yield _named_event("speaker", {"speaker": piece.speaker})
        elif delta := _delta(piece):
            yield _named_event("delta", delta)
    try:
        outcome = await asyncio.shield(turn)
    except Exception as error:  # noqa: BLE001  # the answer has begun: errors are part of it
        yield _named_event("error", stream_error(error).body())
        return
    yield _named_event("turn", _turn_out(outcome, explain=explain).model_dump())


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


def _named_event(name: str, value: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=True, separators=(',', ':'))}\n\n".encode()
