"""Reads what OpenAI-compatible servers send: chat completions and text completions, tolerantly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tavernkit._text import strict_json
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_list,
    is_mapping,
    is_object,
    is_sequence,
    thaw_object,
)
from tavernkit.models._readers import ReaderState, number_of, provider_error, reports_error, text_of
from tavernkit.models._reply import FinishReason, ReplyPiece, ToolCallPiece, Usage

CARRIED_KEYS: Final = ("signature", "thinking", "reasoning_details")
"""Fields that providers add to a message and expect back with its tool calls."""

_CALL_KEYS: Final = frozenset(("index", "id", "type", "function"))
_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "error": "error",
}


class OpenAIReader(ReaderState):
    """Reads one reply."""

    def read(self, event: JsonObject) -> ReplyPiece:
        """Translate a body or an event of a stream."""
        if reports_error(event):
            raise provider_error(event)
        choice = first_choice(event)
        delta = _delta(choice)
        reason = choice.get("finish_reason")
        piece = ReplyPiece(
            text=content_text(delta.get("content")),
            reasoning=text_of(delta.get("reasoning_content")) or text_of(delta.get("reasoning")),
            refusal=text_of(delta.get("refusal")),
            tool_calls=_call_pieces(delta.get("tool_calls")),
            finish_reason=_FINISH_REASONS.get(reason, "unknown") if isinstance(reason, str) else None,
            usage=_usage(event.get("usage"), event.get("timings")),
            logprobs=_object(choice.get("logprobs")),
            model=text_of(event.get("model")),
            extra=_carried_fields(delta),
            raw=freeze_object(event) if reason or event.get("usage") or "message" in choice else None,
        )
        self.last = event
        # Older servers send function_call instead of tool_calls.
        self.said = self.said or piece.spoken or delta.get("content") is not None or bool(delta.get("function_call"))
        self.ended = self.ended or isinstance(reason, str)
        self.reason = reason if isinstance(reason, str) else self.reason
        return piece


def first_choice(body: Mapping[str, object]) -> JsonObject:
    """Return the first choice, or an empty one."""
    choices = body.get("choices")
    first = choices[0] if is_sequence(choices) and choices else None
    return thaw_object(first) if is_mapping(first) else {}


def content_text(content: object) -> str:
    """Return the text of a message's content: text, a part, or a list of parts (only those with text)."""
    if isinstance(content, str):
        return content
    if is_mapping(content):
        text = content.get("text")
        return text if isinstance(text, str) else ""
    if is_sequence(content):
        return "".join(content_text(part) for part in content)
    return ""


def _delta(choice: JsonObject) -> JsonObject:
    for key in ("delta", "message"):
        part = choice.get(key)
        if is_object(part):
            return part
    return {"content": choice.get("text")}


def _usage(counts: Json, timings: Json = None) -> Usage | None:
    if not is_object(counts):
        return None
    prompt, completion = counts.get("prompt_tokens_details"), counts.get("completion_tokens_details")
    return Usage(
        input_tokens=number_of(counts.get("prompt_tokens")),
        output_tokens=number_of(counts.get("completion_tokens")),
        # DeepSeek reports cached tokens next to the others, llama.cpp with its timings.
        cached_tokens=number_of(prompt.get("cached_tokens") if is_object(prompt) else None)
        or number_of(counts.get("prompt_cache_hit_tokens"))
        or number_of(timings.get("cache_n") if is_object(timings) else None),
        reasoning_tokens=number_of(completion.get("reasoning_tokens") if is_object(completion) else None),
        reported=True,
    )


def _call_pieces(calls: Json) -> tuple[ToolCallPiece, ...]:
    listed = calls if is_list(calls) else [calls] if is_object(calls) else []
    return tuple(_call_piece(at, call) for at, call in enumerate(listed) if is_object(call))


def _call_piece(at: int, call: JsonObject) -> ToolCallPiece:
    function = call.get("function")
    function = function if is_object(function) else {}
    index, arguments = call.get("index"), function.get("arguments")
    extra = {key: value for key, value in call.items() if key not in _CALL_KEYS}
    return ToolCallPiece(
        index=index if isinstance(index, int) else at,
        id=text_of(call.get("id")) or None,
        name=text_of(function.get("name")) or None,
        arguments=arguments if isinstance(arguments, str) else strict_json.compact(arguments) if arguments else "",
        extra=freeze_object(extra) if extra else None,
    )


def _carried_fields(delta: JsonObject) -> FrozenObject:
    found = {key: delta[key] for key in CARRIED_KEYS if delta.get(key)}
    return freeze_object(found) if found else EMPTY_OBJECT


def _object(value: Json) -> FrozenObject | None:
    return freeze_object(value) if is_object(value) else None
