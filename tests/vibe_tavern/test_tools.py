"""Tools: registries, functions, docstrings, argument checks, the output limiter, presets."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from tavernkit._values import JsonObject
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern import DirectiveDefinition
from tavernkit.vibe_tavern._json_schema import check_arguments, json_schema_of
from tavernkit.vibe_tavern._tool_calling import config as tool_config
from tavernkit.vibe_tavern._tool_calling.calls import check_output, parse_arguments
from tavernkit.vibe_tavern._tool_calling.dispatcher import ToolDispatcher
from tavernkit.vibe_tavern._tool_calling.functions import FunctionTool, FunctionToolset, read_docstring
from tavernkit.vibe_tavern._tool_calling.registry import (
    CombinedToolset,
    FilteredToolRegistry,
    ToolDefinition,
    ToolRegistry,
)
from tavernkit.vibe_tavern.errors import ToolArgumentError
from tests.vibe_tavern.support import loose


class Colour(enum.Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Area:
    name: str


class Provider:
    def json_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {"p": {}}}


def roll(
    sides: Annotated[int, Field(ge=2)],
    where: Point | None = None,
    colour: Colour = Colour.RED,
    mode: Literal["fast", "slow"] = "fast",
) -> dict[str, object]:
    """Roll a die.

    It is fair.

    Args:
        sides: How many sides
            the die has.
        mode (str): How to roll.

    Returns:
        The result.
    """
    return {"sides": sides, "x": where.x if where else None, "colour": colour, "mode": mode}


def test_registry_lists_what_the_model_may_see() -> None:
    registry = ToolRegistry(
        [
            {"name": " a ", "description": "d", "parameters": {"type": "object", "required": []}},
            {"name": "hidden", "description": "", "parameters": None, "exposed_to_model": "no"},
            {"name": "odd", "description": None, "parameters": None, "exposed_to_model": "??"},
            ToolDefinition("model", parameters=Point),
            ToolDefinition("dataclass", parameters=Area),
            ToolDefinition("provider", parameters=Provider()),
            {"type": "function", "function": {"name": "openai", "parameters": {"type": "object", "title": "kept"}}},
        ]
    )
    names = [loose(tool)["function"]["name"] for tool in registry.openai_tools()]
    assert names == ["a", "model", "dataclass", "provider", "openai"]
    assert loose(registry.openai_tools()[-1])["function"]["parameters"] == {"type": "object", "title": "kept"}
    assert loose(registry.openai_tools()[0])["function"]["parameters"] == {"type": "object"}
    assert len(registry.openai_tools(expose="all")) == 7
    assert not registry.include("hidden")
    assert registry.include("hidden", expose="all")
    assert loose(registry.openai_tools()[1])["function"]["parameters"]["required"] == ["x"]


@pytest.mark.parametrize(
    ("definitions", "code"),
    [
        ([{"name": "a"}], "INVALID_TOOL_DEFINITION"),
        ([{"type": "function", "function": {}}], "INVALID_TOOL_DEFINITION"),
        (["a"], "INVALID_TOOL_DEFINITION"),
        ([{"name": " ", "description": "", "parameters": {}}], "TOOL_NAME_REQUIRED"),
        ([ToolDefinition("a"), ToolDefinition("a")], "DUPLICATE_TOOL"),
    ],
)
def test_definitions_that_cannot_work_are_refused(definitions: Any, code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ToolRegistry(definitions)
    assert caught.value.code == code


@pytest.mark.parametrize("text", ["", "*", "\ud83d", "int", "print('run')"])
def test_texts_are_no_schemas_and_are_not_run(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        ToolRegistry([{"name": "a", "description": "", "parameters": text}])
    assert caught.value.code == "INVALID_JSON_SCHEMA"
    with pytest.raises(ConfigError):
        DirectiveDefinition("ui.toast", payload=text)
    assert capsys.readouterr().out == ""


def test_schemas_of_types_are_taken() -> None:
    assert json_schema_of(list[int]) == {"type": "array", "items": {"type": "integer"}}
    assert json_schema_of(int | None) == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert json_schema_of(Annotated[int, Field(ge=1)]) == {"type": "integer", "minimum": 1}


def test_schemas_of_nothing_known_are_refused() -> None:
    with pytest.raises(ConfigError):
        json_schema_of(object())
    assert json_schema_of(None) == {}


def test_filters_allow_then_deny_and_split_commas() -> None:
    base = ToolRegistry([ToolDefinition(name) for name in "abc"])
    assert [each.name for each in FilteredToolRegistry(base, allow="a, b", deny=["b"]).definitions] == ["a"]
    assert len(FilteredToolRegistry(base, allow=[], deny="").definitions) == 3


def test_signature_and_docstring_make_the_definition() -> None:
    tool = FunctionTool.of(roll).definition
    assert tool.description == "Roll a die.\n\nIt is fair."
    schema = loose(tool.schema)
    assert schema["required"] == ["sides"]
    assert schema["properties"]["sides"] == {
        "type": "integer",
        "minimum": 2,
        "description": "How many sides the die has.",
    }
    assert schema["properties"]["mode"]["enum"] == ["fast", "slow"]
    assert schema["additionalProperties"] is False


def test_arguments_are_converted_before_the_function_is_called() -> None:
    tools = FunctionToolset([roll])
    assert tools.execute("roll", {"sides": 6, "where": {"x": 1}, "colour": "red"}) == {
        "sides": 6,
        "x": 1,
        "colour": "red",
        "mode": "fast",
    }


@pytest.mark.parametrize(
    "args", [{}, {"sides": 1}, {"sides": "six"}, {"sides": 6, "extra": 1}, {"sides": 6, "mode": "x"}]
)
def test_wrong_arguments_are_explained(args: dict[str, Any]) -> None:
    with pytest.raises(ToolArgumentError):
        FunctionToolset([roll]).execute("roll", args)


@pytest.mark.filterwarnings("error")
def test_parameters_may_have_any_name() -> None:
    def odd(_id: int, json: int, model_config: int, model_fields_set: int, model_dump: int = 5) -> object:
        return [_id, json, model_config, model_fields_set, model_dump]

    tools = FunctionToolset([odd])
    properties = loose(tools.definitions[0].schema)["properties"]
    assert [*properties] == ["_id", "json", "model_config", "model_fields_set", "model_dump"]
    arguments: JsonObject = {"_id": 1, "json": 2, "model_config": 3, "model_fields_set": 4}
    assert tools.execute("odd", arguments) == [1, 2, 3, 4, 5]
    with pytest.raises(ToolArgumentError, match=r"_id: .*valid integer"):
        tools.execute("odd", {**arguments, "_id": "x"})


def test_descriptions_in_annotations_and_defaults_with_titles_are_kept() -> None:
    def find(title: Annotated[str, Field(description="What it is called.")], like: dict[str, str] = {"title": "x"}):  # noqa: B006
        """Find it.

        Args:
            title: The docstring's words.
            like: An example.
        """
        return [title, like]

    properties = loose(FunctionTool.of(find).definition.schema)["properties"]
    assert properties["title"] == {"type": "string", "description": "What it is called."}
    assert (properties["like"]["description"], properties["like"]["default"]) == ("An example.", {"title": "x"})


async def test_results_that_cannot_be_written_are_not_the_fault_of_the_arguments() -> None:
    def picture() -> bytes:
        """Return no text."""
        return b"\xff"

    tools = FunctionToolset([picture])
    envelope = await ToolDispatcher(tools.execute, tools).dispatch("picture", {})
    assert loose(envelope)["errors"][0]["code"] == "INTERNAL_ERROR"


async def test_decorator_names_async_functions_and_call_ids() -> None:
    tools = FunctionToolset()

    @tools.tool(name="look-up", description="Finds it.")
    async def look_up(name: str, tool_call_id: str) -> tuple[str, str]:
        return name, tool_call_id

    @tools.tool
    def ping() -> str:
        """Say pong."""
        return "pong"

    assert [each.name for each in tools.definitions] == ["look-up", "ping"]
    assert "tool_call_id" not in loose(tools.definitions[0].schema)["properties"]
    assert await loose(tools.execute("look-up", {"name": "x"}, tool_call_id="c1")) == ["x", "c1"]
    assert ping() == "pong"
    with pytest.raises(ToolArgumentError):
        tools.execute("nope", {})


def unannotated(x):
    return x


def variadic(*x: int) -> None: ...


def odd_type(x: Callable[[], None]) -> None: ...


def unknown_type(x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


def field_as_default(x: int = Field(3)) -> None: ...


@pytest.mark.parametrize(
    "function", [unannotated, variadic, odd_type, unknown_type, field_as_default, partial(roll, sides=2), lambda: None]
)
def test_functions_that_cannot_be_described_are_refused(function: Any) -> None:
    with pytest.raises(ConfigError):
        FunctionTool.of(function)


def test_toolsets_combine_and_names_stay_unique() -> None:
    def ping(tool_call_id: str) -> str:
        """Answer."""
        return tool_call_id

    combined = CombinedToolset(FunctionToolset([roll]), FunctionToolset([ping]))
    assert [each.name for each in combined.definitions] == ["roll", "ping"]
    assert combined.execute("ping", {}, tool_call_id="c") == "c"
    with pytest.raises(ConfigError):
        CombinedToolset(FunctionToolset([roll]), FunctionToolset([roll]))
    with pytest.raises(ToolArgumentError):
        combined.execute("nope", {})


@pytest.mark.parametrize(
    "text",
    [
        "Do it.\n\nArgs:\n    a: The a.\n    b (int): The\n        b.\n\nReturns:\n    x",
        "Do it.\n\n:param a: The a.\n:param int b: The\n    b.\n:returns: x",
        "Do it.\n\nParameters\n----------\na : str\n    The a.\nb : int\n    The\n    b.\n\nReturns\n-------\nx",
    ],
    ids=["google", "sphinx", "numpy"],
)
def test_docstrings_are_read_in_every_style(text: str) -> None:
    read = read_docstring(text)
    assert read.summary == "Do it."
    assert read.parameters == {"a": "The a.", "b": "The b."}


def test_docstring_without_parameters_is_all_summary() -> None:
    assert read_docstring("Just this.\n\nReturns:\n    x").summary == "Just this."
    assert read_docstring("").summary == ""


@pytest.mark.parametrize(
    ("given", "status", "value"),
    [
        (None, "ok", {}),
        ("", "ok", {}),
        ('{"a":1}', "ok", {"a": 1}),
        ('```JSON\n{"a":1}\n```', "ok", {"a": 1}),
        ("``` ```", "ok", {}),
        ('"{\\"a\\":1}"', "ok", {"a": 1}),
        ({"a": 1}, "ok", {"a": 1}),
        ([1], "invalid_json", {}),
        ("[1]", "invalid_json", {}),
        ("NaN", "invalid_json", {}),
        (5, "invalid_json", {}),
        ('"' + "x" * 60 + '"', "too_large", {}),
        ({"a": "x" * 60}, "too_large", {}),
    ],
)
def test_arguments_are_read_in_every_shape(given: Any, status: str, value: Any) -> None:
    parsed = parse_arguments(given, max_bytes=50)
    assert (parsed.status, parsed.value) == (status, value)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 4},
        "age": {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2},
        "either": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
        "all": {"allOf": [{"type": "number"}, {"minimum": 5}]},
        "only": {"const": 1},
    },
    "$defs": {"tag": {"enum": ["a", "b"]}},
}


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"name": "abc"}, None),
        ({"name": "abc", "age": None, "tags": ["a", "b"], "either": True, "all": 5, "only": 1}, None),
        ({"name": "abc", "age": 3.0}, None),
        ({}, "arguments must have name"),
        ({"name": "a"}, "the length of arguments.name must be at least 2"),
        ({"name": "abcde"}, "the length of arguments.name must be at most 4"),
        ({"name": 5}, "arguments.name must be of type string"),
        ({"name": "abc", "age": True}, "arguments.age must be of type integer or null"),
        ({"name": "abc", "age": 1.5}, "arguments.age must be of type integer or null"),
        ({"name": "abc", "age": 10}, "arguments.age must be at most 9"),
        ({"name": "abc", "age": 10**400}, "arguments.age must be at most 9"),
        ({"name": "abc", "tags": ["c"]}, "arguments.tags[0] must be one of 'a', 'b'"),
        ({"name": "abc", "tags": ["a", "a", "a"]}, "the number of items of arguments.tags must be at most 2"),
        ({"name": "abc", "nope": 1}, "arguments must not have nope"),
        ({"name": "abc", "all": 4}, "arguments.all must be at least 5"),
        ({"name": "abc", "only": True}, "arguments.only must be 1"),
        ({"name": "abc", "either": 1}, "arguments.either fits none of the allowed forms"),
        ([], "arguments must be of type object"),
    ],
)
def test_arguments_are_checked_against_the_schema(args: Any, problem: str | None) -> None:
    found = check_arguments(args, SCHEMA)
    assert found is None if problem is None else found is not None and found.startswith(problem)


def test_schema_that_refers_to_itself_ends() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert check_arguments({}, schema) is None
    assert check_arguments({}, {"$ref": "#/nowhere"}) is None


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": [1, None, True, 1.5, "é"]}, None),
        ("x" * 1001, "STRING_TOO_LARGE"),
        (["x" * 500, "y" * 501], "MAX_BYTES"),
        (nested(25), "MAX_DEPTH"),
        ({str(key): 1 for key in range(50_001)}, "MAX_HASH_KEYS"),
        ([0] * 50_001, "MAX_ARRAY_ITEMS"),
        ([10**5000], "MAX_BYTES"),
        ([object()] * 20, "MAX_BYTES"),
    ],
)
def test_output_is_judged_before_it_is_written(value: Any, reason: str | None) -> None:
    assert check_output(value, max_bytes=1000).reason == reason


def test_many_small_values_hit_the_node_limit() -> None:
    assert check_output([[0] * 25_000, [0] * 25_001], max_bytes=10**9).reason == "MAX_NODES"


def test_cycles_cost_nothing() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert check_output(value, max_bytes=100).ok


def test_presets_of_providers_and_models() -> None:
    assert tool_config.preset_for("Open-Router", "google/gemini-3")["message_transforms"] == [
        "assistant_tool_calls_signature_skip_validator_if_missing"
    ]
    assert tool_config.model_defaults("x/deep-reasoner")["message_transforms"]
    assert tool_config.model_defaults("minimax/minimax-m2-her") == {"tool_use_mode": "disabled"}
    assert tool_config.provider_defaults("llama_cpp")["fallback_retry_count"] == 1
    assert tool_config.provider_defaults("unknown") == {}
    assert tool_config.provider_defaults("openai")["request_overrides"] == {"parallel_tool_calls": False}
    assert "tool_use_mode" not in tool_config.provider_defaults("vllm")
    assert tool_config.preset_for("openai", "m")["tool_use_mode"] == "relaxed"


def test_merging_unites_lists_and_an_empty_one_clears() -> None:
    merged = tool_config.merge(
        {"response_transforms": ["a", "b"], "request_overrides": {"p": {"a": 1}}},
        {"response_transforms": "b, c", "request_overrides": {"p": {"b": 2}}},
    )
    assert merged == {"response_transforms": ["a", "b", "c"], "request_overrides": {"p": {"a": 1, "b": 2}}}
    assert tool_config.merge(merged, {"response_transforms": []})["response_transforms"] == []
    assert tool_config.merge(merged, {"response_transforms": None})["response_transforms"] == []
