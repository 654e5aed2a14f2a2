"""What really goes out on the wire."""

from __future__ import annotations

from typing import Any

from tavernkit.models import Request
from tavernkit.models._bodies import has_free_properties
from tavernkit.vibe_tavern._prompt_runner import normalize_options

CLOSED = {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "string"}}}
OPEN = {"type": "object", "additionalProperties": True}


def structured(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}


def wire_body(options: dict[str, Any]) -> dict[str, Any]:
    return Request.from_body({"messages": [], **options}).body()


def test_parallel_tool_calls_goes_out_only_with_tools() -> None:
    assert "parallel_tool_calls" not in wire_body({"parallel_tool_calls": False})
    assert "parallel_tool_calls" not in wire_body({"parallel_tool_calls": False, "tools": []})
    assert wire_body({"parallel_tool_calls": False, "tools": [{}]})["parallel_tool_calls"] is False


def test_strict_is_kept_for_schemas_that_openai_takes() -> None:
    sent: Any = wire_body({"response_format": structured(CLOSED)})
    assert sent["response_format"]["json_schema"]["strict"] is True


def test_strict_is_dropped_where_an_object_has_free_properties() -> None:
    nested = {**CLOSED, "properties": {"list": {"type": "array", "items": [{"anyOf": [OPEN]}]}}}
    sent: Any = wire_body({"response_format": structured(nested)})
    assert sent["response_format"]["json_schema"]["strict"] is False


def test_free_properties_are_found_at_any_depth() -> None:
    assert has_free_properties({"type": "object"})
    assert not has_free_properties(CLOSED)
    assert not has_free_properties("text")


def test_options_are_copied_not_changed() -> None:
    options: dict[str, Any] = {"response_format": {"type": "json_object"}, "nested": {"a": [1]}}
    normal: Any = normalize_options(options)
    normal["nested"]["a"].append(2)
    assert options == {"response_format": {"type": "json_object"}, "nested": {"a": [1]}}
