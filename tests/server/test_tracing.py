"""Turns in traces: OpenTelemetry through VibeTavern's instrumenter."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tavernkit.models.script import usage
from tavernkit.server import upstreams
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
