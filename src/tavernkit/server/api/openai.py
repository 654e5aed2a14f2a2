"""OpenAI's surface: characters are models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError

from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.models import ReplyPiece
from tavernkit.server import logs
from tavernkit.server.adapters.turn import PARTS
from tavernkit.server.api.dependencies import Caller, SafeJSONResponse, TheCaller
from tavernkit.server.api.openai_types import (
    PASSED_ON,
    ChatCompletionRequest,
    ChatMessageIn,
    TavernKitOptions,
    is_given,
)
from tavernkit.server.api.replies import (
    DONE,
    ChunkWriter,
    EventStream,
    ReplyListener,
    await_first_piece,
    completion,
    explanation,
    interruption,
    piece_delta,
    piece_logprobs,
    stored_piece,
    summed_usage,
    until_done,
)
from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.library.library import SILLY_TAVERN
from tavernkit.server.library.models import selection_of
from tavernkit.server.storage.chats import Selection
from tavernkit.server.storage.tables import storable, storable_json
from tavernkit.server.turns.request import NewMessage, TurnOutcome, TurnRequest
from tavernkit.server.upstreams.listeners import SpeakerChange

router = APIRouter(prefix="/v1", tags=["openai"])

NAMED_BY_MODEL = ("character_not_found", "group_not_found", "preset_not_found")
"""The error message for unknown models."""

PASSED_PARTS = ("input_audio", "file")
"""Parts of the new message that are sent with its text, if the model's protocol supports them."""


