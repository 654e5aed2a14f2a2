"""What programmers are told who pass a wrong kind to anything public of this room."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
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
from tests.vibe_tavern import wrong_arguments
from tests.vibe_tavern.support import config
from tests.vibe_tavern.wrong_arguments import Fresh, Odd, Uses


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


def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="tavernkit-"))


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

USES: Uses = {
    "AnthropicTransport": {"endpoint": ENDPOINT},
    "AnthropicTransport.complete": {"self": AnthropicTransport(ENDPOINT), "request": BODY},
    "AnthropicTransport.stream": {"self": AnthropicTransport(ENDPOINT), "request": BODY},
    "BlockingRunner": {"runner": RUNNER},
    "BlockingRunner.perform": {"self": BLOCKING, "request": REQUEST},
    "BlockingRunner.perform_stream": {"self": BLOCKING, "request": REQUEST},
    "BlockingRunner.run": {"self": BLOCKING, "work": Fresh(lambda: asyncio.sleep(0))},
    "BlockingRunner.stream": {"self": BLOCKING, "request": REQUEST},
    "Builder": {"message": "Hi"},
    "Capabilities": {"provider": "openai", "model": "m"},
    "CapabilitiesRegistry": {},
    "CapabilitiesRegistry.configure_default_overrides": {
        "self": Fresh(CapabilitiesRegistry),
        "context_window_tokens": 100,
        "reserved_response_tokens": 10,
        "supports_tools": True,
    },
    "CapabilitiesRegistry.register_provider": {
        "self": Fresh(CapabilitiesRegistry),
        "provider": "mine",
        "supports_streaming": False,
    },
    "CapabilitiesRegistry.resolve": {"self": CapabilitiesRegistry(), "provider": "openai", "model": "m"},
    "ChatChunk": {},
    "ChatResponse": {"body": {}},
    "CombinedToolset": {},
    "CombinedToolset.execute": {"self": CombinedToolset(TOOLS), "name": "look", "args": {}},
    "DirectiveDefinition": {"type": "ui.toast"},
    "DirectiveDefinition.from_mapping": {"value": {"type": "ui.toast"}},
    "DirectiveRegistry": {},
    "DirectivesRunner": {"runner": RUNNER, "config": CONFIG},
    "DirectivesRunner.run": {"self": DirectivesRunner(RUNNER, CONFIG)},
    "Endpoint": {},
    "Endpoint.from_env": {"environment": {}, "timeout": 1.5},
    "Endpoint.timeouts": {"self": ENDPOINT},
    "EvalModel": {"id": "m"},
    "EvalOptions": {},
    "EvalOptions.full": {"trials": 1},
    "EvalReport": {"records": [RECORD]},
    "EvalReport.read": {"folder": Fresh(folder)},
    "EvalReport.write": {"self": EvalReport([RECORD]), "folder": Fresh(folder)},
    "FilteredToolRegistry": {"base": TOOLS},
    "FunctionToolset": {"functions": [look]},
    "FunctionToolset.add": {
        "self": Fresh(FunctionToolset),
        "function": look,
        "name": "see",
        "description": "See.",
        "exposed_to_model": False,
    },
    "FunctionToolset.execute": {"self": TOOLS, "name": "look", "args": {}},
    "GoogleTransport": {"endpoint": ENDPOINT},
    "GoogleTransport.complete": {"self": GoogleTransport(ENDPOINT), "request": BODY},
    "GoogleTransport.stream": {"self": GoogleTransport(ENDPOINT), "request": BODY},
    "Infrastructure": {},
    "McpToolset": {"session": Session(), "tools": [{"name": "look"}]},
    "McpToolset.execute": {"self": McpToolset(Session(), [{"name": "look"}]), "name": "look", "args": {}},
    "McpToolset.load": {"session": Session()},
    "OpenAIEndpoints": {"transport": OpenAITransport(ENDPOINT)},
    "OpenAIEndpoints.audio_transcriptions": {"self": ENDPOINTS, "file": b"RIFF", "model": "m"},
    "OpenAIEndpoints.audio_translations": {"self": ENDPOINTS, "file": b"RIFF", "model": "m"},
    "OpenAIEndpoints.embeddings": {"self": ENDPOINTS, "model": "m", "input": ["a"]},
    "OpenAIEndpoints.rerank": {"self": ENDPOINTS, "model": "m", "query": "q", "documents": ["a"]},
    "OpenAITransport": {"endpoint": ENDPOINT},
    "OpenAITransport.complete": {"self": OpenAITransport(ENDPOINT), "request": BODY},
    "OpenAITransport.stream": {"self": OpenAITransport(ENDPOINT), "request": BODY},
    "OpenTelemetryInstrumenter": {},
    "OpenTelemetryInstrumenter.on_event": {"self": TELEMETRY, "event": {"type": "final"}},
    "OpenTelemetryInstrumenter.run": {"self": TELEMETRY},
    "OpenTelemetryInstrumenter.transport": {"self": TELEMETRY, "transport": MODEL},
    "PromptRequest": fields(REQUEST),
    "PromptRunner": {"transport": MODEL},
    "PromptRunner.build_request": {"self": RUNNER, "config": CONFIG},
    "PromptRunner.perform": {"self": RUNNER, "request": REQUEST},
    "PromptRunner.perform_stream": {"self": RUNNER, "request": REQUEST},
    "PromptRunner.stream": {"self": RUNNER, "request": REQUEST},
    "RunLog": {"folder": Path("runs")},
    "RunLog.append": {"self": Fresh(lambda: RunLog(folder())), "record": RECORD},
    "RunLog.read": {"self": RunLog(Path("no-such-folder"))},
    "RunnerConfig": fields(CONFIG),
    "RunnerConfig.build": {"provider": "openai", "model": "m"},
    "StructuredOutputOptions": {},
    "StructuredOutputOptions.from_mapping": {"value": {"schema_name": "x"}},
    "ToolCallDelta": {"index": 0},
    "ToolCalls": {},
    "ToolCalls.add": {"self": Fresh(ToolCalls), "delta": ToolCallDelta(0)},
    "ToolDefinition": {"name": "look"},
    "ToolDefinition.from_mapping": {"value": {"name": "look", "description": "", "parameters": {}}},
    "ToolLoopRunner": {"runner": RUNNER, "config": CONFIG, "tools": TOOLS},
    "ToolLoopRunner.run": {"self": ToolLoopRunner(RUNNER, CONFIG, tools=TOOLS)},
    "ToolRegistry": {"definitions": [TOOL]},
    "ToolRegistry.get": {"self": ToolRegistry([TOOL]), "name": "look"},
    "ToolRegistry.include": {"self": ToolRegistry([TOOL]), "name": "look"},
    "ToolRegistry.openai_tools": {"self": ToolRegistry([TOOL])},
    "VibeTavernContext": {},
    "build": {"message": "Hi"},
    "chat": {"transport": MODEL, "model": "m", "messages": []},
    "connect_mcp": {"server": Fresh(mcp_server)},
    "create_transport": {"dialect": "openai", "endpoint": ENDPOINT},
    "preprocess_user_input": {"text": "Hi", "variables": None},
    "pydantic_payload_validator": {"models": {}},
    "register_sanitizer": {"name": "test-wrong-arguments", "sanitizer": lambda text, options: (text, ())},
    "render_liquid": {"text": "Hi"},
    "run_evals": {"options": EVALS, "transport": MODEL},
    "to_messages": {"message": "Hi"},
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
NOT_MADE = {
    **dict.fromkeys(
        (
            *("ConnectionFailedError", "DecodeError", "HTTPError", "LiquidError", "PreflightError"),
            *("RequestTimeoutError", "StreamError", "ToolArgumentError", "ToolLoopLimitError", "ToolUseError"),
            "TransportError",
        ),
        "an exception",
    ),
    **dict.fromkeys(
        ("DirectivesResult", "EvalProgress", "PromptResult", "ToolLoopResult"), "a result that runners make"
    ),
    "FilteredToolRegistry.get": "the registry's own",
    "FilteredToolRegistry.include": "the registry's own",
    "FilteredToolRegistry.openai_tools": "the registry's own",
    "FunctionToolset.tool": "a decorator, tested below",
    "PIPELINE": "a constant",
    "Transport": "a protocol",
    "Transport.complete": "a protocol",
    "Transport.stream": "a protocol",
}


@pytest.fixture(autouse=True)
def nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders are made in the test's own, and what is registered for everybody is forgotten."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(default_sanitizers, "_sanitizers", vars(default_sanitizers)["_sanitizers"])


def test_every_public_name_is_swept() -> None:
    names = wrong_arguments.public_names(vibe_tavern)
    methods = {method for name in names for method in wrong_arguments.public_methods(vibe_tavern, name)}
    assert names | methods == USES.keys() | NOT_MADE.keys()


@pytest.mark.parametrize("name", [name for name in USES if name not in NEEDS_A_SERVER])
def test_the_right_kinds_are_taken(name: str) -> None:
    wrong_arguments.call(vibe_tavern, name, USES[name])


@pytest.mark.parametrize(("name", "parameter"), wrong_arguments.swept(vibe_tavern, USES, ANYTHING))
def test_a_wrong_kind_is_refused_by_name(name: str, parameter: str) -> None:
    wrong_arguments.assert_refused(vibe_tavern, USES, name, parameter)


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
        wrong_arguments.call(vibe_tavern, name, arguments)


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
