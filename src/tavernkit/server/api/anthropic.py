"""Anthropic's protocol: ``POST /v1/messages``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Annotated, Literal

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tavernkit._text import strict_json
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.models import ReplyPiece
from tavernkit.server.api.dependencies import SafeJSONResponse, TheCaller
from tavernkit.server.api.openai import Asked, ask, translated_request
from tavernkit.server.api.openai_types import ChatCompletionRequest, TavernKitOptions
from tavernkit.server.api.replies import EventStream, interruption, stored_piece, stream_error
from tavernkit.server.errors import ServiceError
from tavernkit.server.limits import MAX_ID_CHARACTERS, MAX_MESSAGES, MAX_TOOLS
from tavernkit.server.upstreams.listeners import SpeakerChange

router = APIRouter(prefix="/v1", tags=["anthropic"])

PATH = "/v1/messages"
STOP_REASONS: Mapping[object, str] = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class AnthropicMessage(BaseModel):
    """A message of the client's history."""

    role: Literal["user", "assistant"]
    content: str | list[dict[str, JsonValue]]


class MessagesRequest(BaseModel):
    """``POST /v1/messages``. Other known options are passed to the model."""

    model_config = ConfigDict(extra="allow")

    model: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS)]
    messages: list[AnthropicMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_tokens: int = Field(ge=1)
    system: str | list[dict[str, JsonValue]] | None = None
    stop_sequences: list[str] | None = None
    stream: bool = False
    tools: list[dict[str, JsonValue]] | None = Field(default=None, max_length=MAX_TOOLS)
    tool_choice: dict[str, JsonValue] | None = None
    metadata: dict[str, JsonValue] | None = None
    tavernkit: TavernKitOptions = Field(default_factory=TavernKitOptions)


@router.post("/messages")
async def messages(body: MessagesRequest, caller: TheCaller) -> Response:
    """Talk to a character with Anthropic's SDKs."""
    user = (body.metadata or {}).get("user_id")
    session = caller.session_or(user if isinstance(user, str) else None)
    asked = ask(caller, _chat_request(body), session=session)
    if not body.stream:
        outcome = await asked.whole()
        return SafeJSONResponse(_message(asked, outcome.response, asked.extension(outcome)))
    pieces = await asked.pieces()
    return EventStream(_events(asked, pieces), asked.listener)


def error_body(error: ServiceError) -> JsonObject:
    """Return an error in the format of Anthropic's API."""
    kind = ERROR_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": str(error), "param": error.param, "code": error.code}}


def _chat_request(body: MessagesRequest) -> ChatCompletionRequest:
    """Return the request in OpenAI's format."""
    system = _text(body.system)
    listed: list[JsonObject] = [{"role": "system", "content": system}] if system else []
    for message in body.messages:
        listed += _openai_messages(message.role, message.content)
    options: dict[str, object] = dict((body.model_extra or {}).items())
    if body.tools:
        options["tools"] = [_tool(tool) for tool in body.tools]
    if body.tool_choice is not None:
        options["tool_choice"] = _tool_choice(body.tool_choice)
    if body.stop_sequences:
        options["stop"] = body.stop_sequences
    return translated_request(
        {
            **options,
            "model": body.model,
            "messages": listed,
            "max_tokens": body.max_tokens,
            "stream": body.stream,
            "tavernkit": body.tavernkit,
        }
    )


def _openai_messages(role: str, content: str | list[dict[str, JsonValue]]) -> list[JsonObject]:
    """Return one or several messages: tool results become separate messages."""
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    parts: list[Json] = []
    calls: list[Json] = []
    found: list[JsonObject] = []
    for block in content:
        kind = block.get("type")
        if kind == "tool_result":
            found.append(
                {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": _text(block.get("content"))}
            )
        elif kind == "tool_use":
            arguments = strict_json.compact(block.get("input") or {})
            called: JsonObject = {"name": block.get("name"), "arguments": arguments}
            calls.append({"id": block.get("id"), "type": "function", "function": called})
        elif kind not in ("thinking", "redacted_thinking"):
            parts.append(_part(block))
    if parts or calls or not found:
        message: JsonObject = {"role": role, "content": parts or None}
        found.append({**message, "tool_calls": calls} if calls else message)
    return found


def _part(block: Mapping[str, Json]) -> JsonObject:
    source = block.get("source")
    if not is_object(source):
        return {**block}
    url = source.get("url")
    if source.get("type") == "base64":
        url = f"data:{source.get('media_type')};base64,{source.get('data')}"
    if block.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    if block.get("type") == "document" and source.get("type") == "base64":
        return {"type": "file", "file": {"filename": str(block.get("title") or "document"), "file_data": url}}
    return {**block}


def _tool(tool: Mapping[str, Json]) -> JsonObject:
    if "input_schema" not in tool:
        return {**tool}
    function: JsonObject = {"name": tool.get("name"), "parameters": tool["input_schema"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def _tool_choice(choice: Mapping[str, Json]) -> Json:
    kind = choice.get("type")
    if kind == "tool":
        return {"type": "function", "function": {"name": choice.get("name")}}
    return "required" if kind == "any" else "none" if kind == "none" else "auto"


def _text(content: Json | list[dict[str, JsonValue]]) -> str:
    if isinstance(content, str):
        return content
    blocks = [block for block in content if is_object(block)] if is_list(content) else []
    return "\n".join(str(block["text"]) for block in blocks if isinstance(block.get("text"), str))


def _message(asked: Asked, response: JsonObject, extension: JsonObject) -> JsonObject:
    content: list[Json] = []
    if response.get("reasoning"):
        content.append({"type": "thinking", "thinking": response["reasoning"], "signature": ""})
    if response.get("text") or not response.get("tool_calls"):
        content.append({"type": "text", "text": response.get("text")})
    calls = response.get("tool_calls")
    for call in calls if is_list(calls) else ():
        function = call.get("function") if is_object(call) else None
        if is_object(call) and is_object(function):
            arguments = _arguments(function.get("arguments"))
            content.append({"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": arguments})
    message: JsonObject = {
        **_head(asked),
        "content": content,
        **_stop(response),
        "usage": _usage(response.get("usage")),
    }
    return {**message, "tavernkit": extension} if extension else message


def _head(asked: Asked) -> JsonObject:
    return {"id": f"msg_{asked.turn_id}", "type": "message", "role": "assistant", "model": asked.body.model}


def _stop(response: JsonObject) -> JsonObject:
    return {"stop_reason": STOP_REASONS.get(response.get("finish_reason"), "end_turn"), "stop_sequence": None}


def _usage(usage: Json) -> JsonObject:
    counts = usage if is_object(usage) else {}
    details = counts.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if is_object(details) else None
    cached = cached if isinstance(cached, int) else 0
    prompt = counts.get("prompt_tokens")
    return {
        "input_tokens": max((prompt if isinstance(prompt, int) else 0) - cached, 0),
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": counts.get("completion_tokens") or 0,
    }


def _arguments(text: Json) -> Json:
    try:
        return strict_json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}


async def _events(asked: Asked, pieces: AsyncGenerator[ReplyPiece | SpeakerChange]) -> AsyncGenerator[bytes]:
    yield _event(
        "message_start",
        {"message": {**_head(asked), "content": [], "stop_reason": None, "stop_sequence": None, "usage": _usage(None)}},
    )
    blocks = _Blocks()
    async for piece in pieces:
        for event in blocks.events(piece):
            yield event
    try:
        outcome = await asyncio.shield(asked.turn)
    except Exception as error:  # noqa: BLE001  # the answer has begun: errors are part of it
        yield _event("error", error_body(stream_error(error)))
        return
    response = outcome.response
    if not blocks.begun:  # a stored answer, which is not streamed again
        for event in blocks.events(stored_piece(response)):
            yield event
    if (end := blocks.end()) is not None:
        yield end
    if (broken := interruption(outcome)) is not None:
        yield _event("error", error_body(broken))
        return
    ending: JsonObject = {"delta": _stop(response), "usage": _usage(response.get("usage"))}
    extension = asked.extension(outcome)
    yield _event("message_delta", {**ending, "tavernkit": extension} if extension else ending)
    yield _event("message_stop", {})


class _Blocks:
    """Writes pieces as content blocks: a new block begins when the kind of piece changes."""

    def __init__(self) -> None:
        self._index = -1
        self._kind: object = None

    @property
    def begun(self) -> bool:
        return self._index >= 0

    def events(self, piece: ReplyPiece | SpeakerChange) -> list[bytes]:
        if isinstance(piece, SpeakerChange):
            return self._delta("text", {"type": "text", "text": ""}, {"type": "text_delta", "text": piece.lead})
        found: list[bytes] = []
        if piece.reasoning:
            begin: JsonObject = {"type": "thinking", "thinking": "", "signature": ""}
            found += self._delta("thinking", begin, {"type": "thinking_delta", "thinking": piece.reasoning})
        if piece.text:
            found += self._delta("text", {"type": "text", "text": ""}, {"type": "text_delta", "text": piece.text})
        for call in piece.tool_calls:
            begin = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            found += self._delta(
                ("call", call.index), begin, {"type": "input_json_delta", "partial_json": call.arguments}
            )
        return found

    def end(self) -> bytes | None:
        return _event("content_block_stop", {"index": self._index}) if self.begun else None

    def _delta(self, kind: object, begin: JsonObject, delta: JsonObject) -> list[bytes]:
        found: list[bytes] = []
        if kind != self._kind:
            if (end := self.end()) is not None:
                found.append(end)
            self._kind, self._index = kind, self._index + 1
            found.append(_event("content_block_start", {"index": self._index, "content_block": begin}))
        return [*found, _event("content_block_delta", {"index": self._index, "delta": delta})]


def _event(name: str, value: JsonObject) -> bytes:
    text = json.dumps({"type": name, **value}, ensure_ascii=True, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n".encode()