@router.post("/chat/completions")
async def chat_completions(body: ChatCompletionRequest, caller: TheCaller) -> Response:
    """Talk to a character. With a session, the server keeps the chat; otherwise the client does."""
    session = caller.session_or(body.user)
    asked = [ask(caller, body, session=session) for _ in range(body.n or 1)]
    with all_or_none(asked):
        if not body.stream:
            outcomes = [await each.whole() for each in asked]
            return SafeJSONResponse(completion(outcomes, body.model, asked[0].extension(outcomes[0])))
        pieces = [await each.pieces() for each in asked]
    return EventStream(_events(body, asked, pieces), *(each.listener for each in asked))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A turn started by a client of ``/v1``."""

    request: Request
    body: ChatCompletionRequest
    warnings: Sequence[str]
    listener: ReplyListener
    turn: asyncio.Task[TurnOutcome]

    @property
    def turn_id(self) -> str:
        """Return the id of the turn, which is known when there is an answer."""
        return self.listener.turn_id

    async def whole(self) -> TurnOutcome:
        """Wait for the answer."""
        with self._naming_the_model():
            return await until_done(self.request, self.turn, self.listener)

    async def pieces(self) -> AsyncGenerator[ReplyPiece | SpeakerChange]:
        """Wait for the first piece, then yield all."""
        with self._naming_the_model():
            return await await_first_piece(self.request, self.turn, self.listener)

    def extension(self, outcome: TurnOutcome) -> JsonObject:
        """Return the ``tavernkit`` object of the answer."""
        return _extension(outcome, self.body.tavernkit, self.warnings)

    @contextmanager
    def _naming_the_model(self) -> Generator[None]:
        try:
            yield
        except ServiceError as error:
            preset_of_its_own = error.code == "preset_not_found" and self.body.tavernkit.preset
            if error.code in NAMED_BY_MODEL and not preset_of_its_own:
                raise not_found("model", self.body.model) from error
            raise


def translated_request(fields: Mapping[str, object]) -> ChatCompletionRequest:
    """Return a request of another protocol as one of chat completions.

    Raises:
        RequestValidationError: Something in it is wrong, which the answer names.
    """
    try:
        return ChatCompletionRequest.model_validate(fields)
    except ValidationError as error:
        # Not the cause: it quotes the request, and errors may be logged.
        raise RequestValidationError(error.errors()) from None


def ask(
    caller: Caller, body: ChatCompletionRequest, *, session: str | None = None, chat_id: str | None = None
) -> Asked:
    """Start a turn.

    Args:
        caller: The client.
        body: The request; those of other protocols are translated.
        session: The client's id of a session, if it is not in the body.
        chat_id: Our id of a session.
    """
    service, client, idempotency_key = caller.service, caller.client, caller.idempotency_key
    options = body.tavernkit
    session = storable(session or options.session or "") or None
    if (body.n or 1) > 1 and (session or chat_id or idempotency_key):
        raise ServiceError(400, "n works only without a session", code="invalid_request", param="n")
    logs.session_id.set(session or chat_id)
    known = {*PASSED_ON, *service.upstreams.known_fields()}
    kept = bool(session or chat_id)
    wanted = TurnRequest(
        owner=client.owner,
        payer=client,
        selection=parse_model(body.model, options),
        messages=_session_messages(body.messages) if kept else [new_message(each) for each in body.messages],
        session=session,
        chat_id=chat_id,
        platform=options.platform,
        idempotency_key=idempotency_key,
        speaker=options.speaker,
        options=passed_on(body, known),
        upstream=options.upstream,
        dialect=options.dialect,
        seed=options.seed,
        context_length=options.context_length,
        kept=options.kept,
    )
    listener = ReplyListener(streaming=bool(body.stream))
    turn = service.turns.start(wanted, listener)
    warnings = _warnings(body, kept, known)
    return Asked(request=caller.request, body=body, warnings=warnings, listener=listener, turn=turn)


@contextmanager
def all_or_none(asked: Sequence[Asked]) -> Generator[None]:
    """Stop all turns of a request when one fails: the others would wait for a listener forever."""
    try:
        yield
    except BaseException:
        for each in asked:
            each.listener.gone.set()
        raise


async def _events(
    body: ChatCompletionRequest, asked: Sequence[Asked], pieces: Sequence[AsyncGenerator[ReplyPiece | SpeakerChange]]
) -> AsyncGenerator[bytes]:
    """Yield all choices, one after the other; they are generated at the same time."""
    with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    writer = ChunkWriter(f"chatcmpl-{asked[0].turn_id}", body.model, int(time.time()), with_usage=with_usage)
    usages: list[Json] = []
    for index, (each, own) in enumerate(zip(asked, pieces, strict=True)):
        writer.index = index
        async for event in _choice(writer, each, own, usages):
            yield event
        if len(usages) == index:
            return  # it failed and reported that
    if with_usage:
        yield writer.usage(summed_usage(usages))
    yield DONE


async def _choice(
    writer: ChunkWriter, asked: Asked, pieces: AsyncGenerator[ReplyPiece | SpeakerChange], usages: list[Json]
) -> AsyncGenerator[bytes]:
    yield writer.delta({"role": "assistant", "content": ""})
    said: list[str] | None = None
    async for chunk in pieces:
        said = said or []
        if (delta := piece_delta(chunk)) is not None:
            said.append(str(delta.get("content", "")))
            yield writer.delta(delta, logprobs=piece_logprobs(chunk))
    try:
        outcome = await asyncio.shield(asked.turn)
    except Exception as error:  # noqa: BLE001  # the answer has begun: errors are part of it
        yield writer.error(error)
        return
    response = outcome.response
    # If nothing was streamed, it is a stored answer.
    if said is None and (delta := piece_delta(stored_piece(response))) is not None:
        yield writer.delta(delta)
    if (broken := interruption(outcome)) is not None:
        yield writer.error(broken)
        return
    reason = response.get("finish_reason")
    extension = asked.extension(outcome)
    if said is not None and response["text"] != "".join(said):
        extension["content"] = response["text"]  # scripts changed what was streamed: this is what is stored
    yield writer.delta({}, finish_reason=reason if isinstance(reason, str) else "stop", extension=extension)
    usages.append(response.get("usage"))


def parse_model(model: str, options: TavernKitOptions) -> Selection:
    """Read ``aria``, ``aria@preset`` or ``group:tavern``, together with the extension object.

    Without a platform, the session's is used, or SillyTavern.
    """
    return selection_of(
        model,
        platform=options.platform or SILLY_TAVERN,
        persona=options.persona,
        preset=options.preset,
        books=tuple(options.books),
    )


def passed_on(body: ChatCompletionRequest, known: Container[str] = PASSED_ON) -> JsonObject:
    """Return the options that are passed to the model unchanged."""
    typed = {"tools": body.tools or None, "response_format": body.response_format}
    given: JsonObject = storable_json({**(body.model_extra or {}), **typed})
    return {name: value for name, value in given.items() if name in known and is_given(name, value)}


def message_text(content: str | Sequence[object] | None) -> str:
    """Return the text of all parts of a message."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part for part in content if is_object(part)]
    return "\n".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str))


