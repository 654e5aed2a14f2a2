"""Turns in traces: OpenTelemetry through VibeTavern's instrumenter."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tavernkit.errors import ConfigError
from tavernkit.models._scripted import usage
from tavernkit.server import ServerConfig
from tavernkit.server.logs import EXPORTER, set_up_telemetry
from tavernkit.server.upstreams import upstreams
from tavernkit.testing import ScriptedModel, answer, failure, streamed
from tavernkit.vibe_tavern import OpenTelemetryInstrumenter
from tests.server.conftest import StartApp

CHAT = "/v1/chat/completions"
HELLO = {"model": "aria", "messages": [{"role": "user", "content": "a word of note"}], "user": "s"}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Takes the spans of servers that are started with telemetry."""
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    monkeypatch.setattr(
        upstreams, "OpenTelemetryInstrumenter", lambda: OpenTelemetryInstrumenter(tracer_provider=provider)
    )
    return made


def loose(value: object) -> Any:
    return value


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_is_a_span_with_its_requests(
    start: StartApp, exporter: InMemorySpanExporter, stream: bool
) -> None:
    model = ScriptedModel(failure(503), answer("a reply of note", usage=usage(7, 3)))
    scripted = {"scripted": {"dialect": "scripted", "model": "big"}}
    async with start(model, telemetry=True, upstreams=scripted) as client:
        client.service.upstreams.get()._backoff = lambda _: 0.0
        assert (await client.post(CHAT, json={**HELLO, "stream": stream})).status_code == 200
    refused, answered, turn = exporter.get_finished_spans()
    assert [refused.name, answered.name, turn.name] == ["chat big", "chat big", "invoke_agent Aria"]
    assert {loose(span).parent.span_id for span in (refused, answered)} == {loose(turn).context.span_id}
    assert not refused.status.is_ok
    attributes = dict(answered.attributes or {})
    assert attributes["gen_ai.usage.output_tokens"] == 3
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    told = "".join(span.to_json() for span in exporter.get_finished_spans())
    assert "of note" not in told


async def test_turns_at_once_have_spans_of_their_own(start: StartApp, exporter: InMemorySpanExporter) -> None:
    async with start(ScriptedModel(streamed("one"), streamed("two")), telemetry=True) as client:
        posts = [client.post(CHAT, json={**HELLO, "user": name, "stream": True}) for name in "ab"]
        assert [reply.status_code for reply in await asyncio.gather(*posts)] == [200, 200]
    spans = exporter.get_finished_spans()
    turns = {loose(span).context.span_id for span in spans if span.name.startswith("invoke_agent")}
    parents = {loose(span).parent.span_id for span in spans if span.name.startswith("chat")}
    assert len(turns) == 2
    assert parents == turns


async def test_nothing_is_traced_unless_it_is_asked_for(start: StartApp, exporter: InMemorySpanExporter) -> None:
    async with start(ScriptedModel("one")) as client:
        await client.post(CHAT, json=HELLO)
    assert exporter.get_finished_spans() == ()


class Collector(BaseHTTPRequestHandler):
    """Takes what an exporter posts."""

    posted: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        self.posted.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class chose the name
        """Say nothing."""


SERVER = """
import asyncio, os, signal, sys, httpx
from tavernkit.server import ServerConfig, create_app
from tavernkit.server.logs import set_up_telemetry

async def main():
    config = ServerConfig(data=sys.argv[1], telemetry=True, telemetry_endpoint=sys.argv[2])
    set_up_telemetry(config)
    app = create_app(config, own_process=True)
    async with app.router.lifespan_context(app):
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")
        body = {"model": "aria", "messages": [{"role": "user", "content": "a secret word"}]}
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
    os.kill(os.getpid(), signal.SIGTERM)  # as a worker process ends

asyncio.run(main())
"""


def test_spans_reach_a_collector(tmp_path: Path) -> None:
    """In a process of its own: OpenTelemetry is set up once a process."""
    pytest.importorskip(EXPORTER)
    Collector.posted.clear()
    collector = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{collector.server_port}/"
        ended = subprocess.run([sys.executable, "-c", SERVER, str(tmp_path), address], check=False, timeout=60)
        assert ended.returncode == -signal.SIGTERM
    finally:
        collector.shutdown()
        collector.server_close()
    sent = b"".join(body for path, body in Collector.posted if path == "/v1/traces")
    assert b"invoke_agent Aria" in sent
    assert b"tavernkit" in sent
    assert b"secret" not in sent


def test_a_missing_exporter_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.server.logs.EXPORTER", "tavernkit.no_such_exporter")
    config = ServerConfig(telemetry=True, telemetry_endpoint="http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="pip install"):
        set_up_telemetry(config)
