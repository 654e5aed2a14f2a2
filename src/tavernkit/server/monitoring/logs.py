"""Structured logs: one JSON object per line, with the ids of the request and the session."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

from tavernkit._values import visible
from tavernkit.server.config import ServerConfig

request_id: ContextVar[str | None] = ContextVar("tavernkit_request_id", default=None)
session_id: ContextVar[str | None] = ContextVar("tavernkit_session_id", default=None)

FIELDS = "fields"
"""The attribute of a record with additional fields."""


class JsonFormatter(logging.Formatter):
    """Writes records as JSON. Prompts, replies and keys are never part of a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_ids(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=True, default=str)


class TextFormatter(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        fields: dict[str, object] = {**_ids(), **getattr(record, FIELDS, {})}
        rest = " ".join(f"{key}={_word(value)}" for key, value in fields.items())
        message = visible(record.getMessage()).replace("\n", "\\n")  # a warning may quote a card
        line = f"{record.levelname.lower():7} {message} {rest}".rstrip()
        return f"{line}\n{visible(self.formatException(record.exc_info))}" if record.exc_info else line


def set_up_logs(config: ServerConfig) -> None:
    """Send the service's logs to stderr, without other libraries' requests or headers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if config.log_format == "json" else TextFormatter())
    for name in ("tavernkit", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(config.log_level.upper())
        logger.propagate = False
    logging.getLogger("uvicorn.access").disabled = True
    # It logs every invalid upload in another format, and the client gets that error anyway.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)


def _word(value: object) -> str:
    """Return a value as one word: clients choose ids, which must not look like other lines or fields."""
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)


def _ids() -> dict[str, object]:
    pairs = (("request_id", request_id.get()), ("session_id", session_id.get()))
    return {name: value for name, value in pairs if value is not None}
