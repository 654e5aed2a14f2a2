"""The format of tool results, and the errors of tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tavernkit._text.strict_json import plain_text
from tavernkit._values import Json, JsonObject, is_mapping, is_sequence, thaw

ARGUMENTS_JSON_PARSE_ERROR: Final = "ARGUMENTS_JSON_PARSE_ERROR"
ARGUMENTS_TOO_LARGE: Final = "ARGUMENTS_TOO_LARGE"
ARGUMENT_ERROR: Final = "ARGUMENT_ERROR"
INTERNAL_ERROR: Final = "INTERNAL_ERROR"
TOOL_NOT_ALLOWED: Final = "TOOL_NOT_ALLOWED"
TOOL_OUTPUT_TOO_LARGE: Final = "TOOL_OUTPUT_TOO_LARGE"
TOOL_OUTPUT_SERIALIZATION_ERROR: Final = "TOOL_OUTPUT_SERIALIZATION_ERROR"
TOOL_TIMEOUT: Final = "TOOL_TIMEOUT"

MESSAGES: Mapping[str, str] = {
    ARGUMENTS_JSON_PARSE_ERROR: "The tool arguments were not a JSON object. Call again with a JSON object.",
    ARGUMENTS_TOO_LARGE: "The tool arguments exceed the size limit. Call again with shorter values.",
    TOOL_OUTPUT_TOO_LARGE: "The tool output exceeds the size limit and was withheld.",
    TOOL_OUTPUT_SERIALIZATION_ERROR: "The tool output could not be written as JSON.",
    TOOL_TIMEOUT: "The tool did not finish in time.",
}
"""The error texts for the model."""


def ok_envelope(tool_name: str, value: object) -> dict[str, object]:
    """Wrap a tool's result; a mapping with ``ok`` counts as an envelope and is normalised."""
    if is_mapping(value) and "ok" in value:
        return normal_envelope(tool_name, value)
    return _envelope(tool_name, ok=True, data=value if is_mapping(value) else {"value": value})


def error_envelope(
    tool_name: str, code: str, message: str | None = None, data: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Make the result of a call that failed."""
    error: JsonObject = {"code": code, "message": MESSAGES.get(code, "") if message is None else message}
    return _envelope(tool_name, ok=False, data=dict(data or {}), errors=[error])


def normal_envelope(tool_name: str, given: Mapping[str, object]) -> dict[str, object]:
    """Normalise an envelope that a tool made itself."""
    warnings, errors = given.get("warnings"), given.get("errors")
    return _envelope(
        str(given.get("tool_name") or tool_name),
        ok=given.get("ok") is True,
        data=_data(given.get("data")),
        warnings=list(warnings) if is_sequence(warnings) else [],
        errors=[_error(error) for error in errors if is_mapping(error)] if is_sequence(errors) else [],
    )


def error_codes(envelope: Mapping[str, object]) -> list[Json]:
    """The codes of an envelope's errors."""
    errors = envelope.get("errors")
    if not is_sequence(errors):
        return []
    return [thaw(error.get("code")) for error in errors if is_mapping(error)]


def _envelope(
    tool_name: str,
    *,
    ok: bool,
    data: Mapping[str, object],
    warnings: list[object] | None = None,
    errors: list[JsonObject] | None = None,
) -> dict[str, object]:
    return {"ok": ok, "tool_name": tool_name, "data": dict(data), "warnings": warnings or [], "errors": errors or []}


def _data(value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    return value if is_mapping(value) else {"value": value}


def _error(error: Mapping[str, object]) -> JsonObject:
    return {key: plain_text(error.get(key)) for key in ("code", "message")}