def new_message(message: ChatMessageIn) -> NewMessage:
    """A message of a client's own history."""
    role = "system" if message.role == "developer" else message.role
    metadata: JsonObject = {}
    if message.tool_calls and role == "assistant":
        metadata["tool_calls"] = [*message.tool_calls]
    if message.tool_call_id and role == "tool":
        metadata["tool_call_id"] = message.tool_call_id
    extra: JsonObject = {}
    if media := _media(message.content):
        extra["media"] = media
    if parts := [part for part in _parts(message.content) if part.get("type") in PASSED_PARTS]:
        extra[PARTS] = [*parts]
    if extra and role == "user":
        metadata["extra"] = extra
    if message.name and role in ("user", "assistant"):
        metadata["name"] = message.name
    return NewMessage(role=role, content=storable(message_text(message.content)), metadata=storable_json(metadata))


def _media(content: str | list[dict[str, Json]] | None) -> list[Json]:
    """Return the pictures of a message in the format of SillyTavern's chats."""
    found: list[Json] = []
    for part in _parts(content):
        image = part.get("image_url")
        url = image.get("url") if is_object(image) else None
        if isinstance(url, str):
            found.append({"type": "image", "url": url})
    return found


def _parts(content: str | list[dict[str, Json]] | None) -> list[JsonObject]:
    return [part for part in content if is_object(part)] if is_list(content) else []


def _lost_parts(messages: Sequence[ChatMessageIn]) -> list[str]:
    """Return warnings about parts of messages that are not sent."""
    last = max((at for at, each in enumerate(messages) if each.role == "user"), default=-1)
    lost: dict[str, None] = {}
    for at, message in enumerate(messages):
        for part in _parts(message.content):
            kind = str(part.get("type"))
            sent = kind == "text" or (message.role == "user" and kind in (*PASSED_PARTS, "image_url"))
            if not sent:
                lost[f"parts of the type {kind!r} are not supported and were left out"] = None
            elif kind in PASSED_PARTS and at != last:
                lost[f"of parts of the type {kind!r}, only those of the last message are sent"] = None
    return list(lost)


def _session_messages(messages: Sequence[ChatMessageIn]) -> list[NewMessage]:
    """Return the new messages of a session: everything after the last reply. Clients may send their whole history."""
    last = max((index for index, each in enumerate(messages) if each.role == "assistant"), default=-1)
    return [new_message(each) for each in messages[last + 1 :] if each.role in ("user", "tool")]


def _warnings(body: ChatCompletionRequest, in_session: bool, known: Container[str]) -> list[str]:
    unknown = [name for name, value in (body.model_extra or {}).items() if name not in known and value is not None]
    found = [f"the option {name!r} is unknown and was left out" for name in sorted(unknown)]
    if in_session and any(each.role in ("system", "developer") for each in body.messages):
        found.append("system messages are left out of sessions: the character's own prompt is used")
    return [*found, *_lost_parts(body.messages)]


def _extension(outcome: TurnOutcome, options: TavernKitOptions, warnings: Sequence[str]) -> JsonObject:
    response = outcome.response
    found: JsonObject = {}
    if response.get("session") is not None:
        found |= {key: response.get(key) for key in ("session", "session_id", "message_id", "speaker")}
    if response.get("replies"):
        found["replies"] = response["replies"]
    if response.get("broken"):
        found["broken"] = response["broken"]
    if outcome.replayed:
        found["replayed"] = True
    reported = response.get("warnings")
    if listed := [*warnings, *(reported if is_list(reported) else ())]:
        found["warnings"] = listed
    plan = outcome.result.plan if outcome.result is not None else None
    if options.explain and plan is not None:
        found["explanation"] = explanation(plan)
    return found
