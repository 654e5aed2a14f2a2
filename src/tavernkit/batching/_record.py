"""The record of one combination, and how it is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from tavernkit._values import Json, JsonObject, is_object
from tavernkit.batching._tasks import SCHEMA_VERSION
from tavernkit.errors import ConfigError
from tavernkit.models._request import Request

BatchFormat: TypeAlias = Literal["jsonl", "parquet", "openai-batch", "chat"]
"""How records are written: whole (``jsonl``, ``parquet``), as requests, or as conversations for training."""
FORMATS: Final[tuple[BatchFormat, ...]] = get_args(BatchFormat)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """The prompt of one combination of a grid, or why there is none."""

    key: str
    """A hash of all inputs, and of TavernKit's version."""
    inputs: JsonObject
    """The inputs by name: ``platform``, ``card``, ``preset``, ``books``, ``persona``, ``chat``, ``message``, …"""
    messages: list[JsonObject] | None = None
    """The prompt, in OpenAI's shape; a text model has ``prompt`` instead."""
    prompt: str | None = None
    """The prompt text for a text model."""
    tokens: int | None = None
    """Tokens of the prompt."""
    fingerprint: str | None = None
    """SHA-256 of what would be sent: equal prompts have equal fingerprints."""
    omissions: Sequence[JsonObject] = ()
    """What did not fit or did not apply, and why; at most 100."""
    omitted: int = 0
    """How many omissions there are in all."""
    warnings: Sequence[str] = ()
    """Warnings of the build."""
    error: JsonObject | None = None
    """Why there is no prompt or no reply: ``type`` and ``message``."""
    model: str | None = None
    """The model that was asked; this and the following fields only with ``generate``."""
    reply: JsonObject | None = None
    """The reply as a message in OpenAI's shape."""
    finish_reason: str | None = None
    """Why the model stopped, such as ``stop`` or ``length``."""
    usage: JsonObject | None = None
    """Tokens of the request and its reply."""
    latency_ms: float | None = None
    """Milliseconds from request to reply."""

    def to_dict(self) -> JsonObject:
        """Return the record as JSON: version 1 of the schema in ``docs/guides/batch.md``."""
        record: JsonObject = {
            "key": self.key,
            "schema": SCHEMA_VERSION,
            "inputs": self.inputs,
            "messages": None if self.messages is None else [*self.messages],
            "prompt": self.prompt,
            "tokens": self.tokens,
            "fingerprint": self.fingerprint,
            "omitted": self.omitted,
            "omissions": [*self.omissions],
            "warnings": [*self.warnings],
            "error": self.error,
        }
        if self.model is not None:
            record |= {
                "model": self.model,
                "reply": self.reply,
                "finish_reason": self.finish_reason,
                "usage": self.usage,
                "latency_ms": self.latency_ms,
            }
        return record


Encoder: TypeAlias = Callable[[BatchRecord, Request | None], JsonObject]


def _batch_request(record: BatchRecord, request: Request | None) -> JsonObject:
    """Return a line of the file for batch endpoints; they return ``custom_id`` with the reply."""
    if request is None:
        raise ConfigError("a record without a prompt is not a request")
    path = "/v1/chat/completions" if request.prompt is None else "/v1/completions"
    return {"custom_id": record.key, "method": "POST", "url": path, "body": request.body(warn=lambda _: None)}


def _conversation(record: BatchRecord, request: Request | None) -> JsonObject:
    """Return a row for training: the messages of the prompt, and the reply if there is one.

    All rows have the same fields of the same types, in every file, because readers take the types from the first.
    """
    del request
    reply = [record.reply] if record.reply is not None else []
    if record.messages is None:
        completion = "".join(_text(each.get("content")) for each in reply)
        return {"key": record.key, "prompt": record.prompt or "", "completion": completion}
    return {
        "key": record.key,
        "messages": [
            {"role": str(each.get("role")), "content": _text(each.get("content"))}
            for each in (*record.messages, *reply)
        ],
    }


def _text(content: Json) -> str:
    """Return the text of a message, without pictures and other parts."""
    if isinstance(content, list):
        return "\n\n".join(_text(part.get("text")) for part in content if is_object(part) and part.get("text"))
    return content if isinstance(content, str) else ""


_ENCODERS: Final[Mapping[str, Encoder]] = {"openai-batch": _batch_request, "chat": _conversation}


def encode(record: BatchRecord, request: Request | None, form: BatchFormat) -> tuple[bytes, bool]:
    """Return a record as a line, and True if it goes to the errors: some formats cannot represent failures."""
    encoder = _ENCODERS.get(form)
    failed = encoder is not None and record.error is not None
    value = record.to_dict() if encoder is None or failed else encoder(record, request)
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n", failed
    except UnicodeEncodeError:  # a lone surrogate, which JSON can escape but UTF-8 cannot encode
        return json.dumps(value, separators=(",", ":")).encode() + b"\n", failed
