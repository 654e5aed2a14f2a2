"""Finds the JSON object in an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from tavernkit._dataclass import dataclass
from tavernkit._text import strict_json
from tavernkit._text.coerce import trim_blanks
from tavernkit._text.strict_json import without_fence
from tavernkit._values import Json, JsonObject, is_mapping, is_object, thaw_object
from tavernkit.vibe_tavern._limits import (
    MAX_DIRECTIVES_BYTES,
    MAX_OBJECTS_TRIED,
    MAX_REPAIRED_BYTES,
    SAMPLE_CHARACTERS,
)

_WRAPPERS = ("directives", "json")
_STRUCTURE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}]', re.DOTALL)
"""Braces, and whole strings, so that braces inside them do not count."""


@dataclass(frozen=True, slots=True)
class ParseResult:
    """The object that was found, or an error code: EMPTY, TOO_LARGE, NOT_OBJECT, INVALID_JSON."""

    value: JsonObject | None = None
    code: str | None = None
    details: JsonObject | None = None

    @property
    def ok(self) -> bool:
        """True if an object was found."""
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
    """Read a JSON object from an answer, even inside tags, code fences or prose.

    ``repair`` also accepts text that is nearly JSON (a trailing comma, a missing brace, an earlier ``{`` in prose);
    without it, such text is refused, so that the model can be asked again.
    """
    if is_mapping(content):
        return ParseResult(value=thaw_object(content))
    text = "" if content is None else trim_blanks(str(content))
    if not text:
        return ParseResult(code="EMPTY")
    if strict_json.byte_length(text) > max_bytes:
        return ParseResult(code="TOO_LARGE", details={"max_bytes": max_bytes})
    inner = _unwrap(text)
    try:
        return _object_or_error(strict_json.loads(inner))
    except ValueError:
        pass
    for candidate in islice(_balanced_objects(inner), MAX_OBJECTS_TRIED if repair else 1):
        try:
            return _object_or_error(strict_json.loads(candidate))
        except ValueError:
            continue
    repaired = _repair(inner) if repair else None
    if repaired is not None:
        return ParseResult(value=repaired)
    return ParseResult(code="INVALID_JSON", details={"sample": text[:SAMPLE_CHARACTERS]})


def _object_or_error(value: Json) -> ParseResult:
    return ParseResult(value=value) if is_object(value) else ParseResult(code="NOT_OBJECT")


def _unwrap(text: str) -> str:
    for tag in _WRAPPERS:
        inner = _inside(text, f"<{tag}>", f"</{tag}>")
        if inner:
            text = inner
            break
    return without_fence(text, labels=("json",))


def _inside(text: str, opening: str, closing: str) -> str:
    start = text.find(opening)
    if start < 0:
        return ""
    start += len(opening)
    end = text.find(closing, start)
    return trim_blanks(text[start:end]) if end >= 0 else ""


def _balanced_objects(text: str) -> Iterator[str]:
    """Yield balanced ``{...}`` parts of a text; an unclosed brace gives an empty one."""
    start = text.find("{")
    while start >= 0:
        end = _closing_brace(text, start)
        yield "" if end is None else text[start : end + 1]
        start = text.find("{", start + 1 if end is None else end + 1)


def _closing_brace(text: str, start: int) -> int | None:
    depth = 0
    for token in _STRUCTURE.finditer(text, start):
        if token.group() == "{":
            depth += 1
        elif token.group() == "}":
            depth -= 1
            if depth == 0:
                return token.start()
    return None


def _repair(text: str) -> JsonObject | None:
    import json_repair

    start = text.find("{")
    nearly = text[start:] if start >= 0 else ""
    if not nearly or strict_json.byte_length(nearly) > MAX_REPAIRED_BYTES or strict_json.is_too_deep(nearly):
        return None
    try:
        checked = strict_json.loads(strict_json.compact(json_repair.loads(nearly)))
    except Exception:  # noqa: BLE001  # foreign code: it also fails assertions of its own
        return None
    return checked if is_object(checked) and checked else None
