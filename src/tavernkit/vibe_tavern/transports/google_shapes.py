"""Translates between OpenAI's shape and Google's."""

from __future__ import annotations

from typing import Final

from tavernkit.dialects import convert
from tavernkit.errors import Warn
from tavernkit.text import strict_json
from tavernkit.values import Json, JsonObject, is_list, is_object
from tavernkit.vibe_tavern.preflight import JSON_OBJECT, JSON_SCHEMA, response_format_kind
from tavernkit.vibe_tavern.transports.base import ChatChunk
from tavernkit.vibe_tavern.transports.native_options import native_options
from tavernkit.vibe_tavern.transports.tool_call_deltas import read_deltas

PASSED: Final = frozenset(
    (
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "safety_settings",
        "thinking_config",
        "response_modalities",
        "cached_content",
        "labels",
    )
)
RENAMED: Final = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "stop": "stop_sequences",
    "n": "candidate_count",
}
TRANSLATED: Final = frozenset(
    (
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "stream",
        "stream_options",
        "response_format",
    )
)

_FINISH_REASONS: Final = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"), "content_filter"
    ),
}


def native_request(request: JsonObject, warn: Warn) -> JsonObject:
    """Translate a request into contents and config; options that Google does not know are left out, with a warning."""
    tools, messages = request.get("tools"), request.get("messages")
    native = convert(
        [message for message in messages if is_object(message)] if is_list(messages) else [],
        "google",
        strict_alternation=True,
        tools=[tool for tool in tools if is_object(tool)] if is_list(tools) else None,
        tool_choice=request.get("tool_choice"),
        warn=warn,
    )
    native |= native_options(request, passed=PASSED, renamed=RENAMED, translated=TRANSLATED, name="Google", warn=warn)
    stops = native.get("stop_sequences")
    if isinstance(stops, str):
        native["stop_sequences"] = [stops]
    native["automatic_function_calling"] = {"disable": True}
    return native | _response_format(request.get("response_format"))


def chat_completion(body: JsonObject, model: str) -> JsonObject:
    """Translate an answer."""
    parts = _parts(body)
    message: JsonObject = {"role": "assistant", "content": _texts(parts, thought=False)}
    reasoning = _texts(parts, thought=True)
    if reasoning:
        message["reasoning_content"] = reasoning
    calls = [_tool_call(part, number) for number, part in enumerate(_calls(parts), start=1)]
    if calls:
        message["tool_calls"] = [*calls]
    refusal = _block_reason(body)
    if refusal:
        message["refusal"] = refusal
    choice: JsonObject = {"index": 0, "message": message, "finish_reason": _finish_reason(body, calls=bool(calls))}
    return {
        "id": body.get("response_id"),
        "object": "chat.completion",
        "model": body.get("model_version") or model,
        "choices": [choice],
        "usage": usage_of(body),
    }


def chunk_of(body: JsonObject, called: int = 0) -> ChatChunk:
    """Translate one piece of a stream; ``called`` is how many tools were called before it."""
    parts = _parts(body)
    calls = [_tool_call(part, number) for number, part in enumerate(_calls(parts), start=called + 1)]
    return ChatChunk(
        text=_texts(parts, thought=False),
        reasoning=_texts(parts, thought=True),
        refusal=_block_reason(body),
        finish_reason=_finish_reason(body, calls=bool(called or calls)),
        usage=usage_of(body),
        tool_calls=read_deltas([{"index": called + at, **call} for at, call in enumerate(calls)]),
    )


def usage_of(body: JsonObject) -> JsonObject | None:
    """Translate token counts; thoughts are part of the completion."""
    counts = body.get("usage_metadata")
    if not is_object(counts):
        return None
    prompt = _number(counts.get("prompt_token_count")) + _number(counts.get("tool_use_prompt_token_count"))
    thoughts = _number(counts.get("thoughts_token_count"))
    completion = _number(counts.get("candidates_token_count")) + thoughts
    usage: JsonObject = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": _number(counts.get("total_token_count")) or prompt + completion,
    }
    if counts.get("cached_content_token_count"):
        usage["prompt_tokens_details"] = {"cached_tokens": counts["cached_content_token_count"]}
    if thoughts:
        usage["completion_tokens_details"] = {"reasoning_tokens": thoughts}
    return usage


def _response_format(value: Json) -> JsonObject:
    kind = response_format_kind(value)
    if kind not in (JSON_OBJECT, JSON_SCHEMA):
        return {}
    native: JsonObject = {"response_mime_type": "application/json"}
    wrapper = value.get("json_schema") if is_object(value) else None
    if kind == JSON_SCHEMA and is_object(wrapper):
        native["response_json_schema"] = wrapper.get("schema")
    return native


def _candidate(body: JsonObject) -> JsonObject:
    candidates = body.get("candidates")
    first = candidates[0] if is_list(candidates) and candidates else None
    return first if is_object(first) else {}


def _parts(body: JsonObject) -> list[JsonObject]:
    content = _candidate(body).get("content")
    parts = content.get("parts") if is_object(content) else None
    return [part for part in parts if is_object(part)] if is_list(parts) else []


def _texts(parts: list[JsonObject], *, thought: bool) -> str:
    return "".join(
        text for part in parts if bool(part.get("thought")) is thought and isinstance(text := part.get("text"), str)
    )


def _calls(parts: list[JsonObject]) -> list[JsonObject]:
    return [part for part in parts if is_object(part.get("function_call"))]


def _tool_call(part: JsonObject, number: int) -> JsonObject:
    called = part["function_call"]
    assert is_object(called)
    arguments = called.get("args")
    function: JsonObject = {
        "name": called.get("name"),
        "arguments": strict_json.compact({} if arguments is None else arguments),
    }
    call: JsonObject = {"id": called.get("id") or f"call_{number}", "type": "function", "function": function}
    if part.get("thought_signature"):
        call["signature"] = part["thought_signature"]
    return call


def _finish_reason(body: JsonObject, *, calls: bool) -> str | None:
    if _block_reason(body):
        return "content_filter"
    reason = _candidate(body).get("finish_reason")
    if not isinstance(reason, str):
        return None
    if calls and reason == "STOP":
        return "tool_calls"
    return _FINISH_REASONS.get(reason, reason.lower())


def _block_reason(body: JsonObject) -> str:
    feedback = body.get("prompt_feedback")
    if not is_object(feedback):
        return ""
    reason = feedback.get("block_reason_message") or feedback.get("block_reason")
    return reason if isinstance(reason, str) else ""


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
