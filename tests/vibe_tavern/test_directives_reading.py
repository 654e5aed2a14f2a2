"""Directives: schema, registry, tolerant reading, payload validators, patch operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from tavernkit.errors import ConfigError
from tavernkit.models._bodies import has_free_properties
from tavernkit.vibe_tavern._directives import config as directives_config
from tavernkit.vibe_tavern._directives.config import DirectivesConfig
from tavernkit.vibe_tavern._directives.definitions import (
    DirectiveDefinition,
    DirectiveRegistry,
    StructuredOutputOptions,
    response_format,
)
from tavernkit.vibe_tavern._directives.envelope import parse_json, pydantic_payload_validator, token, validate
from tavernkit.vibe_tavern._directives.patch_ops import normalize_patch_ops
from tavernkit.vibe_tavern._runner_config import RunnerConfig
from tavernkit.vibe_tavern._tool_calling import config as tool_config
from tests.vibe_tavern.support import loose


class Toast(BaseModel):
    message: str
    level: int = 0


@dataclass
class Upload:
    purpose: str


def test_registry_describes_types_and_claims_aliases_once() -> None:
    registry = DirectiveRegistry(
        [
            DirectiveDefinition(" ui.toast ", "shows a toast", (" toast ", "toast", "t")),
            {"type": "ui.form", "description": None, "aliases": ["t", "form"]},
            DirectiveDefinition("ui.toast", "again"),
        ]
    )
    assert registry.types == ["ui.toast", "ui.form"]
    assert registry.type_aliases == {"toast": "ui.toast", "t": "ui.toast", "form": "ui.form"}
    assert registry.instructions_text == "Directive types you may use:\n* ui.toast (shows a toast)\n* ui.form"
    assert DirectiveRegistry().instructions_text == ""


def test_a_definition_needs_a_type() -> None:
    with pytest.raises(ConfigError, match="type"):
        DirectiveDefinition(" ")


def test_payload_schemas_make_one_item_form_a_type() -> None:
    registry = DirectiveRegistry(
        [
            DirectiveDefinition("ui.toast", payload=Toast),
            DirectiveDefinition("ui.upload", payload=Upload),
            DirectiveDefinition("ui.free"),
        ]
    )
    wrapper = loose(response_format(types=registry.types, payload_schemas=registry.payload_schemas))
    forms = wrapper["json_schema"]["schema"]["properties"]["directives"]["items"]["anyOf"]
    assert [form["properties"]["type"]["enum"] for form in forms] == [["ui.toast"], ["ui.upload"], ["ui.free"]]
    assert forms[0]["properties"]["payload"]["required"] == ["message"]
    assert forms[2]["properties"]["payload"] == {"type": "object", "additionalProperties": True}


def test_closed_payload_schema_needs_no_free_properties() -> None:
    schema = {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "string"}}}
    wrapper = response_format(types=["x"], payload_schemas={"x": schema})
    assert not has_free_properties(wrapper["json_schema"])


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1,}',
        'use {braces} like {"a": 1}',
        '{"a": 1',
        "{'a': 1}",
        '```json\n{"a": 1,}\n```',
    ],
)
def test_repair_reads_what_is_nearly_json(text: str) -> None:
    assert parse_json(text).code == "INVALID_JSON"
    assert parse_json(text, repair=True).value == {"a": 1}


@pytest.mark.parametrize("text", ["no json here", "{", "just { a brace", '{"```json```2'])
def test_repair_does_not_invent(text: str) -> None:
    assert parse_json(text, repair=True).code == "INVALID_JSON"


def test_tokens_compare_names_by_what_counts() -> None:
    assert {token(name) for name in ("ui.toast", " UI-Toast ", "ui__toast", "ui toast")} == {"ui_toast"}


def test_pydantic_models_check_payloads() -> None:
    envelope = {
        "assistant_text": "x",
        "directives": [
            {"type": "ui.toast", "payload": {"message": "m"}},
            {"type": "ui.toast", "payload": {"level": "high"}},
            {"type": "ui.other", "payload": {"anything": 1}},
        ],
    }
    flat = validate(envelope, payload_validator=pydantic_payload_validator({"ui.toast": Toast}))
    assert [each["type"] for each in loose(flat.value)["directives"]] == ["ui.toast", "ui.other"]
    warning = loose(flat.warnings[0])
    assert (warning["code"], warning["index"]) == ("PAYLOAD_INVALID", 1)
    assert warning["details"]["format"] == "flat"
    assert set(warning["details"]["errors"]) == {"message", "level"}
    pointers = validate(
        envelope, payload_validator=pydantic_payload_validator({"ui.toast": Toast}, error_format="json_pointer")
    )
    errors = loose(pointers.warnings[0])["details"]["errors"]
    assert {error["pointer"] for error in errors} == {"/message", "/level"}


def test_something_that_is_no_model_is_reported() -> None:
    check = pydantic_payload_validator({"a": loose(int)})
    assert loose(check("a", {}))["code"] == "PAYLOAD_VALIDATOR_INVALID_MODEL"


@pytest.mark.parametrize(
    ("op", "code"),
    [
        ({"op": "insert", "path": "/draft/a", "value": 1, "index": "x"}, "INVALID_PATCH_INDEX"),
        ({"op": "insert", "path": "/draft/a", "value": 1}, "INVALID_PATCH_INDEX"),
        ({"op": "move", "path": "/draft/a"}, "INVALID_PATCH_OP"),
        ("delete everything", "INVALID_PATCH_OP"),
        ({"op": "delete"}, "INVALID_PATCH_PATH"),
        ({"op": "set", "path": "/draft/a"}, "MISSING_PATCH_VALUE"),
    ],
)
def test_a_bad_patch_operation_is_named(op: Any, code: str) -> None:
    assert normalize_patch_ops([op]).code == code


@pytest.mark.parametrize(
    ("path", "prefixes", "normal"),
    [
        ("foo", None, "/draft/foo"),
        ("'draft/foo'", None, "/draft/foo"),
        ("`/ui_state/x`", None, "/ui_state/x"),
        ("foo", ["/doc/"], "/doc/foo"),
        ("foo", ["/doc"], "/doc/foo"),
    ],
)
def test_paths_are_put_below_a_prefix(path: str, prefixes: list[str] | None, normal: str) -> None:
    result = normalize_patch_ops([{"op": "rm", "path": path}], allowed_path_prefixes=prefixes)
    assert [loose(op)["path"] for op in result.ops] == [normal]


def test_config_reads_modes_and_counts_tolerantly() -> None:
    config = DirectivesConfig.from_mapping({"modes": "JSON-Object, nope", "repair_retry_count": "2"})
    assert (config.modes, config.repair_retry_count) == (("json_object",), 2)
    assert DirectivesConfig.from_mapping({"modes": ["nope"], "repair_retry_count": "x"}) == DirectivesConfig()


def test_nothing_in_place_of_overrides_changes_nothing() -> None:
    assert directives_config.merge({"request_overrides": {"seed": 1}}, {"request_overrides": None}) == {
        "request_overrides": {"seed": 1}
    }
    assert tool_config.merge(
        tool_config.provider_defaults("openai"), {"request_overrides": None}
    ) == tool_config.provider_defaults("openai")


@pytest.mark.parametrize("cleared", [None, []])
def test_nothing_in_place_of_a_list_of_transforms_clears_the_presets(cleared: list[str] | None) -> None:
    built = RunnerConfig.build(
        provider="openai",
        model="m",
        context={"tool_calling": {"response_transforms": cleared}, "directives": {"message_transforms": cleared}},
    )
    assert built.tool_calling.response_transforms == ()
    assert built.tool_calling.tool_call_transforms
    assert (
        directives_config.merge({"message_transforms": ["a"]}, {"message_transforms": cleared})["message_transforms"]
        == []
    )


def test_presets_merge_deeply_and_openrouter_asks_for_parameters() -> None:
    merged = loose(
        directives_config.merge(
            directives_config.preset_for("Open-Router"),
            {"structured_request_overrides": {"provider": {"only": ["x"]}}, "message_transforms": ["a"]},
            {"message_transforms": ["b", "a"]},
        )
    )
    assert merged["structured_request_overrides"]["provider"] == {"require_parameters": True, "only": ["x"]}
    assert merged["message_transforms"] == ["a", "b"]
    assert "structured_request_overrides" not in directives_config.preset_for("openai")


def test_output_instructions_are_trimmed() -> None:
    assert StructuredOutputOptions(output_instructions="\n Be brief. \n").output_instructions == "Be brief."


def test_output_options_come_from_the_registry_unless_given() -> None:
    options = StructuredOutputOptions.from_mapping(
        {"registry": [{"type": "a", "description": "d", "aliases": ["b"]}], "max_bytes": "x", "schema_name": None}
    )
    assert options.allowed_types == ["a"]
    assert options.type_aliases == {"b": "a"}
    assert options.max_bytes == 200_000
    assert StructuredOutputOptions.from_mapping({"schema_name": " "}).schema_name == options.schema_name
    with pytest.raises(ConfigError) as caught:
        StructuredOutputOptions.from_mapping({"registri": []})
    assert caught.value.code == "UNKNOWN_STRUCTURED_OUTPUT_OPTION"


def test_names_that_are_no_text_are_read_as_json_writes_them() -> None:
    envelope = {"assistant_text": "", "directives": [{"type": True, "payload": {}}, {"type": ["z"], "payload": 1}]}
    result = validate(envelope)
    assert result.value == {"assistant_text": "", "directives": [{"type": "true", "payload": {}}]}
    assert result.warnings == [{"index": 1, "code": "MISSING_PAYLOAD", "type": '["z"]'}]
    ops = normalize_patch_ops([{"op": True, "path": "a"}])
    assert ops.details == {"index": 0, "op": "true"}


@pytest.mark.parametrize(("given", "index"), [("+4", 4), (" -0 ", 0), ("1_0", None), ("２", None), ("9" * 5000, None)])
def test_an_index_is_read_from_plain_digits_only(given: str, index: int | None) -> None:
    result = normalize_patch_ops([{"op": "insert", "path": "a", "value": 1, "index": given}])
    assert [op["index"] for op in result.ops] == ([] if index is None else [index])
