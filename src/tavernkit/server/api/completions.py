"""OpenAI's other endpoints: text completions, embeddings, moderations."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tavernkit._values import Json, JsonObject
from tavernkit.models import ModelError, ReplyPiece
from tavernkit.server.accounts import passed_use
from tavernkit.server.api.dependencies import ChatClient, SafeJSONResponse, TheCaller, TheService
from tavernkit.server.api.openai import Asked, all_or_none, ask, translated_request
from tavernkit.server.api.openai_types import ChatCompletionRequest, StreamOptions, TavernKitOptions
from tavernkit.server.api.replies import DONE, EventStream, interruption, stream_error, summed_usage
from tavernkit.server.keys import Client
from tavernkit.server.limits import MAX_CHOICES, MAX_ID_CHARACTERS
from tavernkit.server.service import Service
from tavernkit.server.upstreams.listeners import SpeakerChange
from tavernkit.server.upstreams.upstream import as_service_error

router = APIRouter(prefix="/v1", tags=["openai"])

Name = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS)]


class CompletionRequest(BaseModel):
    """``POST /v1/completions``: the prompt is what the user says to the character."""

    model_config = ConfigDict(extra="allow")

    model: Name
    prompt: str | Annotated[list[str], Field(min_length=1, max_length=1)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    echo: bool | None = False
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = 1
    user: str | None = Field(default=None, max_length=MAX_ID_CHARACTERS)
    logprobs: int | None = None
    tavernkit: TavernKitOptions = Field(default_factory=TavernKitOptions)

    @property
    def text(self) -> str:
        """The prompt."""
        return self.prompt if isinstance(self.prompt, str) else self.prompt[0]


class PassedRequest(BaseModel):
    """A request that an upstream answers."""

    model_config = ConfigDict(extra="allow")

    model: Name | None = None
    input: str | list[JsonValue]
    upstream: str | None = Field(default=None, max_length=100)


@router.post("/completions")
async def completions(body: CompletionRequest, caller: TheCaller) -> Response:
    """Let a character continue a text. A text-completion upstream gets it through SillyTavern's templates."""
    session, translated = caller.session_or(body.user), _chat_request(caller.service, body)
    asked = [ask(caller, translated, session=session) for _ in range(body.n or 1)]
    with all_or_none(asked):
        if body.stream:
            pieces = [await each.pieces() for each in asked]
            return EventStream(_events(body, asked, pieces), *(each.listener for each in asked))
        outcomes = [await each.whole() for each in asked]
    echoed = body.text if body.echo else ""
    answer: JsonObject = {
        **_head(body, asked[0], int(time.time())),
        "choices": [
            _choice(at, echoed + str(each.response["text"]), each.response) for at, each in enumerate(outcomes)
        ],
        "usage": summed_usage([each.response.get("usage") for each in outcomes]),
    }
    extension = asked[0].extension(outcomes[0])
    return SafeJSONResponse({**answer, "tavernkit": extension} if extension else answer)


@router.post("/embeddings")
async def embeddings(body: PassedRequest, service: TheService, client: ChatClient) -> Response:
    """Embed texts with an upstream that supports it."""
    return SafeJSONResponse(await _pass_on(service, client, body, "embedding"))


@router.post("/moderations")
async def moderations(body: PassedRequest, service: TheService, client: ChatClient) -> Response:
    """Moderate texts with an upstream that supports it."""
    return SafeJSONResponse(await _pass_on(service, client, body, "moderation"))


async def _pass_on(
    service: Service, client: Client, body: PassedRequest, kind: Literal["embedding", "moderation"]
) -> Json:
    async with service.database.read() as connection:
        await service.accounts.check(connection, client)
    await service.upstream_keys.keep_fresh()
    upstream = service.upstreams.offering(kind, body.upstream)
    model = upstream.config.embedding_model if kind == "embedding" else upstream.config.moderation_model
    sent: dict[str, object] = body.model_dump(exclude={"upstream"}, exclude_none=True)
    if model is not None:
        sent["model"] = model
    try:
        answer = await upstream.call("POST", f"/{kind}s", sent)
    except ModelError as error:
        raise as_service_error(error) from error
    use = passed_use(upstream.name, upstream.config, str(sent.get("model") or ""), answer)
    async with service.database.write() as connection:
        await service.accounts.add(connection, client.owner, [use])
    return answer


def _chat_request(service: Service, body: CompletionRequest) -> ChatCompletionRequest:
    options = dict(body.model_extra or {})
    chosen = body.tavernkit
    if chosen.dialect is None and chosen.upstream is None and service.upstreams.speaks("text"):
        chosen = chosen.model_copy(update={"dialect": "text"})
    if body.logprobs:
        options["logprobs"] = body.logprobs if chosen.dialect == "text" else True
    return translated_request(
        {
            **options,
            "model": body.model,
            "messages": [{"role": "user", "content": body.text}],
            "stream": body.stream,
            "n": body.n,
            "tavernkit": chosen,
        }
    )


def _head(body: CompletionRequest, asked: Asked, created: int) -> JsonObject:
    return {"id": f"cmpl-{asked.turn_id}", "object": "text_completion", "created": created, "model": body.model}


def _choice(index: int, text: str, response: Mapping[str, Json] | None = None) -> JsonObject:
    reason = response.get("finish_reason") if response is not None else None
    logprobs = response.get("logprobs") if response is not None else None
    return {"index": index, "text": text, "finish_reason": reason, "logprobs": logprobs}


async def _events(
    body: CompletionRequest, asked: Sequence[Asked], pieces: Sequence[AsyncGenerator[ReplyPiece | SpeakerChange]]
) -> AsyncGenerator[bytes]:
    head = _head(body, asked[0], int(time.time()))
    usages: list[Json] = []
    for index, (each, own) in enumerate(zip(asked, pieces, strict=True)):
        said = False
        if body.echo:
            yield _event({**head, "choices": [_choice(index, body.text)]})
        async for piece in own:
            text, said = piece.lead if isinstance(piece, SpeakerChange) else piece.text, True
            if text:
                yield _event({**head, "choices": [_choice(index, text)]})
        try:
            outcome = await asyncio.shield(each.turn)
        except Exception as error:  # noqa: BLE001  # the answer has begun: errors are part of it
            yield _event(stream_error(error).body())
            return
        if (broken := interruption(outcome)) is not None:
            yield _event(broken.body())
            return
        rest = "" if said else str(outcome.response["text"])
        yield _event({**head, "choices": [_choice(index, rest, outcome.response)]})
        usages.append(outcome.response.get("usage"))
    if body.stream_options is not None and body.stream_options.include_usage:
        yield _event({**head, "choices": [], "usage": summed_usage(usages)})
    yield DONE


def _event(value: JsonObject) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=True, separators=(',', ':'))}\n\n".encode()
