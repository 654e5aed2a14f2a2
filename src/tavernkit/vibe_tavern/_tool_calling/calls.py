"""The format of tool calls and of their results: reads what models write, and makes what they get back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, Literal

from tavernkit._dataclass import dataclass
from tavernkit._text import strict_json
from tavernkit._text.coerce import trim_blanks
from tavernkit._text.strict_json import byte_length, plain_text, without_fence
from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, is_sequence, thaw, thaw_object
from tavernkit.vibe_tavern._limits import (
    MAX_TOOL_OUTPUT_DEPTH,
    MAX_TOOL_OUTPUT_ITEMS,
    MAX_TOOL_OUTPUT_KEYS,
    MAX_TOOL_OUTPUT_NODES,
)

ParseStatus = Literal["ok", "invalid_json", "too_large"]

_LABELS = tuple("".join(letters) for letters in itertools.product("jJ", "sS", "oO", "nN"))
"""``json`` in any case."""


def read_tool_calls(value: Json) -> list[JsonObject]:
    """Read calls from a list or a single object; other values are left out, ids are made unique."""
    listed = value if is_list(value) else [value] if is_object(value) else []
    return with_unique_ids([_trim(call) for call in listed if is_object(call)])


def with_unique_ids(calls: Sequence[JsonObject]) -> list[JsonObject]:
    """Make the ids of calls unique: missing ones are numbered, repeated ones get a suffix."""
    unique: list[JsonObject] = []
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    for position, call in enumerate(calls, start=1):
        base = identity = call_id(call) or f"tc_{position}"  # the position among all calls, so numbers may have gaps
        while identity in taken:
            number = numbers[base] = numbers.get(base, 1) + 1
            identity = f"{base}__{number}"
        taken.add(identity)
        unique.append({**call, "id": identity})
    return unique


def call_id(call: JsonObject) -> str:
    """Return the id of a call, or an empty text."""
    return trim_blanks(plain_text(call.get("id")))


def call_name(call: JsonObject) -> str:
    """Return the name of the called tool, or an empty text."""
    function = call.get("function")
    return trim_blanks(plain_text(function.get("name"))) if is_object(function) else ""


def call_arguments(call: JsonObject) -> Json:
    """Return the arguments as the model wrote them."""
    function = call.get("function")
    return function.get("arguments") if is_object(function) else None


def call_summary(call: JsonObject) -> JsonObject:
    """Return the summary of a call for events and traces."""
    return {"id": call_id(call), "name": call_name(call), "arguments_bytes": arguments_size(call_arguments(call))}


def _trim(call: JsonObject) -> JsonObject:
    trimmed = dict(call)
    function = call.get("function")
    if is_object(function):
        trimmed["function"] = {**function, "name": call_name(call)} if "name" in function else dict(function)
    if "id" in call:
        trimmed["id"] = call_id(call)
    return trimmed


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """The arguments as an object, or an error; ``size`` is in bytes."""

    status: ParseStatus
    size: int
    value: JsonObject = field(default_factory=dict[str, Json])


def parse_arguments(arguments: object, *, max_bytes: int) -> ParsedArguments:
    """Read arguments: JSON text (also in a code fence or encoded twice), an object, or None for no arguments."""
    if arguments is None:
        return ParsedArguments("ok", 0)
    size = arguments_size(arguments)
    if not isinstance(arguments, str):
        if size > max_bytes:  # a long list is too large rather than invalid
            return ParsedArguments("too_large", size)
        if is_mapping(arguments):
            return ParsedArguments("ok", size, thaw_object(arguments))
        return ParsedArguments("invalid_json", size)
    text = without_fence(trim_blanks(arguments), labels=_LABELS)
    if not text:
        return ParsedArguments("ok", size)
    # The limit is for what is parsed; events report the size with blanks and fence.
    trimmed_size = strict_json.byte_length(text)
    if trimmed_size > max_bytes:
        return ParsedArguments("too_large", trimmed_size)
    try:
        value = strict_json.loads(text)
        if isinstance(value, str):  # encoded twice; a third time is not accepted
            value = strict_json.loads(trim_blanks(value))
    except ValueError:
        return ParsedArguments("invalid_json", size)
    return ParsedArguments("ok", size, value) if is_object(value) else ParsedArguments("invalid_json", size)


def arguments_size(arguments: object) -> int:
    """Bytes of arguments: of the text, or of the JSON text of an object."""
    if arguments is None:
        return 0
    if isinstance(arguments, str):
        return strict_json.byte_length(arguments)
    if is_mapping(arguments) or is_sequence(arguments):
        try:
            return strict_json.byte_length(strict_json.compact(arguments))
        except (ValueError, TypeError, RecursionError):
            return len(repr(arguments))
    return strict_json.byte_length(str(arguments))


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
        ok=given.get("ok") is True,  # 1 and "true" are failures
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


# Quotes, commas and brackets do not count, so the JSON text of an accepted result may still be too long.
_NULL_BYTES = 4
_BOOLEAN_BYTES = 5
_OBJECT_BYTES = 64
_PRINTABLE_BITS = 10_000
"""Python refuses to print integers much longer than this."""


@dataclass(frozen=True, slots=True)
class OutputVerdict:
    """True if a result may be written; ``reason`` names the limit it exceeds."""

    estimated_bytes: int
    reason: str | None = None

    @property
    def ok(self) -> bool:
        """True if no limit was hit."""
        return self.reason is None


def check_output(value: object, *, max_bytes: int) -> OutputVerdict:
    """Walk a result and stop at the first limit. A container that was already visited is skipped, so cycles end."""
    walk = _Walk(max_bytes)
    try:
        walk.visit(value, 1)
    except _LimitHitError as hit:
        return OutputVerdict(walk.bytes, str(hit))
    return OutputVerdict(walk.bytes)


class _LimitHitError(Exception):
    pass


class _Walk:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._nodes = 0
        self._seen: set[int] = set()
        self.bytes = 0

    def visit(self, value: object, depth: int) -> None:
        if depth > MAX_TOOL_OUTPUT_DEPTH:
            raise _LimitHitError("MAX_DEPTH")
        self._nodes += 1
        if self._nodes > MAX_TOOL_OUTPUT_NODES:
            raise _LimitHitError("MAX_NODES")
        if is_mapping(value):
            self._mapping(value, depth)
        elif is_sequence(value):
            self._sequence(value, depth)
        else:
            self._add(self._scalar(value))

    def _mapping(self, value: Mapping[str, object], depth: int) -> None:
        if not self._is_new(value):
            return
        if len(value) > MAX_TOOL_OUTPUT_KEYS:
            raise _LimitHitError("MAX_HASH_KEYS")
        for key, item in value.items():
            self._add(byte_length(str(key)))
            self.visit(item, depth + 1)

    def _sequence(self, value: Sequence[object], depth: int) -> None:
        if not self._is_new(value):
            return
        if len(value) > MAX_TOOL_OUTPUT_ITEMS:
            raise _LimitHitError("MAX_ARRAY_ITEMS")
        for item in value:
            self.visit(item, depth + 1)

    def _scalar(self, value: object) -> int:
        if value is None:
            return _NULL_BYTES
        if isinstance(value, bool):
            return _BOOLEAN_BYTES
        if isinstance(value, str):
            size = byte_length(value)
            if size > self._max_bytes:
                raise _LimitHitError("STRING_TOO_LARGE")
            return size
        if isinstance(value, int):
            bits = value.bit_length()
            return len(str(value)) if bits < _PRINTABLE_BITS else bits // 3
        return len(str(value)) if isinstance(value, float) else _OBJECT_BYTES

    def _is_new(self, container: object) -> bool:
        if id(container) in self._seen:
            return False
        self._seen.add(id(container))
        return True

    def _add(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self._max_bytes:
            raise _LimitHitError("MAX_BYTES")
