"""Sends spans to a collector, if configured."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import suppress
from typing import Any

from tavernkit.errors import ConfigError
from tavernkit.server.config import ServerConfig

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
