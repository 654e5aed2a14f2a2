"""Translates between OpenAI's shape and Anthropic's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tavernkit.dialects import convert
from tavernkit.errors import Warn
from tavernkit.text import strict_json
from tavernkit.values import Json, JsonObject, is_list, is_object
from tavernkit.vibe_tavern.transports.base import ChatChunk, ToolCallDelta
from tavernkit.vibe_tavern.transports.native_options import native_options

DEFAULT_MAX_TOKENS: Final = 4096
"""Anthropic wants a limit in every request; this one is used when the caller sets none."""

DEFAULT_TIMEOUT: Final = 600.0
"""Seconds; Anthropic's own default."""

PASSED: Final = frozenset(
    ("temperature", "top_p", "top_k", "thinking", "output_config", "metadata", "service_tier", "container", "betas")
)
RENAMED: Final = {"max_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "stop": "stop_sequences"}
TRANSLATED: Final = frozenset(
    ("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "user")
)

_FINISH_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def native_request(request: JsonObject, warn: Warn) -> JsonObject:
    """Translate a request; options that Anthropic does not know are left out, with a warning."""
    tools, messages = request.get("tools"), request.get("messages")
    parallel = request.get("parallel_tool_calls")
    payload = convert(
        [message for message in messages if is_object(message)] if is_list(messages) else [],
        "anthropic",
        strict_alternation=True,
        tools=[tool for tool in tools if is_object(tool)] if is_list(tools) else None,
        tool_choice=request.get("tool_choice"),
        parallel_tool_calls=parallel if isinstance(parallel, bool) else None,
        warn=warn,
    )
    if not payload.get("system"):
        payload.pop("system", None)
    native: JsonObject = {"model": request.get("model"), "max_tokens": DEFAULT_MAX_TOKENS, **payload}
    native |= native_options(
        request, passed=PASSED, renamed=RENAMED, translated=TRANSLATED, name="Anthropic", warn=warn
    )
    stops = native.get("stop_sequences")
    if isinstance(stops, str):
        native["stop_sequences"] = [stops]
    if isinstance(request.get("user"), str):
        native.setdefault("metadata", {"user_id": request["user"]})
    return native


def chat_completion(body: JsonObject) -> JsonObject:
    """Translate an answer."""
    blocks = [block for block in _list(body.get("content")) if is_object(block)]
    message: JsonObject = {"role": "assistant", "content": _joined(blocks, "text", "text")}
    calls = [_tool_call(block) for block in blocks if block.get("type") == "tool_use"]
    if calls:
        message["tool_calls"] = [*calls]
    thinking = [block for block in blocks if block.get("type") in ("thinking", "redacted_thinking")]
    if thinking:
        message["thinking"] = [*thinking]
        message["reasoning_content"] = _joined(blocks, "thinking", "thinking")
    choice: JsonObject = {"index": 0, "message": message, "finish_reason": finish_reason(body.get("stop_reason"))}
    return {
        "id": body.get("id"),
        "object": "chat.completion",
        "model": body.get("model"),
        "choices": [choice],
        "usage": usage_of(body.get("usage")),
    }


@dataclass(slots=True)
class StreamState:
    """What the events of a stream tell in parts: the counts, and which of its blocks are tool calls."""

    usage: JsonObject = field(default_factory=dict[str, Json])
    calls: dict[int, int] = field(default_factory=dict[int, int])
    """Places of the calls by the numbers of their blocks."""
    without_arguments: set[int] = field(default_factory=set[int])


def chunk_of(event: JsonObject, state: StreamState) -> ChatChunk:
    """Translate one event of a stream."""
    kind = event.get("type")
    if kind == "message_start":
        message = event.get("message")
        counts = message.get("usage") if is_object(message) else None
        state.usage.update(counts if is_object(counts) else {})
        return ChatChunk()
    if kind in ("content_block_start", "content_block_stop"):
        return _block_edge(event, state)
    delta = event.get("delta")
    if not is_object(delta):
        return ChatChunk()
    if kind == "content_block_delta":
        return ChatChunk(
            text=_text(delta.get("text")),
            reasoning=_text(delta.get("thinking")),
            tool_calls=_arguments(event, _text(delta.get("partial_json")), state),
        )
    if kind == "message_delta":
        counts = event.get("usage")
        state.usage.update(counts if is_object(counts) else {})
        return ChatChunk(finish_reason=finish_reason(delta.get("stop_reason")), usage=usage_of(state.usage))
    return ChatChunk()


def _block_edge(event: JsonObject, state: StreamState) -> ChatChunk:
    """A call is told when its block begins; one that had no arguments by its end has empty ones."""
    number, block = _number(event.get("index")), event.get("content_block")
    if event.get("type") == "content_block_stop":
        return ChatChunk(tool_calls=_arguments(event, "{}", state) if number in state.without_arguments else ())
    if not is_object(block) or block.get("type") != "tool_use":
        return ChatChunk()
    place = state.calls[number] = len(state.calls)
    given = block.get("input")
    if not given:
        state.without_arguments.add(number)
    delta = ToolCallDelta(
        place,
        id=_text(block.get("id")) or None,
        name=_text(block.get("name")),
        arguments=strict_json.compact(given) if given else "",
    )
    return ChatChunk(tool_calls=(delta,))


def _arguments(event: JsonObject, fragment: str, state: StreamState) -> tuple[ToolCallDelta, ...]:
    number = _number(event.get("index"))
    if not fragment or number not in state.calls:
        return ()
    state.without_arguments.discard(number)
    return (ToolCallDelta(state.calls[number], arguments=fragment),)


def finish_reason(reason: Json) -> str | None:
    """Translate why an answer ended; an unknown reason stays as it is."""
    return _FINISH_REASONS.get(reason, reason) if isinstance(reason, str) else None


def usage_of(counts: Json) -> JsonObject | None:
    """Translate token counts; what was read from or written to the cache is part of the prompt."""
    if not is_object(counts):
        return None
    cached, written = _number(counts.get("cache_read_input_tokens")), _number(counts.get("cache_creation_input_tokens"))
    prompt = _number(counts.get("input_tokens")) + cached + written
    completion = _number(counts.get("output_tokens"))
    usage: JsonObject = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if cached:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    return usage


def _tool_call(block: JsonObject) -> JsonObject:
    arguments = block.get("input")
    function: JsonObject = {
        "name": block.get("name"),
        "arguments": strict_json.compact({} if arguments is None else arguments),
    }
    return {"id": block.get("id"), "type": "function", "function": function}


def _joined(blocks: list[JsonObject], kind: str, key: str) -> str:
    return "".join(_text(block.get(key)) for block in blocks if block.get("type") == kind)


def _list(value: Json) -> list[Json]:
    return value if is_list(value) else []


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
