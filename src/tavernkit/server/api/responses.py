"""OpenAI's Responses API: the server keeps the chat, and ``previous_response_id`` continues it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from sqlalchemy import select

from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.models import ReplyPiece
from tavernkit.server.api.dependencies import Caller, ChatClient, SafeJSONResponse, TheCaller, TheService
from tavernkit.server.api.library import PathId
from tavernkit.server.api.openai import Asked, ask, parse_model, translated_request
from tavernkit.server.api.openai_types import ChatCompletionRequest, TavernKitOptions
from tavernkit.server.api.replies import EventStream, interruption, stored_piece, stream_error
from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.library.models import model_name
from tavernkit.server.limits import MAX_ID_CHARACTERS, MAX_MESSAGES, MAX_TOOLS
from tavernkit.server.sessions.changes import branch_chat
from tavernkit.server.storage import chats
from tavernkit.server.storage.lines import read_lines
from tavernkit.server.storage.tables import Turn, new_id
from tavernkit.server.upstreams.listeners import SpeakerChange

router = APIRouter(prefix="/v1", tags=["openai"])

PREFIX = "resp_"
PART_TYPES: Mapping[object, str] = {"input_text": "text", "output_text": "text", "input_file": "file"}


class ResponsesRequest(BaseModel):
    """``POST /v1/responses``."""

    model_config = ConfigDict(extra="allow")

    model: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS)]
    input: str | Annotated[list[dict[str, JsonValue]], Field(min_length=1, max_length=MAX_MESSAGES)]
    instructions: str | None = None
    previous_response_id: str | None = Field(default=None, max_length=MAX_ID_CHARACTERS)
    store: bool | None = True
    stream: bool | None = False
    tools: list[dict[str, JsonValue]] | None = Field(default=None, max_length=MAX_TOOLS)
    tool_choice: JsonValue = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    reasoning: dict[str, JsonValue] | None = None
    text: dict[str, JsonValue] | None = None
    metadata: dict[str, JsonValue] | None = None
    tavernkit: TavernKitOptions = Field(default_factory=TavernKitOptions)


@router.post("/responses")
async def create_response(body: ResponsesRequest, caller: TheCaller) -> Response:
    """Talk to a character. A response starts a session, unless the client sends its own history or ``store: false``."""
    translated, chat_id = _chat_request(body), None
    if body.previous_response_id:
        chat_id = await _chat_of(caller, body)
    own_history = any(message.role == "assistant" for message in translated.messages)
    session = caller.session or body.tavernkit.session
    if session is None and chat_id is None and body.store is not False and not own_history:
        session = _new_session(caller.idempotency_key)
    asked = ask(caller, translated, session=session, chat_id=chat_id)
    writer = _Writer(body, asked)
    if body.stream:
        return EventStream(writer.events(await asked.pieces()), asked.listener)
    outcome = await asked.whole()
    return SafeJSONResponse(writer.whole(outcome.response, asked.extension(outcome)))


@router.get("/responses/{response_id}")
async def get_response(response_id: PathId, service: TheService, client: ChatClient) -> Response:
    """An earlier response."""
    query = select(Turn.response, Turn.created_at, Turn.session_id).where(
        Turn.id == response_id.removeprefix(PREFIX), Turn.owner == client.owner, Turn.status.in_(("done", "partial"))
    )
    async with service.database.read() as connection:
        row = (await connection.execute(query)).one_or_none()
        if row is None:
            raise not_found("response", response_id)
        response, created, chat_id = row
        model = ""
        if chat_id is not None:
            with suppress(ServiceError):  # it was removed
                model = model_name((await chats.get_chat(connection, chat_id)).selection)
    head = _head(response_id, int(created), model)
    return SafeJSONResponse({**head, **_ending(response), "output": _output(response)})


def _new_session(idempotency_key: str | None) -> str:
    """Return the id of a session for a response: a repeated request must find the same one."""
    key = new_id() if idempotency_key is None else hashlib.sha256(idempotency_key.encode()).hexdigest()[:32]
    return f"response-{key}"


async def _chat_of(caller: Caller, body: ResponsesRequest) -> str:
    """Return the session of the previous response; a session that has continued since is branched there."""
    database, owner = caller.service.database, caller.client.owner
    response_id = body.previous_response_id or ""
    query = select(Turn.session_id, Turn.reply_id).where(
        Turn.id == response_id.removeprefix(PREFIX), Turn.owner == owner
    )
    async with database.read() as connection:
        if caller.idempotency_key is not None:
            same = select(Turn.session_id).where(Turn.owner == owner, Turn.idempotency_key == caller.idempotency_key)
            if (known := (await connection.execute(same)).scalar()) is not None:
                return known  # of the first request, whose answer is the reason why the session has continued
        row = (await connection.execute(query)).one_or_none()
        chat_id, reply_id = row if row is not None else (None, None)
        if chat_id is None or reply_id is None:
            raise ServiceError(
                404,
                f"there is no stored response {response_id!r}",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        lines = await read_lines(connection, chat_id, limit=1)
        stored = (await chats.get_chat(connection, chat_id)).selection
    asked = parse_model(body.model, body.tavernkit)
    if (asked.character, asked.group) != (stored.character, stored.group):
        message = f"the previous response is one of {model_name(stored)!r}"
        raise ServiceError(409, message, code="session_mismatch", param="model")
    if lines and lines[-1].id == reply_id:
        return chat_id
    made = await branch_chat(database, caller.client, chat_id, reply_id, _new_session(None))
    return made.id


def _chat_request(body: ResponsesRequest) -> ChatCompletionRequest:
    """Return the request in the format of chat completions."""
    messages: list[JsonObject] = []
    if body.instructions:
        messages.append({"role": "system", "content": body.instructions})
    if isinstance(body.input, str):
        messages.append({"role": "user", "content": body.input})
    else:
        messages += [message for item in body.input if (message := _message(item)) is not None]
    options: dict[str, object] = dict(body.model_extra or {})
    if body.tools:
        options["tools"] = [_tool(tool) for tool in body.tools]
    if body.tool_choice is not None:
        options["tool_choice"] = _tool_choice(body.tool_choice)
    if body.max_output_tokens is not None:
        options["max_tokens"] = body.max_output_tokens
    if body.reasoning and body.reasoning.get("effort") is not None:
        options["reasoning_effort"] = body.reasoning["effort"]
    text_format = (body.text or {}).get("format")
    if is_object(text_format) and text_format.get("type") == "json_schema":
        schema = {name: value for name, value in text_format.items() if name != "type"}
        options["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif is_object(text_format) and text_format.get("type") == "json_object":
        options["response_format"] = {"type": "json_object"}
    return translated_request(
        {**options, "model": body.model, "messages": messages, "stream": body.stream, "tavernkit": body.tavernkit}
    )


def _message(item: Mapping[str, Json]) -> JsonObject | None:
    kind = item.get("type", "message")
    if kind == "function_call":
        function: JsonObject = {"name": item.get("name"), "arguments": item.get("arguments")}
        call: JsonObject = {"id": item.get("call_id"), "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if kind == "function_call_output":
        output = item.get("output")
        text = output if isinstance(output, str) else json.dumps(output)
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": text}
    if kind != "message":
        return None  # reasoning and other items from our answers that the client sends back
    content = item.get("content")
    parts: list[Json] = [_part(part) for part in content if is_object(part)] if is_list(content) else []
    return {"role": item.get("role", "user"), "content": parts if is_list(content) else content}


def _part(part: JsonObject) -> JsonObject:
    kind = part.get("type")
    if kind == "input_image":
        return {"type": "image_url", "image_url": {"url": part.get("image_url")}}
    if kind == "input_file":
        return {"type": "file", "file": {name: part[name] for name in ("filename", "file_data") if name in part}}
    return {**part, "type": PART_TYPES.get(kind, kind)}


def _tool(tool: Mapping[str, Json]) -> JsonObject:
    if tool.get("type") != "function" or "function" in tool:
        return {**tool}
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}


def _tool_choice(choice: JsonValue) -> JsonValue:
    if isinstance(choice, dict) and choice.get("type") == "function" and "name" in choice:
        return {"type": "function", "function": {"name": choice["name"]}}
    return choice


def _head(response_id: str, created: int, model: str) -> JsonObject:
    return {
        "id": response_id,
        "object": "response",
        "created_at": created,
        "model": model,
        "status": "in_progress",
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": None,
        "top_p": None,
        "usage": None,
    }


def _ending(response: JsonObject) -> JsonObject:
    cut = response.get("finish_reason") == "length" or bool(response.get("broken"))
    reason = "max_output_tokens" if response.get("finish_reason") == "length" else "content_filter"
    return {
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": reason} if cut else None,
        "usage": _usage(response.get("usage")),
    }


def _usage(usage: Json) -> JsonObject:
    counts = usage if is_object(usage) else {}

    def detail(group: str, name: str) -> Json:
        found = counts.get(group)
        return (found.get(name) or 0) if is_object(found) else 0

    return {
        "input_tokens": counts.get("prompt_tokens") or 0,
        "input_tokens_details": {"cached_tokens": detail("prompt_tokens_details", "cached_tokens")},
        "output_tokens": counts.get("completion_tokens") or 0,
        "output_tokens_details": {"reasoning_tokens": detail("completion_tokens_details", "reasoning_tokens")},
        "total_tokens": counts.get("total_tokens") or 0,
    }


def _output(response: JsonObject) -> list[Json]:
    """Return the reply as output items."""
    found: list[Json] = []
    item_id = str(response.get("message_id") or "0")
    if response.get("text") or not response.get("tool_calls"):
        found.append(_text_item(f"msg_{item_id}", str(response.get("text") or ""), "completed"))
    calls = response.get("tool_calls")
    for call in calls if is_list(calls) else ():
        function = call.get("function") if is_object(call) else None
        if is_object(call) and is_object(function):
            found.append(_call_item(call.get("id"), function.get("name"), function.get("arguments"), "completed"))
    return found


def _text_item(item_id: str, text: str, status: str) -> JsonObject:
    content: list[Json] = [_text_part(text)] if status == "completed" else []
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": content}


def _text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_item(call_id: Json, name: Json, arguments: Json, status: str) -> JsonObject:
    return {
        "id": f"fc_{call_id}",
        "type": "function_call",
        "status": status,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


class _Writer:
    """Writes one response, whole or as events."""

    def __init__(self, body: ResponsesRequest, asked: Asked) -> None:
        self._asked = asked
        self._body = body
        self._number = 0
        self._done: list[Json] = []
        self._item: JsonObject | None = None
        """The current item."""
        self._said = ""

    def whole(self, response: JsonObject, extension: JsonObject) -> JsonObject:
        """Return the whole response."""
        answer: JsonObject = {**self._head(response.get("created")), **_ending(response)}
        answer["output"] = _output(response)
        return {**answer, "tavernkit": extension} if extension else answer

    async def events(self, pieces: AsyncGenerator[ReplyPiece | SpeakerChange]) -> AsyncGenerator[bytes]:
        """Yield the response as events."""
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, {"response": self._head(None)})
        streamed = False
        async for piece in pieces:
            streamed = True
            for event in self._piece(piece):
                yield event
        try:
            outcome = await asyncio.shield(self._asked.turn)
        except Exception as error:  # noqa: BLE001  # the answer has begun: errors are part of it
            yield self._failure(error)
            return
        response = outcome.response
        if not streamed:
            for event in self._piece(stored_piece(response)):
                yield event
        for event in self._end_item():
            yield event
        if (broken := interruption(outcome)) is not None:
            yield self._failure(broken)
            return
        ended = self.whole(response, self._asked.extension(outcome))
        if streamed:
            ended["output"] = self._done
        name = "response.incomplete" if ended["status"] == "incomplete" else "response.completed"
        yield self._event(name, {"response": ended})

    def _piece(self, piece: ReplyPiece | SpeakerChange) -> list[bytes]:
        if isinstance(piece, SpeakerChange):
            return self._text(piece.lead)
        found = self._text(piece.text) if piece.text else []
        for call in piece.tool_calls:
            if call.id is not None or self._item is None or self._item["type"] != "function_call":
                found += self._begin(_call_item(call.id or f"call_{call.index + 1}", call.name, "", "in_progress"))
            if call.arguments:
                self._said += call.arguments
                found.append(self._event("response.function_call_arguments.delta", self._place(delta=call.arguments)))
        return found

    def _text(self, text: str) -> list[bytes]:
        found: list[bytes] = []
        if self._item is None or self._item["type"] != "message":
            found += self._begin(_text_item(f"msg_{self._asked.turn_id}_{len(self._done)}", "", "in_progress"))
            part: JsonObject = {"content_index": 0, "part": _text_part("")}
            found.append(self._event("response.content_part.added", self._place(**part)))
        self._said += text
        delta = self._place(content_index=0, delta=text, logprobs=[])
        return [*found, self._event("response.output_text.delta", delta)]

    def _begin(self, item: JsonObject) -> list[bytes]:
        found = self._end_item()
        self._item, self._said = item, ""
        return [*found, self._event("response.output_item.added", {"output_index": len(self._done), "item": item})]

    def _end_item(self) -> list[bytes]:
        item, said = self._item, self._said
        if item is None:
            return []
        found: list[bytes] = []
        if item["type"] == "message":
            ended = _text_item(str(item["id"]), said, "completed")
            text = self._place(content_index=0, text=said, logprobs=[])
            found.append(self._event("response.output_text.done", text))
            found.append(self._event("response.content_part.done", self._place(content_index=0, part=_text_part(said))))
        else:
            ended = {**item, "arguments": said, "status": "completed"}
            done = self._place(arguments=said, name=item["name"])
            found.append(self._event("response.function_call_arguments.done", done))
        found.append(self._event("response.output_item.done", {"output_index": len(self._done), "item": ended}))
        self._done.append(ended)
        self._item = None
        return found

    def _place(self, **fields: Json) -> JsonObject:
        item = self._item or {}
        return {"item_id": item.get("id"), "output_index": len(self._done), **fields}

    def _head(self, created: Json) -> JsonObject:
        head = _head(f"{PREFIX}{self._asked.turn_id}", created if isinstance(created, int) else 0, self._body.model)
        given = self._body
        return {
            **head,
            "instructions": given.instructions,
            "metadata": {**(given.metadata or {})},
            "previous_response_id": given.previous_response_id,
            "tools": [*(given.tools or [])],
        }

    def _failure(self, error: Exception) -> bytes:
        failed: JsonObject = {"code": "server_error", "message": str(stream_error(error))}
        return self._event("response.failed", {"response": {**self._head(None), "status": "failed", "error": failed}})

    def _event(self, name: str, value: JsonObject) -> bytes:
        event = {"type": name, "sequence_number": self._number, **value}
        self._number += 1
        return f"event: {name}\ndata: {json.dumps(event, ensure_ascii=True, separators=(',', ':'))}\n\n".encode()
