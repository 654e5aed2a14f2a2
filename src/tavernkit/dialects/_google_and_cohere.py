"""Google's Gemini API, and Cohere's chat API (version 1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from tavernkit._values import Json, JsonObject
from tavernkit.dialects._attachments import Attachment, attachments_of
from tavernkit.dialects._messages import ToolCall, json_object, settle_tool_results, tool_calls, warn_about_loss
from tavernkit.dialects._shapes import (
    DEFAULT_PLACEHOLDER,
    camel_case,
    google_part,
    google_tool_config,
    google_tools,
    merge_neighbours,
    snake_case,
)
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt._block import Message

_REST_NAMES = ("functionCall", "functionResponse", "thoughtSignature")
_LIBRARY_NAMES = ("function_call", "function_response", "thought_signature")


def to_google(
    messages: Sequence[Message],
    *,
    strict_alternation: bool = False,
    attachments: bool | None = None,
    tools: Sequence[Mapping[str, object]] | None = None,
    tool_choice: object = None,
    placeholder: str = DEFAULT_PLACEHOLDER,
    rest_names: bool = False,
    warn: Warn = log_warning,
    **_: object,
) -> JsonObject:
    """Return ``{"system_instruction"?, "contents"}``, and ``tools`` and ``tool_config`` when tools are given.

    With ``rest_names=True`` fields have the names of the REST interface, ``systemInstruction`` and so on.

    With ``strict_alternation=True`` turns alternate and begin with the user, tool calls and results become function
    parts, attachments become data parts, and empty text is left out.
    """
    media = strict_alternation if attachments is None else attachments
    warn_about_loss(messages, "google", warn, tools=not strict_alternation, attachments=not media)
    system = [message.content for message in messages if message.role == "system"]
    chat = [message for message in messages if message.role != "system"]
    payload: JsonObject = {}
    if strict_alternation:
        system = [text for text in system if text]
        chat = settle_tool_results(chat, warn)
    if system:
        name = "systemInstruction" if rest_names else "system_instruction"
        payload[name] = {"parts": [google_part("text", text) for text in system]}
    contents = [
        {"role": "model" if message.role == "assistant" else "user", "parts": parts}
        for message, parts in zip(chat, _all_parts(chat, strict_alternation, media, rest_names, warn), strict=True)
    ]
    if strict_alternation:
        contents = merge_neighbours(contents, "parts")
        if not contents or contents[0]["role"] != "user":
            contents.insert(0, {"role": "user", "parts": [google_part("text", placeholder)]})
    payload["contents"] = list(contents)
    if tools:
        declared: Json = google_tools(tools)
        config: Json = google_tool_config(tool_choice)
        payload["tools"] = camel_case(declared) if rest_names else declared
        if config is not None:
            payload["toolConfig" if rest_names else "tool_config"] = camel_case(config) if rest_names else config
    return payload


def _all_parts(chat: Sequence[Message], strict: bool, media: bool, rest_names: bool, warn: Warn) -> list[Json]:
    # The names of most parts are chosen, not rewritten: that would take longer than all the rest.
    call_key, response_key, signature_key = _REST_NAMES if rest_names else _LIBRARY_NAMES
    unanswered: deque[ToolCall] = deque()
    everything: list[Json] = []
    for position, message in enumerate(chat):
        parts: list[Json] = []
        if media and message.attachments:
            data = [_data_part(each) for each in attachments_of(message, position, warn)]
            parts += data if rest_names else map(snake_case, data)
        if strict and message.role == "tool":
            name = unanswered.popleft().name
            result = json_object(message.content)
            response: JsonObject = {"result": message.content} if result is None else result
            parts.append({response_key: {"name": name, "response": response}})
        elif message.content or not strict:
            parts.append({"text": message.content})
        if strict and message.role == "assistant":
            calls = tool_calls(message, warn)
            unanswered.extend(calls)
            for call in calls:
                part: JsonObject = {call_key: {"name": call.name, "args": call.arguments}}
                if call.signature:
                    part[signature_key] = call.signature
                parts.append(part)
        everything.append(parts)
    return everything


def _data_part(attachment: Attachment) -> JsonObject:
    if attachment.data is not None:
        return google_part("inlineData", {"mimeType": attachment.mime_type, "data": attachment.data})
    address = attachment.url or attachment.file_id
    return google_part("fileData", {"mimeType": attachment.mime_type, "fileUri": address})


def to_cohere(
    messages: Sequence[Message], *, strict_alternation: bool = False, warn: Warn = log_warning, **_: object
) -> JsonObject:
    """Return ``{"chat_history"}``: the assistant is ``CHATBOT``, everyone else ``USER``.

    With ``strict_alternation=True`` the system is ``SYSTEM`` and tool calls and results are kept.
    """
    warn_about_loss(messages, "cohere", warn, tools=not strict_alternation, attachments=True)
    if not strict_alternation:
        return {
            "chat_history": [
                {"role": "CHATBOT" if message.role == "assistant" else "USER", "message": message.content}
                for message in messages
            ]
        }
    unanswered: deque[ToolCall] = deque()
    history: list[Json] = [_turn(message, unanswered, warn) for message in settle_tool_results(messages, warn)]
    return {"chat_history": history}


def _turn(message: Message, unanswered: deque[ToolCall], warn: Warn) -> JsonObject:
    match message.role:
        case "system":
            return {"role": "SYSTEM", "message": message.content}
        case "assistant":
            turn: JsonObject = {"role": "CHATBOT", "message": message.content}
            made = tool_calls(message, warn)
            unanswered.extend(made)
            if made:
                turn["tool_calls"] = [{"name": call.name, "parameters": call.arguments} for call in made]
            return turn
        case "tool":
            call = unanswered.popleft()
            output = json_object(message.content)
            result: JsonObject = {
                "call": {"name": call.name, "parameters": call.arguments},
                "outputs": [{"result": message.content} if output is None else output],
            }
            return {"role": "TOOL", "tool_results": [result]}
        case _:
            return {"role": "USER", "message": message.content}
