"""What programmers are told who pass a wrong kind to anything public of this room."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tavernkit import ConfigError, vibe_tavern
from tavernkit.testing import ScriptedModel
from tavernkit.vibe_tavern import (
    AnthropicTransport,
    BlockingRunner,
    Capabilities,
    CapabilitiesRegistry,
    ChatResponse,
    CombinedToolset,
    DirectivesRunner,
    Endpoint,
    EvalModel,
    EvalOptions,
    EvalReport,
    FilteredToolRegistry,
    FunctionToolset,
    GoogleTransport,
    McpToolset,
    OpenAIEndpoints,
    OpenAITransport,
    OpenTelemetryInstrumenter,
    PromptRequest,
    PromptRunner,
    RunLog,
    ToolCallDelta,
    ToolCalls,
    ToolDefinition,
    ToolLoopRunner,
    ToolRegistry,
)
from tavernkit.vibe_tavern.evals.harness import matrix
from tavernkit.vibe_tavern.evals.lab import Lab, ScenarioOutcome
from tavernkit.vibe_tavern.evals.report import RunRecord
from tavernkit.vibe_tavern.output_tags.sanitizers import default_sanitizers
from tests.vibe_tavern.support import config
from tests.wrong_arguments import Call, Fresh, InFolder, Odd, Sweep


class Session:
    """A server of MCP with one tool."""

    async def list_tools(self, *, cursor: str | None = None) -> Any:
        return {"tools": [{"name": "look"}]}

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        return {"content": []}


class Greets:
    """The shortest scenario."""

    id, suite, tags = "greets", "tools", ("default",)

    async def run(self, lab: Lab) -> ScenarioOutcome:
        return ScenarioOutcome("Hi.")


def look(at: str = "") -> str:
    """Look."""
    return at


def fields(value: object) -> dict[str, object]:
    """What a dataclass was made with."""
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}  # pyright: ignore[reportAttributeAccessIssue]  # a dataclass


def mcp_server() -> object:
    from mcp.server import mcpserver

    return mcpserver.MCPServer("tavern")


CONFIG = config()
MODEL = ScriptedModel("Hi", repeat_last=True)
RUNNER = PromptRunner(MODEL)
REQUEST = RUNNER.build_request(CONFIG, message="Hi")
BLOCKING = Fresh(lambda: BlockingRunner(PromptRunner(MODEL)))
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
ENDPOINT = Endpoint(base_url="http://127.0.0.1:9", max_retries=0)
ENDPOINTS = OpenAIEndpoints(OpenAITransport(ENDPOINT))
TOOL = ToolDefinition("look")
TOOLS = FunctionToolset([look])
RECORD = RunRecord(config={}, ok=True, elapsed_ms=1)
EVALS = EvalOptions(catalogue=[EvalModel("m", tags=("stable",))], all_scenarios=[Greets()])
TELEMETRY = OpenTelemetryInstrumenter()

CALLS: dict[str, Call] = {
    "AnthropicTransport": (vibe_tavern.AnthropicTransport, {"endpoint": ENDPOINT}),
    "AnthropicTransport.complete": (AnthropicTransport(ENDPOINT).complete, {"request": BODY}),
    "AnthropicTransport.stream": (AnthropicTransport(ENDPOINT).stream, {"request": BODY}),
    "BlockingRunner": (vibe_tavern.BlockingRunner, {"runner": RUNNER}),
    "BlockingRunner.perform": (vibe_tavern.BlockingRunner.perform, {"self": BLOCKING, "request": REQUEST}),
    "BlockingRunner.perform_stream": (
        vibe_tavern.BlockingRunner.perform_stream,
        {"self": BLOCKING, "request": REQUEST},
    ),
    "BlockingRunner.run": (vibe_tavern.BlockingRunner.run, {"self": BLOCKING, "work": Fresh(lambda: asyncio.sleep(0))}),
    "BlockingRunner.stream": (vibe_tavern.BlockingRunner.stream, {"self": BLOCKING, "request": REQUEST}),
    "Builder": (vibe_tavern.Builder, {"message": "Hi"}),
    "Capabilities": (vibe_tavern.Capabilities, {"provider": "openai", "model": "m"}),
    "CapabilitiesRegistry": (vibe_tavern.CapabilitiesRegistry, {}),
    "CapabilitiesRegistry.configure_default_overrides": (
        vibe_tavern.CapabilitiesRegistry.configure_default_overrides,
        {
            "self": Fresh(CapabilitiesRegistry),
            "context_window_tokens": 100,
            "reserved_response_tokens": 10,
            "supports_tools": True,
        },
    ),
    "CapabilitiesRegistry.register_provider": (
        vibe_tavern.CapabilitiesRegistry.register_provider,
        {"self": Fresh(CapabilitiesRegistry), "provider": "mine", "supports_streaming": False},
    ),
    "CapabilitiesRegistry.resolve": (CapabilitiesRegistry().resolve, {"provider": "openai", "model": "m"}),
    "ChatChunk": (vibe_tavern.ChatChunk, {}),
    "ChatResponse": (vibe_tavern.ChatResponse, {"body": {}}),
    "CombinedToolset": (vibe_tavern.CombinedToolset, {}),
    "CombinedToolset.execute": (CombinedToolset(TOOLS).execute, {"name": "look", "args": {}}),
    "DirectiveDefinition": (vibe_tavern.DirectiveDefinition, {"type": "ui.toast"}),
    "DirectiveDefinition.from_mapping": (vibe_tavern.DirectiveDefinition.from_mapping, {"value": {"type": "ui.toast"}}),
    "DirectiveRegistry": (vibe_tavern.DirectiveRegistry, {}),
    "DirectivesRunner": (vibe_tavern.DirectivesRunner, {"runner": RUNNER, "config": CONFIG}),
    "DirectivesRunner.run": (DirectivesRunner(RUNNER, CONFIG).run, {}),
    "Endpoint": (vibe_tavern.Endpoint, {}),
    "Endpoint.from_env": (vibe_tavern.Endpoint.from_env, {"environment": {}, "timeout": 1.5}),
    "Endpoint.timeouts": (ENDPOINT.timeouts, {}),
    "EvalModel": (vibe_tavern.EvalModel, {"id": "m"}),
    "EvalOptions": (vibe_tavern.EvalOptions, {}),
    "EvalOptions.full": (vibe_tavern.EvalOptions.full, {"trials": 1}),
    "EvalReport": (vibe_tavern.EvalReport, {"records": [RECORD]}),
    "EvalReport.read": (vibe_tavern.EvalReport.read, {"folder": InFolder(Path)}),
    "EvalReport.write": (EvalReport([RECORD]).write, {"folder": InFolder(Path)}),
    "FilteredToolRegistry": (vibe_tavern.FilteredToolRegistry, {"base": TOOLS}),
    "FunctionToolset": (vibe_tavern.FunctionToolset, {"functions": [look]}),
    "FunctionToolset.add": (
        vibe_tavern.FunctionToolset.add,
        {
            "self": Fresh(FunctionToolset),
            "function": look,
            "name": "see",
            "description": "See.",
            "exposed_to_model": False,
        },
    ),
    "FunctionToolset.execute": (TOOLS.execute, {"name": "look", "args": {}}),
    "GoogleTransport": (vibe_tavern.GoogleTransport, {"endpoint": ENDPOINT}),
    "GoogleTransport.complete": (GoogleTransport(ENDPOINT).complete, {"request": BODY}),
    "GoogleTransport.stream": (GoogleTransport(ENDPOINT).stream, {"request": BODY}),
    "Infrastructure": (vibe_tavern.Infrastructure, {}),
    "McpToolset": (vibe_tavern.McpToolset, {"session": Session(), "tools": [{"name": "look"}]}),
    "McpToolset.execute": (McpToolset(Session(), [{"name": "look"}]).execute, {"name": "look", "args": {}}),
    "McpToolset.load": (vibe_tavern.McpToolset.load, {"session": Session()}),
    "OpenAIEndpoints": (vibe_tavern.OpenAIEndpoints, {"transport": OpenAITransport(ENDPOINT)}),
    "OpenAIEndpoints.audio_transcriptions": (ENDPOINTS.audio_transcriptions, {"file": b"RIFF", "model": "m"}),
    "OpenAIEndpoints.audio_translations": (ENDPOINTS.audio_translations, {"file": b"RIFF", "model": "m"}),
    "OpenAIEndpoints.embeddings": (ENDPOINTS.embeddings, {"model": "m", "input": ["a"]}),
    "OpenAIEndpoints.rerank": (ENDPOINTS.rerank, {"model": "m", "query": "q", "documents": ["a"]}),
    "OpenAITransport": (vibe_tavern.OpenAITransport, {"endpoint": ENDPOINT}),
    "OpenAITransport.complete": (OpenAITransport(ENDPOINT).complete, {"request": BODY}),
    "OpenAITransport.stream": (OpenAITransport(ENDPOINT).stream, {"request": BODY}),
    "OpenTelemetryInstrumenter": (vibe_tavern.OpenTelemetryInstrumenter, {}),
    "OpenTelemetryInstrumenter.on_event": (TELEMETRY.on_event, {"event": {"type": "final"}}),
    "OpenTelemetryInstrumenter.run": (TELEMETRY.run, {}),
    "OpenTelemetryInstrumenter.transport": (TELEMETRY.transport, {"transport": MODEL}),
    "PromptRequest": (vibe_tavern.PromptRequest, fields(REQUEST)),
    "PromptRunner": (vibe_tavern.PromptRunner, {"transport": MODEL}),
    "PromptRunner.build_request": (RUNNER.build_request, {"config": CONFIG}),
    "PromptRunner.perform": (RUNNER.perform, {"request": REQUEST}),
    "PromptRunner.perform_stream": (RUNNER.perform_stream, {"request": REQUEST}),
    "PromptRunner.stream": (RUNNER.stream, {"request": REQUEST}),
    "RunLog": (vibe_tavern.RunLog, {"folder": Path("runs")}),
    "RunLog.append": (vibe_tavern.RunLog.append, {"self": InFolder(RunLog), "record": RECORD}),
    "RunLog.read": (RunLog(Path("no-such-folder")).read, {}),
    "RunnerConfig": (vibe_tavern.RunnerConfig, fields(CONFIG)),
    "RunnerConfig.build": (vibe_tavern.RunnerConfig.build, {"provider": "openai", "model": "m"}),
    "StructuredOutputOptions": (vibe_tavern.StructuredOutputOptions, {}),
    "StructuredOutputOptions.from_mapping": (
        vibe_tavern.StructuredOutputOptions.from_mapping,
        {"value": {"schema_name": "x"}},
    ),
    "ToolCallDelta": (vibe_tavern.ToolCallDelta, {"index": 0}),
    "ToolCalls": (vibe_tavern.ToolCalls, {}),
    "ToolCalls.add": (vibe_tavern.ToolCalls.add, {"self": Fresh(ToolCalls), "delta": ToolCallDelta(0)}),
    "ToolDefinition": (vibe_tavern.ToolDefinition, {"name": "look"}),
    "ToolDefinition.from_mapping": (
        vibe_tavern.ToolDefinition.from_mapping,
        {"value": {"name": "look", "description": "", "parameters": {}}},
    ),
    "ToolLoopRunner": (vibe_tavern.ToolLoopRunner, {"runner": RUNNER, "config": CONFIG, "tools": TOOLS}),
    "ToolLoopRunner.run": (ToolLoopRunner(RUNNER, CONFIG, tools=TOOLS).run, {}),
    "ToolRegistry": (vibe_tavern.ToolRegistry, {"definitions": [TOOL]}),
    "ToolRegistry.get": (ToolRegistry([TOOL]).get, {"name": "look"}),
    "ToolRegistry.include": (ToolRegistry([TOOL]).include, {"name": "look"}),
    "ToolRegistry.openai_tools": (ToolRegistry([TOOL]).openai_tools, {}),
    "VibeTavernContext": (vibe_tavern.VibeTavernContext, {}),
    "build": (vibe_tavern.build, {"message": "Hi"}),
    "chat": (vibe_tavern.chat, {"transport": MODEL, "model": "m", "messages": []}),
    "connect_mcp": (vibe_tavern.connect_mcp, {"server": Fresh(mcp_server)}),
    "create_transport": (vibe_tavern.create_transport, {"dialect": "openai", "endpoint": ENDPOINT}),
    "preprocess_user_input": (vibe_tavern.preprocess_user_input, {"text": "Hi", "variables": None}),
    "pydantic_payload_validator": (vibe_tavern.pydantic_payload_validator, {"models": {}}),
    "register_sanitizer": (
        vibe_tavern.register_sanitizer,
        {"name": "test-wrong-arguments", "sanitizer": lambda text, options: (text, ())},
    ),
    "render_liquid": (vibe_tavern.render_liquid, {"text": "Hi"}),
    "run_evals": (vibe_tavern.run_evals, {"options": EVALS, "transport": MODEL}),
    "to_messages": (vibe_tavern.to_messages, {"message": "Hi"}),
}
NEEDS_A_SERVER = {
    *(f"{name}Transport.{method}" for name in ("Anthropic", "Google", "OpenAI") for method in ("complete", "stream")),
    *(f"OpenAIEndpoints.{method}" for method in ("audio_transcriptions", "audio_translations", "embeddings", "rerank")),
}
ANYTHING = {
    "StructuredOutputOptions.from_mapping.value": "called structured_output_options, as runners do; tested below",
    "OpenAIEndpoints.audio_transcriptions.options": "JSON for the server",
    "OpenAIEndpoints.audio_translations.options": "JSON for the server",
    "OpenAIEndpoints.embeddings.options": "JSON for the server",
    "OpenAIEndpoints.rerank.options": "JSON for the server",
    "chat.options": "JSON for the server",
    "connect_mcp.options": "options of mcp.Client, which checks them",
}
UNCALLED = {
    **dict.fromkeys(
        ("DirectivesResult", "EvalProgress", "PromptResult", "ToolLoopResult"), "a result that runners make"
    ),
    "FilteredToolRegistry.get": "the registry's own",
    "FilteredToolRegistry.include": "the registry's own",
    "FilteredToolRegistry.openai_tools": "the registry's own",
    "FunctionToolset.tool": "a decorator, tested below",
}

SWEEP = Sweep("tavernkit.vibe_tavern", CALLS, UNCALLED, ANYTHING)


@pytest.fixture(autouse=True)
def nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered for everybody is forgotten."""
    monkeypatch.setattr(default_sanitizers, "_sanitizers", vars(default_sanitizers)["_sanitizers"])


