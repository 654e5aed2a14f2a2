"""The API description and its pages, served locally and protected by the same keys as the API."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from tavernkit.server.api.dependencies import SafeJSONResponse, TheService
from tavernkit.server.errors import ServiceError
from tavernkit.server.service import Service

router = APIRouter(include_in_schema=False)

CHALLENGE: Final = 'Basic realm="TavernKit: any name, and an API key as the password"'
"""The header that makes a browser ask for a key."""

PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><title>TavernKit</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body><div id="swagger-ui"></div><script src="docs/swagger-ui.js"></script><script src="docs/start.js"></script></body>
</html>
"""
START: Final = "SwaggerUIBundle({url: 'openapi.json', dom_id: '#swagger-ui', deepLinking: true});\n"
TYPES: Final = {"swagger-ui.js": "text/javascript", "swagger-ui.css": "text/css"}


@router.get("/docs")
async def docs(request: Request, service: TheService) -> Response:
    """The API documentation page."""
    return await _refusal(request, service) or HTMLResponse(PAGE)


@router.get("/openapi.json")
async def openapi(request: Request, service: TheService) -> Response:
    """The OpenAPI description."""
    return await _refusal(request, service) or SafeJSONResponse(describe(request.app.openapi()))


@router.get("/docs/start.js")
async def start() -> Response:
    """The script that starts the documentation page."""
    return Response(START, media_type="text/javascript")


@router.get("/docs/{name}")
async def swagger_ui(name: str) -> Response:
    """Files of Swagger UI, compressed."""
    if name not in TYPES:
        raise ServiceError(404, f"there is no {name!r}", code="not_found")
    packed = files("tavernkit.server").joinpath("swagger_ui", f"{name}.gz").read_bytes()
    headers = {"content-encoding": "gzip", "cache-control": "max-age=86400"}
    return Response(packed, media_type=TYPES[name], headers=headers)


