"""Reads the bodies of OpenAI's chat completions, tolerantly."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit.values import Json, JsonObject, is_list, is_mapping, is_object, is_sequence, thaw_object
from tavernkit.vibe_tavern.errors import HTTPError
from tavernkit.vibe_tavern.transports.base import ChatChunk
from tavernkit.vibe_tavern.transports.tool_call_deltas import read_deltas


def first_choice(body: Mapping[str, object]) -> JsonObject:
    """The first choice, or an empty one."""
    choices = body.get("choices")
    first = choices[0] if is_sequence(choices) and choices else None
    return thaw_object(first) if is_mapping(first) else {}


def assistant_message(body: Mapping[str, object]) -> JsonObject:
    """The assistant's message, or an empty one; ``choices[0].text`` of text servers is taken as its content."""
    choice = first_choice(body)
    message = choice.get("message")
    if is_object(message):
        return message
    text = choice.get("text")
    return {"role": "assistant", "content": text} if isinstance(text, str) else {}


def finish_reason(body: Mapping[str, object]) -> str | None:
    """Why the answer ended."""
    reason = first_choice(body).get("finish_reason")
    return reason if isinstance(reason, str) else None


def usage(body: Mapping[str, object]) -> JsonObject | None:
    """The token counts that the provider reports, as it reports them."""
    counts = body.get("usage")
    return thaw_object(counts) if is_mapping(counts) else None


def content_text(content: object) -> str:
    """The text of a message's content: text, a part, or a list of parts (other parts than text are left out)."""
    if isinstance(content, str):
        return content
    if is_mapping(content):
        text = content.get("text")
        return text if isinstance(text, str) else ""
    if is_sequence(content):
        return "".join(content_text(part) for part in content)
    return ""


def chunk_of(event: JsonObject) -> ChatChunk:
    """Read one event of a stream. An event that holds nothing gives an empty chunk."""
    choice = first_choice(event)
    delta = choice.get("delta")
    if not is_object(delta):
        message = choice.get("message")
        delta = message if is_object(message) else {"content": choice.get("text")}
    reason = choice.get("finish_reason")
    logprobs = choice.get("logprobs")
    return ChatChunk(
        text=content_text(delta.get("content")),
        reasoning=_text(delta.get("reasoning_content")) or _text(delta.get("reasoning")),
        refusal=_text(delta.get("refusal")),
        finish_reason=reason if isinstance(reason, str) else None,
        usage=usage(event),
        logprobs=logprobs if is_object(logprobs) else None,
        tool_calls=read_deltas(delta.get("tool_calls")),
    )


def http_error(status: int, body: Json, *, raw_body: str = "", headers: Mapping[str, str] | None = None) -> HTTPError:
    """Make the error for an error status; its message is what the provider says, wherever it says it."""
    return HTTPError(error_text(body) or f"HTTP {status}", status=status, headers=headers, body=body, raw_body=raw_body)


def error_text(body: Json) -> str:
    """What an error body says: ``error.message``, else ``error``, else ``message``, else ``detail``."""
    if is_list(body) and body:
        body = body[0]
    if not is_object(body):
        return ""
    error = body.get("error")
    inner = error.get("message") if is_object(error) else error
    return next(
        (text for text in (inner, body.get("message"), body.get("detail")) if isinstance(text, str) and text), ""
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
