"""Finds the JSON object in an answer that should be nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tavernkit.text.blank import trim_blanks
from tavernkit.values import Json, JsonObject, is_mapping, is_object, thaw_object
from tavernkit.vibe_tavern import strict_json
from tavernkit.vibe_tavern.limits import MAX_DIRECTIVES_BYTES, SAMPLE_CHARACTERS

_WRAPPERS = tuple(re.compile(rf"<{tag}>(.+?)</{tag}>", re.DOTALL) for tag in ("directives", "json"))
_FENCE = re.compile(r"```(?:json)?[ \t\r\n\f\v]*(.*?)[ \t\r\n\f\v]*```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParseResult:
    """The object that was found, or the code of what was wrong: EMPTY, TOO_LARGE, NOT_OBJECT, INVALID_JSON."""

    value: JsonObject | None = None
    code: str | None = None
    details: JsonObject | None = None

    @property
    def ok(self) -> bool:
        """Whether an object was found."""
        return self.code is None

    def to_dict(self) -> JsonObject:
        """The result as JSON."""
        if self.code is None:
            return {"ok": True, "value": self.value}
        failure: JsonObject = {"ok": False, "code": self.code}
        if self.details is not None:
            failure["details"] = self.details
        return failure


def parse_json(content: object, *, max_bytes: int = MAX_DIRECTIVES_BYTES, repair: bool = False) -> ParseResult:
    """Read a JSON object from an answer, out of tags, code fences or surrounding prose if need be.

    ``repair`` also takes what is nearly JSON (a trailing comma, a missing brace, an earlier ``{`` in prose); without
    it, what is not JSON is refused, so that the model can be asked again.
    """
    if is_mapping(content):
        return ParseResult(value=thaw_object(content))
    text = "" if content is None else trim_blanks(str(content))
    if not text:
        return ParseResult(code="EMPTY")
    if strict_json.byte_length(text) > max_bytes:
        return ParseResult(code="TOO_LARGE", details={"max_bytes": max_bytes})
    inner = _unwrapped(text)
    try:
        return _object_or_error(strict_json.loads(inner))
    except ValueError:
        pass
    for candidate in _balanced_objects(inner, only_first=not repair):
        try:
            return _object_or_error(strict_json.loads(candidate))
        except ValueError:
            continue
    repaired = _repaired(inner) if repair else None
    if repaired is not None:
        return ParseResult(value=repaired)
    return ParseResult(code="INVALID_JSON", details={"sample": text[:SAMPLE_CHARACTERS]})


def _object_or_error(value: Json) -> ParseResult:
    return ParseResult(value=value) if is_object(value) else ParseResult(code="NOT_OBJECT")


def _unwrapped(text: str) -> str:
    for wrapper in _WRAPPERS:
        match = wrapper.search(text)
        if match and trim_blanks(match.group(1)):
            text = trim_blanks(match.group(1))
            break
    fenced = _FENCE.fullmatch(text)
    return trim_blanks(fenced.group(1)) if fenced else text


def _balanced_objects(text: str, *, only_first: bool) -> Iterator[str]:
    start = text.find("{")
    while start >= 0:
        end = _closing_brace(text, start)
        if end is not None:
            yield text[start : end + 1]
        if only_first:
            return
        start = text.find("{", start + 1 if end is None else end + 1)


def _closing_brace(text: str, start: int) -> int | None:
    depth = 0
    in_string = escaped = False
    for position in range(start, len(text)):
        character = text[position]
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return position
    return None


def _repaired(text: str) -> JsonObject | None:
    import json_repair

    start = text.find("{")
    if start < 0:
        return None
    value: object = json_repair.loads(text[start:])
    try:
        checked = strict_json.loads(strict_json.compact(value))
    except (ValueError, TypeError):
        return None
    return checked if is_object(checked) and checked else None