async def _refusal(request: Request, service: Service) -> Response | None:
    """Return the answer for clients without a required key. Browsers send keys as passwords."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    token = _password(value) if scheme.lower() == "basic" else value if scheme.lower() == "bearer" else None
    try:
        await service.keys.count(await service.keys.client(token))
    except ServiceError as error:
        headers = {"www-authenticate": CHALLENGE} if error.status == 401 else None
        return SafeJSONResponse(error.body(), status_code=error.status, headers=headers)
    return None


def _password(value: str) -> str | None:
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return None


FIELDS: Final[Mapping[str, str]] = {
    "activation_strategy": "Who speaks, by SillyTavern's number: 0 natural, 1 in order, 2 manual, 3 pooled.",
    "alerts": "What RisuAI's triggers and commands show the user.",
    "allow_self_responses": "Whether a member may answer itself.",
    "answers": "The user's answers to questions of RisuAI's triggers, in their order.",
    "api_key": "The key that the upstream's server expects. It is stored encrypted.",
    "available": "False while the upstream has a pause after failures.",
    "books": "Ids of books, besides those of the character.",
    "broken": "Why the reply is not complete; null if it is.",
    "busy": "Whether a turn of the session is running.",
    "cached_tokens": "Input tokens that the provider had in its cache.",
    "character": "The id of the character; null for a group.",
    "commands": "Whether a text that begins with a slash is run as a command, as in the programs.",
    "content": "The text, or a list of parts: texts, pictures, audio, files.",
    "context_length": "The longest prompt and reply together, in tokens.",
    "cost": "The cost by the configured prices.",
    "created_at": "When it was made, in seconds since 1970.",
    "daily_cost": "The cost that the key may cause per day (UTC); null for no limit.",
    "daily_tokens": "The tokens that the key may use per day (UTC); null for no limit.",
    "data": "The rows of this page.",
    "day": "The day (UTC), such as 2026-01-31.",
    "depth": "How many messages follow it, with the position `at_depth`.",
    "description": "Who the user is.",
    "details": "The chat's own settings: SillyTavern's metadata of the chat, or RisuAI's keys of it.",
    "dialect": "The protocol, or the shape of the messages: `openai`, `anthropic`, `google`, `text` and others.",
    "disabled_members": "Ids of members that do not speak.",
    "done": "How many items have been read.",
    "echo": "Whether the reply begins with the prompt.",
    "element": "The id of the element that was clicked.",
    "explain": "Whether the answer says what is in the prompt and why.",
    "explanation": "What is in the prompt, what it costs, and why; null unless asked for.",
    "file": "The file.",
    "filename": "The name of the file it came from.",
    "fingerprint": "A hash of what would be sent.",
    "finish_reason": "Why the model stopped, in OpenAI's words.",
    "first": "The first day of the report.",
    "generation_mode": "How the members' cards are joined, by SillyTavern's number.",
    "greeting": "The number of the greeting, from 0; null for none.",
    "group": "The id of the group; null for a character.",
    "hidden": "Whether prompts leave it out; `all_before`: and everything before it (RisuAI).",
    "id": "The id.",
    "include_usage": "Whether the last piece of a stream has the tokens.",
    "input": "The text, or a list of texts or messages.",
    "input_tokens": "Tokens of prompts.",
    "instructions": "A system message before the input.",
    "key": "The id of the key.",
    "NewKeyOut.key": "The key itself. It is shown only once.",
    "key_name": "The name of the key.",
    "kind": "What it is.",
    "BuildIn.kind": "The kind of turn.",
    "last": "The last day of the report.",
    "logprobs": "How many alternatives of each token the answer has, with their probabilities.",
    "lore": "Where lore goes that fires by key; `freeze` keeps it in the history where it fired.",
    "max_output_tokens": "The longest reply, in tokens.",
    "max_tokens": "The longest reply, in tokens.",
    "members": "Ids of characters.",
    "memory": "Whether a model summarises the session in the background.",
    "message_id": "The id of the message; null if nothing was stored.",
    "BranchIn.message_id": "The last message of the branch.",
    "messages": "The messages, oldest first.",
    "metadata": "Data of the client; the response has it too.",
    "MessagesRequest.metadata": "Its `user_id` is what OpenAI calls `user`.",
    "model": "A character, a character with a preset (`aria@preset`), or a group (`group:crew`).",
    "UpstreamOut.model": "The model that the upstream asks.",
    "UsageOut.model": "The model that answered.",
    "PassedRequest.model": "The model. The upstream's own setting wins.",
    "n": "How many replies; more than one only without a session.",
    "name": "The name.",
    "ChatMessageIn.name": "The speaker.",
    "next": "Pass it as `after` or `before` to get the next page; null on the last one.",
    "options": "Options of the model, such as `temperature`.",
    "AlertOut.options": "What the user can select: the answer is its number, from 0.",
    "SessionOut.options": "Options for stable prompts, for memory, and for what RisuAI damages.",
    "output_tokens": "Tokens of replies.",
    "payload": "The messages in the dialect, or the text.",
    "persona": "The id of the persona.",
    "plan": "The pieces of the prompt, where each came from, and what was left out.",
    "platform": "The program whose rules are followed: `silly_tavern` or `risu_ai`.",
    "position": "Where the description goes.",
    "predicted_tokens": "Input tokens that the provider should have had in its cache.",
    "preset": "The id of the preset; null for the program's default.",
    "previous_response_id": "The response to continue.",
    "prompt": "What the user says.",
    "QuietIn.prompt": "The question. It does not become part of the chat.",
    "quiet_name": "Who answers.",
    "quiet_to_loud": "Whether the answer is treated as a message.",
    "quirks": "`reference`: do as RisuAI does even where it damages the chat.",
    "rate_limit": "Requests per minute; null for the server's limit.",
    "reasoning": "The model's reasoning, if it shows it.",
    "ResponsesRequest.reasoning": "How much the model should think: `effort`.",
    "removed": "Ids of removed messages.",
    "replayed": "Whether this is the stored answer of an earlier request with the same `Idempotency-Key`.",
    "replies": "Each reply, if several members spoke.",
    "request": "The body that would be sent to the upstream.",
    "requests": "How many requests were made.",
    "response_format": "The form of the reply, as OpenAI has it: a JSON schema, or `json_object`.",
    "result": "What was imported, what was skipped, and warnings.",
    "revoked_at": "When the key was revoked, in seconds since 1970; null if it is valid.",
    "role": "Who says it: `user`, `assistant`, `system` or `tool`.",
    "PersonaIn.role": "The role with the position `at_depth`: 0 system, 1 user, 2 assistant.",
    "scopes": "What the key may do: `chat`, `read`, `write`, `admin`.",
    "seed": "Makes dice and random macros repeatable.",
    "session": "The client's own id of the session, as in the header `X-Tavern-Session`.",
    "session_id": "The service's id of the session.",
    "settings": "The settings, in the form of the platform's own file.",
    "skip_world_info_registration": "Whether lore at a depth and in outlets is left out.",
    "speaker": "The member of the group who speaks.",
    "status": "The state, such as `complete`, `partial` or `failed`.",
    "stop_sequences": "Texts at which the reply ends.",
    "store": "Whether the response is kept, so that it can be continued.",
    "strategy": "How the prompt is made to fit; `cache` cuts the history in larger steps.",
    "stream": "Whether the answer is sent as server-sent events.",
    "stream_options": "Options of the stream.",
    "swipe": "The number of the reply that is shown, from 0.",
    "swipes": "All alternatives of the reply; null if there is only one.",
    "system": "A system message before the others.",
    "tavernkit": "What the prompt is built with, and whether to explain it.",
    "text": "The text.",
    "ResponsesRequest.text": "The format of the reply, such as a JSON schema.",
    "tool_call_id": "The call that this is the result of.",
    "tool_calls": "Functions that the model calls.",
    "tool_choice": "Whether and which tools the model calls.",
    "tools": "Functions that the model may call.",
    "total": "How many items the import has.",
    "type": "The kind of part.",
    "updated_at": "When it was changed last, in seconds since 1970.",
    "upstream": "The upstream that answers; by default the configured one.",
    "usage": "The tokens of the request and its reply.",
    "user": "OpenAI's id of the user. It chooses a session only if `user_is_session` is set.",
    "variables": "The variables of the session.",
    "version": "A number that increases with every change.",
    "volatile": "Where notes and texts that change go; `tail` puts them after the history.",
    "warnings": "What was left out or read differently, and why.",
}
"""By the name of the field, or of its type and the field where it means something else."""

PARAMETERS: Final[Mapping[str, str]] = {
    "after": "`next` of the previous page.",
    "before": "`next` of the previous page: only older ones are returned.",
    "by": "What to group by: any of `key`, `character`, `model`, `day`.",
    "character": "Only sessions with this character.",
    "first": "The first day, such as 2026-01-01; by default 29 days before the last.",
    "following": "Also delete all messages after it.",
    "format": "The format of the file or the report.",
    "group": "Only sessions of this group.",
    "idempotency-key": "The client's id of the request. If it is sent again, it gets the same answer.",
    "item_id": "The id of the item.",
    "job_id": "The id of the import.",
    "key_id": "The id of the key.",
    "kind": "What kind of turn: `generate`, `regenerate`, `swipe` or `impersonate`.",
    "last": "The last day; by default today (UTC).",
    "limit": "The most rows to return.",
    "message_id": "The id of the message.",
    "model": "The model, as the list names it.",
    "name": "The name.",
    "platform": "The program: `silly_tavern` or `risu_ai`.",
    "plural": "The kind of item, such as `characters`.",
    "response_id": "The id of the response.",
    "session": "Only the session with this id of the client.",
    "session_id": "The id of the session.",
    "swipe": "The number of the swipe, from 0.",
    "x-tavern-session": "The client's id of a session, whose chat the server keeps: send only the new message.",
}


def describe(schema: dict[str, Any]) -> dict[str, Any]:
    """Add descriptions to an OpenAPI schema where it has none; names it does not know stay as they are."""
    for name, field, value in _fields(schema):
        text = FIELDS.get(f"{name}.{field}") or FIELDS.get(field)
        if text is not None:
            value.setdefault("description", text)
    for parameter in _parameters(schema):
        text = PARAMETERS.get(parameter["name"])
        if text is not None:
            parameter.setdefault("description", text)
    return schema


def _fields(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, model in schema["components"]["schemas"].items():
        for field, value in model.get("properties", {}).items():
            yield name.rpartition("__")[2], field, value


def _parameters(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for operations in schema["paths"].values():
        for operation in operations.values():
            yield from operation.get("parameters", ())