def test_every_public_name_is_called() -> None:
    SWEEP.assert_complete()


@pytest.mark.parametrize("name", [name for name in CALLS if name not in NEEDS_A_SERVER])
def test_right_arguments_are_taken(name: str) -> None:
    SWEEP.call(name)


@pytest.mark.parametrize(("name", "parameter"), SWEEP.pairs())
def test_wrong_arguments_are_refused_by_name(name: str, parameter: str) -> None:
    SWEEP.assert_refused(name, parameter)


@pytest.mark.parametrize("option", ["name", "description", "exposed_to_model"])
def test_decorated_functions_and_their_options_are_checked(option: str) -> None:
    with pytest.raises(ConfigError, match=option):
        FunctionToolset().tool(**{option: Odd()})(look)  # pyright: ignore[reportCallIssue, reportArgumentType]  # the mistake
    with pytest.raises(ConfigError, match="function"):
        FunctionToolset().tool(Odd())  # pyright: ignore[reportCallIssue, reportArgumentType]  # the mistake


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("ToolRegistry", {"definitions": [Odd()]}, "a tool definition must be a ToolDefinition or a mapping"),
        ("DirectiveRegistry", {"definitions": [Odd()]}, "a directive definition must be a DirectiveDefinition or a"),
        ("StructuredOutputOptions.from_mapping", {"value": Odd()}, "structured_output_options must be a Structured"),
        ("PromptRunner", {"transport": [MODEL, Odd()]}, "transport must be a Transport"),
        ("EvalReport", {"records": [Odd()]}, "records must be a list of RunRecords"),
        ("run_evals", {"options": EVALS, "transport": MODEL, "before": [Odd()]}, "before must be a list of RunRecords"),
        ("FunctionToolset", {"functions": [Odd()]}, "function must be"),
        ("CapabilitiesRegistry", {"providers": {"mine": Odd()}}, "providers must be a mapping of mappings"),
        ("ChatChunk", {"tool_calls": [Odd()]}, "ChatChunk.tool_calls must be a list of ToolCallDeltas"),
        ("ToolCallDelta", {"index": 0, "extra": Odd()}, "ToolCallDelta.extra must be a mapping or None"),
    ],
)
def test_lists_say_what_to_put_in(name: str, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        SWEEP.call(name, arguments)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"api_key": b"sk-secret"}, "Endpoint.api_key must be text or None, not bytes"),
        ({"headers": {"Authorization": b"sk-secret"}}, "Endpoint.headers must be a mapping of texts, not dict"),
        ({"base_url": b"http://me:sk-secret@x"}, "Endpoint.base_url must be text, not bytes"),
    ],
)
def test_secrets_of_a_wrong_kind_are_refused_without_being_shown(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Endpoint(**fields)
    assert str(refused.value) == told
    with pytest.raises(ConfigError) as refused:
        Endpoint.from_env({"TAVERNKIT_API_KEY": b"sk-secret"})  # pyright: ignore[reportArgumentType]  # the mistake
    assert "sk-secret" not in str(refused.value)


def test_what_a_provider_cannot_be_is_refused_when_it_is_registered() -> None:
    registry = CapabilitiesRegistry()
    with pytest.raises(ConfigError, match="supports_tools must be True or False"):
        registry.register_provider("mine", supports_tools="yes")
    assert registry.resolve("mine", "m") == Capabilities("mine", "m")


def test_kinds_that_are_meant_are_taken() -> None:
    assert Endpoint(timeout=3).timeout == 3
    assert Endpoint(timeout="2.5").timeout == 2.5  # pyright: ignore[reportArgumentType]  # as environments have it
    both = ToolRegistry([TOOL, ToolDefinition("hide")])
    assert [each.name for each in FilteredToolRegistry(both, allow="look, see", deny=["hide"]).definitions] == ["look"]
    assert {cell.scenario.suite for cell in matrix(dataclasses.replace(EVALS, suites="tools"))} == {"tools"}
    assert EvalModel("m", tags=["a"]).labels() == ("m", "m", "m", "a")  # pyright: ignore[reportArgumentType]  # a list


def test_requests_and_answers_can_be_made_by_hand() -> None:
    assert PromptRequest(**fields(REQUEST)) == REQUEST  # pyright: ignore[reportArgumentType]  # its own fields
    assert ChatResponse({"id": "x"}).status == 200
