"""Reading what text-completion backends answer: whole replies and the events of their streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tavernkit.silly_tavern.providers.text.requests import KOBOLD, NOVELAI, require_backend
from tavernkit.text.js_values import json_stringify
from tavernkit.values import Json, JsonObject, is_list, is_object

StopReason = Literal["stop", "length", "content_filter", "unknown"]
"""Why a reply ended, in OpenAI's words."""

STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "word": "stop",
    "length": "length",
    "limit": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
"""The backends' words for why a reply ended."""

LINE_STREAMS = ("ollama",)
"""Backends that stream one JSON object per line; all others stream server-sent events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece:
    """A piece of a reply, or all of it.

    A stream is complete if one of its pieces has a ``finish_reason``; one that ends before was cut. With an
    ``error``, the backend has failed, whatever the HTTP status was.
    """

    text: str = ""
    reasoning: str = ""
    finish_reason: StopReason | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str = ""


def read_text_event(backend: str, event: Json) -> TextPiece:
    """Read one event of a stream: the JSON of a server-sent event, or of a line (:data:`LINE_STREAMS`).

    Args:
        backend: One of :data:`~tavernkit.silly_tavern.providers.TEXT_BACKENDS`.
        event: The event, parsed. ``[DONE]``, which ends some streams, is no event.

    Raises:
        ConfigError: The backend is not known.
    """
    require_backend(backend)
    if not is_object(event):
        return TextPiece(error=f"{backend}: not an object: {_shown(event)}")
    error = _error(event)
    if error:
        return TextPiece(error=f"{backend}: {error}")
    return READERS.get(backend, _read_openai)(event)


def read_text_reply(backend: str, body: Json) -> TextPiece:
    """Read a whole reply. One that has neither text nor reasoning in it is an error, not an empty reply.

    Args:
        backend: One of :data:`~tavernkit.silly_tavern.providers.TEXT_BACKENDS`.
        body: The body of the answer, parsed.

    Raises:
        ConfigError: The backend is not known.
    """
    piece = read_text_event(backend, body)
    if piece.error or not is_object(body):
        return piece
    if not piece.reasoning and not _says(backend, body):
        return TextPiece(error=f"{backend}: no text in the reply: {_shown(body)}")
    # A backend that sends a whole reply has ended it, whether it says why or not.
    return piece if piece.finish_reason else replace(piece, finish_reason="unknown")


def _read_openai(event: JsonObject) -> TextPiece:
    choice = _first(event.get("choices"))
    found = choice.get("delta") or choice.get("message")
    message = found if is_object(found) else {}
    usage = event.get("usage")
    counts = usage if is_object(usage) else {}
    return TextPiece(
        text=_text(choice.get("text")) or _text(message.get("content")),
        reasoning=_reasoning(choice) or _reasoning(message),
        finish_reason=_reason(choice.get("finish_reason")),
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
    )


def _reasoning(owner: JsonObject) -> str:
    return _text(owner.get("reasoning")) or _text(owner.get("reasoning_content"))


def _read_llamacpp(event: JsonObject) -> TextPiece:
    reason: StopReason | None = None
    if event.get("stop") is True:
        # Older servers have a switch for each reason instead of its name.
        limited = event.get("stop_type") == "limit" or event.get("stopped_limit") is True
        reason = "length" if limited else "stop"
    return TextPiece(
        text=_text(event.get("content")),
        reasoning=_text(event.get("reasoning_content")),
        finish_reason=reason,
        prompt_tokens=_count(event.get("tokens_evaluated")),
        completion_tokens=_count(event.get("tokens_predicted")),
    )


def _read_ollama(event: JsonObject) -> TextPiece:
    return TextPiece(
        text=_text(event.get("response")),
        reasoning=_text(event.get("thinking")),
        finish_reason=(_reason(event.get("done_reason")) or "stop") if event.get("done") is True else None,
        prompt_tokens=_count(event.get("prompt_eval_count")),
        completion_tokens=_count(event.get("eval_count")),
    )


def _read_kobold(event: JsonObject) -> TextPiece:
    result = _first(event.get("results"))
    return TextPiece(
        text=_text(event.get("token")) or _text(result.get("text")),
        finish_reason=_reason(event.get("finish_reason")) or _reason(result.get("finish_reason")),
        prompt_tokens=_count(result.get("prompt_tokens")),
        completion_tokens=_count(result.get("completion_tokens")),
    )


def _read_novelai(event: JsonObject) -> TextPiece:
    return TextPiece(
        text=_text(event.get("token")) or _text(event.get("output")),
        finish_reason="unknown" if event.get("final") is True else None,
    )


READERS: Mapping[str, Callable[[JsonObject], TextPiece]] = {
    "llamacpp": _read_llamacpp,
    "ollama": _read_ollama,
    KOBOLD: _read_kobold,
    NOVELAI: _read_novelai,
}
"""Backends with a form of their own; all others answer as OpenAI does."""

TEXT_KEYS: Mapping[str, str] = {"llamacpp": "content", "ollama": "response", NOVELAI: "output"}
"""Where the text of a whole reply is, in those forms."""


def _says(backend: str, body: JsonObject) -> bool:
    """Return True if there is a text in a whole reply, be it an empty one."""
    if backend in TEXT_KEYS:
        return isinstance(body.get(TEXT_KEYS[backend]), str)
    if backend == KOBOLD:
        return isinstance(_first(body.get("results")).get("text"), str)
    choice = _first(body.get("choices"))
    message = choice.get("message")
    return isinstance(choice.get("text"), str) or (is_object(message) and isinstance(message.get("content"), str))


def _error(event: JsonObject) -> str:
    """The error that an answer reports, if it does, in the words of the backend."""
    error = event.get("error")
    if is_object(error):
        return _text(error.get("message")) or _shown(error)
    if error:
        return _text(error) or _shown(error)
    detail = event.get("detail")
    if is_object(detail):
        return _text(detail.get("msg")) or _shown(detail)
    if detail:
        return _text(detail) or _shown(detail)
    if event.get("object") == "error" or "statusCode" in event:
        return _text(event.get("message")) or _shown(event)
    return ""


def _first(items: Json) -> JsonObject:
    return items[0] if is_list(items) and items and is_object(items[0]) else {}


def _reason(value: Json) -> StopReason | None:
    return STOP_REASONS.get(value, "unknown") if isinstance(value, str) and value else None


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _shown(value: Json) -> str:
    text = json_stringify(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
