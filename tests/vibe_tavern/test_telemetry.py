"""Spans by the GenAI conventions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tavernkit.models import HTTPError
from tavernkit.testing import Answer, Hang, ScriptedModel, calls, failure, streamed, tool_call, usage
from tavernkit.vibe_tavern import (
    BlockingRunner,
    FunctionToolset,
    OpenTelemetryInstrumenter,
    PromptRunner,
    ToolLoopRunner,
)
from tests.vibe_tavern.support import config, loose


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def telemetry(exporter: InMemorySpanExporter) -> OpenTelemetryInstrumenter:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return OpenTelemetryInstrumenter(tracer_provider=provider)


def attributes(span: Any) -> dict[str, Any]:
    return dict(span.attributes)


async def test_run_requests_and_tools_are_spans(
    exporter: InMemorySpanExporter, telemetry: OpenTelemetryInstrumenter
) -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = ScriptedModel(
        Answer(tool_calls=[tool_call("add", {"a": 1, "b": 2})], usage=usage(10, 4)),
        calls(tool_call("add", {}, id="c2")),
        "It is 3.",
    )
    runner = PromptRunner(telemetry.model(model, provider="openai"))
    built = config(llm_options_defaults={"temperature": 0.5})
    with telemetry.run("calculator"):
        await ToolLoopRunner(runner, built, tools=FunctionToolset([add])).run("1 + 2?", on_event=telemetry.on_event)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    names = [span.name for span in exporter.get_finished_spans()]
    assert names == [
        "chat test-model",
        "execute_tool add",
        "chat test-model",
        "execute_tool add",
        "chat test-model",
        "invoke_agent calculator",
    ]
    root = spans["invoke_agent calculator"]
    parents = [loose(span).parent.span_id for span in exporter.get_finished_spans()[:-1]]
    assert set(parents) == {loose(root).context.span_id}
    first = attributes(exporter.get_finished_spans()[0])
    assert first["gen_ai.operation.name"] == "chat"
    assert first["gen_ai.provider.name"] == "openai"
    assert first["gen_ai.request.model"] == "test-model"
    assert first["gen_ai.request.temperature"] == 0.5
    assert first["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert (first["gen_ai.usage.input_tokens"], first["gen_ai.usage.output_tokens"]) == (10, 4)
    good, bad = (span for span in exporter.get_finished_spans() if span.name == "execute_tool add")
    assert attributes(good)["gen_ai.tool.call.id"] == "call_1"
    assert good.status.status_code is StatusCode.UNSET
    assert attributes(bad)["error.type"] == "ARGUMENT_ERROR"
    assert bad.status.status_code is StatusCode.ERROR


async def test_streams_are_spans_as_long_as_they_last(
    exporter: InMemorySpanExporter, telemetry: OpenTelemetryInstrumenter
) -> None:
    runner = PromptRunner(telemetry.model(ScriptedModel(streamed("a", "b", usage=usage(1, 2)))))
    await runner.perform_stream(runner.build_request(config(), message="hi"))
    (span,) = exporter.get_finished_spans()
    assert attributes(span)["gen_ai.usage.output_tokens"] == 2
    assert attributes(span)["gen_ai.response.finish_reasons"] == ("stop",)


def test_streams_read_from_another_thread_leave_nothing_behind(
    exporter: InMemorySpanExporter, telemetry: OpenTelemetryInstrumenter, caplog: pytest.LogCaptureFixture
) -> None:
    model = telemetry.model(ScriptedModel(streamed("a", "b"), streamed("a", "b")))
    with BlockingRunner(PromptRunner(model)) as runner, telemetry.run():
        request = runner.runner.build_request(config(), message="hi")
        with runner.stream(request) as stream:
            assert "".join(piece.text for piece in stream) == "ab"
        with runner.stream(request) as stream:
            next(iter(stream))
    *chats, run = exporter.get_finished_spans()
    assert {loose(chat).parent.span_id for chat in chats} == {loose(run).context.span_id}
    assert caplog.messages == []


async def test_runs_at_the_same_time_have_their_own_tools(
    exporter: InMemorySpanExporter, telemetry: OpenTelemetryInstrumenter
) -> None:
    start = {"type": "tool_call_start", "turn": 0, "tool_call_id": "c", "name": "f"}

    async def run(name: str, *, ends: bool) -> None:
        with telemetry.run(name):
            telemetry.on_event(loose(start))
            await asyncio.sleep(0)
            if ends:
                telemetry.on_event(loose({**start, "type": "tool_call_end", "ok": True}))
            await asyncio.sleep(0)

    await asyncio.gather(run("a", ends=True), run("b", ends=False))
    spans = {span.name: span for span in exporter.get_finished_spans()}
    tools = [span for span in exporter.get_finished_spans() if span.name == "execute_tool f"]
    found = {loose(tool).parent.span_id: attributes(tool).get("error.type") for tool in tools}
    runs = [loose(spans[f"invoke_agent {name}"]).context.span_id for name in "ab"]
    assert found == {runs[0]: None, runs[1]: "cancelled"}


async def test_failures_and_cancellations_are_marked(
    exporter: InMemorySpanExporter, telemetry: OpenTelemetryInstrumenter
) -> None:
    runner = PromptRunner(telemetry.model(ScriptedModel(failure(500, "boom"), Hang())))
    request = runner.build_request(config(), message="hi")
    with pytest.raises(HTTPError):
        await runner.perform(request)
    task = asyncio.create_task(runner.perform(request))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    kinds = [attributes(span)["error.type"] for span in exporter.get_finished_spans()]
    assert kinds == ["HTTPError", "CancelledError"]
    assert all(not span.events for span in exporter.get_finished_spans())


async def test_tools_that_never_ended_are_closed_with_the_run(
    exporter: InMemorySpanExporter, telemetry: OpenTelemetryInstrumenter
) -> None:
    with telemetry.run():
        telemetry.on_event({"type": "tool_call_start", "turn": 0, "tool_call_id": "c", "name": "f"})
    tool, _ = exporter.get_finished_spans()
    assert attributes(tool)["error.type"] == "cancelled"
    telemetry.on_event({"type": "tool_call_end", "turn": 9, "tool_call_id": "unknown"})


async def test_nothing_of_prompts_or_answers_is_in_a_span(
    exporter: InMemorySpanExporter, telemetry: OpenTelemetryInstrumenter
) -> None:
    runner = PromptRunner(telemetry.model(ScriptedModel("SECRET-ANSWER")))
    await runner.perform(runner.build_request(config(), message="SECRET-PROMPT"))
    assert all("SECRET" not in span.to_json() for span in exporter.get_finished_spans())
