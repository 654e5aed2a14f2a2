"""Behaviour at the edges of requests, answers and templates that the vectors do not show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.models._anthropic import AnthropicReader
from tavernkit.models._google import GoogleReader
from tavernkit.models.errors import error_text
from tavernkit.testing import ScriptedModel
from tavernkit.vibe_tavern import (
    DirectiveDefinition,
    DirectiveRegistry,
    DirectivesModel,
    EvalOptions,
    PromptRunner,
    ToolLoopRunner,
    build,
    fetch_tokenizers,
    register_sanitizer,
    render_liquid,
    run_evals,
)
from tavernkit.vibe_tavern._directives.definitions import StructuredOutputOptions
from tavernkit.vibe_tavern._json_schema import json_schema_of
from tavernkit.vibe_tavern._liquid_macros.filters import isodate, isotime, pick, rollp, unixtime
from tavernkit.vibe_tavern._output_tags import OutputTagsConfig, SanitizerRegistry
from tavernkit.vibe_tavern._steps import PlanAssemblyConfig
from tavernkit.vibe_tavern._tool_calling.calls import arguments_size, parse_arguments
from tavernkit.vibe_tavern._tool_calling.functions import FunctionToolset
from tavernkit.vibe_tavern._tool_calling.transforms import tool_calls_object_to_array
from tests.vibe_tavern.support import config


def loop(tools: Any = ()) -> ToolLoopRunner:
    return ToolLoopRunner(PromptRunner(ScriptedModel("Yes.")), config(), tools=tools, executor=print)


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda: PromptRunner("openai:gpt-4o"), "a model such as tk.model"),  # pyright: ignore[reportArgumentType]
        (lambda: PromptRunner(ScriptedModel()).build_request("Hi"), "config must be a RunnerConfig"),  # pyright: ignore[reportArgumentType]
        (lambda: PromptRunner(ScriptedModel()).build_request(config(), "Hi"), "goes into message="),  # pyright: ignore[reportArgumentType]
        (lambda: PromptRunner(ScriptedModel()).build_request(config(), message=["Hi"]), "message must be text"),  # pyright: ignore[reportArgumentType]
        (lambda: PromptRunner(ScriptedModel()).build_request(config(), message_transforms="x"), "put it in a list"),
        (lambda: PromptRunner(ScriptedModel()).build_request(config(), dialect=5), "dialect must be text"),  # pyright: ignore[reportArgumentType]
        (lambda: ToolLoopRunner(PromptRunner(ScriptedModel()), config(), executor=print, aliases=["a"]), "a mapping"),  # pyright: ignore[reportArgumentType]
        (lambda: build(system_template=5), "a Liquid template, or None for no text"),  # pyright: ignore[reportArgumentType]
        (lambda: asyncio.run(PromptRunner(ScriptedModel()).perform("Hi")), "build_request"),  # pyright: ignore[reportArgumentType]
        (lambda: loop(print), "FunctionToolset"),
        (lambda: loop([print]), "FunctionToolset"),
        (lambda: asyncio.run(loop().run(5)), "user_text must be text"),  # pyright: ignore[reportArgumentType]
        (lambda: asyncio.run(loop().run("Hi", max_turns="3")), "max_turns must be a whole number"),  # pyright: ignore[reportArgumentType]
        (lambda: asyncio.run(loop().run("Hi", on_event="x")), "on_event must be a function"),  # pyright: ignore[reportArgumentType]
        (lambda: DirectiveRegistry(5), "a list of directive definitions"),  # pyright: ignore[reportArgumentType]
        (lambda: DirectiveRegistry(["ui.toast"]), "a mapping with type"),  # pyright: ignore[reportArgumentType]
        (lambda: DirectivesModel(ScriptedModel(), {"allowed_type": ["a"]}), "did you mean 'allowed_types'"),
        (lambda: register_sanitizer("shout", 5), "a name and a callable"),  # pyright: ignore[reportArgumentType]
        (lambda: fetch_tokenizers(only="qwen3"), "put it in a list"),
        (lambda: asyncio.run(run_evals({}, ScriptedModel())), "options must be an EvalOptions"),  # pyright: ignore[reportArgumentType]
        (lambda: asyncio.run(run_evals(EvalOptions(), "openai:x")), "a function that makes one"),  # pyright: ignore[reportArgumentType]
        (lambda: DirectiveDefinition(5), "type must be text"),  # pyright: ignore[reportArgumentType]
        (lambda: render_liquid("Hi", on_error="ignore"), "on_error must be one of"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_mistakes_say_what_to_pass(mistake: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        mistake()


def test_arguments_packed_twice_are_unpacked() -> None:
    packed = '"{\\"a\\": \\"\\u00e9\\"}"'
    parsed = parse_arguments(packed, max_bytes=len(packed))
    assert (parsed.status, parsed.value) == ("ok", {"a": "é"})
    assert parse_arguments(packed, max_bytes=len(packed) - 1).status == "too_large"


def test_the_size_of_arguments_is_that_of_their_json() -> None:
    assert arguments_size(None) == 0
    assert arguments_size("é") == 2
    assert arguments_size({"a": [1, "é"]}) == len('{"a":[1,"é"]}'.encode())
    assert arguments_size({"a": {1, 2}}) == len(repr({"a": {1, 2}}))
    assert arguments_size(12) == 2


def test_a_tool_is_registered_once() -> None:
    def look() -> str:
        """Look around."""
        return "a room"

    tools = FunctionToolset([look])
    with pytest.raises(ConfigError, match="'look' is registered twice"):
        tools.add(look)
    assert [each.name for each in tools.definitions] == ["look"]


def test_a_single_call_is_read_as_a_list_of_one() -> None:
    call: Any = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message: Any = {"role": "assistant", "tool_calls": call}
    tool_calls_object_to_array(message, OutputTagsConfig())
    assert message["tool_calls"] == [call]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ([{"error": {"message": "bad key"}}], "bad key"),
        ({"error": "bad key"}, "bad key"),
        ([], ""),
        ([["bad key"]], ""),
    ],
)
def test_an_error_body_says_what_is_wrong_wherever_it_says_it(body: Any, text: str) -> None:
    assert error_text(body) == text


def test_googles_cached_tokens_and_thoughts_are_counted_in_openais_words() -> None:
    counts: Any = {
        "promptTokenCount": 10,
        "toolUsePromptTokenCount": 2,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 3,
        "cachedContentTokenCount": 4,
    }
    usage = GoogleReader().read({"usageMetadata": counts}).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (12, 8, 20)
    assert usage.cached_tokens == 4
    assert GoogleReader().read({}).usage is None


def test_an_event_of_anthropic_without_a_delta_says_nothing() -> None:
    chunk = AnthropicReader().read({"type": "message_delta"})
    assert (chunk.text, chunk.reasoning, chunk.finish_reason) == ("", "", None)


class Describes:
    """Something that describes itself, rightly or not."""

    def __init__(self, schema: object) -> None:
        self.json_schema = schema


def test_what_describes_itself_is_asked_for_its_schema() -> None:
    schema = {"type": "string"}
    assert json_schema_of(Describes(schema)) == json_schema_of(Describes(lambda: schema)) == schema
    with pytest.raises(ConfigError, match="must give a mapping"):
        json_schema_of(Describes(lambda: "text"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: StructuredOutputOptions.from_mapping(3),
        lambda: SanitizerRegistry().register("", lambda *_: None),  # pyright: ignore[reportArgumentType]  # a mistake of the caller
        lambda: PlanAssemblyConfig(default_system_text_builder=3),  # pyright: ignore[reportArgumentType]  # as above
    ],
)
def test_options_of_another_kind_are_a_mistake_of_the_caller(make: Any) -> None:
    with pytest.raises(ConfigError):
        make()


def test_times_are_written_without_padding() -> None:
    at = 1_700_000_700_500
    assert (isodate(at), isotime(at), unixtime(at)) == ("2023-11-14", "22:25:0", "1700000701")


@pytest.mark.parametrize(
    ("given", "chosen"),
    [("[broken]", {"[broken]"}), ('["a", "b"]', {"a", "b"}), ("a\\,b", {"a,b"}), ("a,b,,", {"a", "b"}), ("", {""})],
)
def test_one_of_the_elements_is_picked(given: str, chosen: set[str]) -> None:
    assert {pick(given, counter, "word") for counter in range(30)} == chosen


def test_dice_that_nobody_can_read_are_one_die_of_six() -> None:
    rolls = {int(rollp("1d2d3", counter, "word")) for counter in range(200)}
    assert rolls == {1, 2, 3, 4, 5, 6}
    assert {int(rollp("", counter, "word")) for counter in range(200)} == rolls
