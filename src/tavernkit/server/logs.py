"""Structured logs, one JSON object per line, and spans for a collector."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from tavernkit._values import visible
from tavernkit.errors import ConfigError
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
    """Writes records as lines for people."""

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


SERVICE_NAME = "tavernkit"
FLUSH_SECONDS = 5.0
"""How long a server that stops waits for its collector."""
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


def set_up_telemetry(config: ServerConfig) -> None:
    """Send spans to ``telemetry_endpoint``; without it, OpenTelemetry is configured elsewhere.

    Raises:
        ConfigError: The exporter is not installed, or the endpoint is not an address.
    """
    if not config.telemetry or config.telemetry_endpoint is None:
        return
    if not config.telemetry_endpoint.startswith(("http://", "https://")):
        message = f"telemetry_endpoint must start with http:// or https://, not {config.telemetry_endpoint!r}"
        raise ConfigError(message, code="INVALID_SETTING")
    try:
        trace: Any = importlib.import_module("opentelemetry.trace")
        sdk: Any = importlib.import_module("opentelemetry.sdk.trace")
        export: Any = importlib.import_module("opentelemetry.sdk.trace.export")
        resources: Any = importlib.import_module("opentelemetry.sdk.resources")
        otlp: Any = importlib.import_module(EXPORTER)
    except ModuleNotFoundError as error:
        message = "telemetry_endpoint needs: pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
        raise ConfigError(message, code="EXTRA_MISSING") from error
    endpoint = f"{config.telemetry_endpoint.rstrip('/')}/v1/traces"
    provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": SERVICE_NAME}))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter(endpoint=endpoint)))
    trace.set_tracer_provider(provider)


async def flush_telemetry(config: ServerConfig) -> None:
    """Send the spans that are still waiting: a worker process ends by a signal, without clearing up."""
    if not config.telemetry or config.telemetry_endpoint is None:
        return
    trace: Any = importlib.import_module("opentelemetry.trace")
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(trace.get_tracer_provider().force_flush), FLUSH_SECONDS)
