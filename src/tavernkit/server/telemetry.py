"""Sends spans to a collector, if configured."""

from __future__ import annotations

import importlib
from typing import Any

from tavernkit.errors import ConfigError
from tavernkit.server.config import ServerConfig

SERVICE_NAME = "tavernkit"
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


def set_up_telemetry(config: ServerConfig) -> None:
    """Send spans to ``telemetry_endpoint``; without it, OpenTelemetry is configured elsewhere.

    Raises:
        ConfigError: The exporter is not installed.
    """
    if not config.telemetry or config.telemetry_endpoint is None:
        return
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
