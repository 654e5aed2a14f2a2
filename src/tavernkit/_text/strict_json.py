"""JSON of models, providers and tools: strict (no NaN, no comments, bounded nesting), compact, out of code fences."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, NoReturn

from tavernkit._text.coerce import trim_blanks
from tavernkit._values import Json, is_mapping, is_sequence, thaw
from tavernkit.errors import LimitExceededError

MAX_JSON_NESTING: Final = 100
"""Nesting of JSON that a model, a provider or a tool may send."""

_STRUCTURE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
FENCE: Final = "```"


def loads(text: str) -> Json:
    """Parse JSON text; anything that is not strict JSON is a ``ValueError``."""
    if is_too_deep(text):
        raise ValueError(f"nested deeper than {MAX_JSON_NESTING}")
    return json.loads(text, parse_constant=_refuse_constant)


def compact(value: object) -> str:
    """Write a value as compact JSON text; values that JSON cannot represent raise ``ValueError`` or ``TypeError``."""
    plain = _plain(value)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, which can only be sent escaped
        return json.dumps(plain, allow_nan=False, separators=(",", ":"))
    return text


def plain_text(value: object) -> str:
    """Return a value as text: None is empty, values that are not text become JSON."""
    if isinstance(value, bool) or is_sequence(value) or is_mapping(value):
        try:
            return json.dumps(_plain(value), ensure_ascii=False)
        except (ValueError, TypeError, RecursionError):
            return str(value)
    return "" if value is None else str(value)


def _plain(value: object) -> Json:
    try:
        return thaw(value)
    except LimitExceededError as error:  # a value that contains itself
        raise ValueError(str(error)) from error


def byte_length(text: str) -> int:
    """Bytes of the text in UTF-8; lone surrogates count as three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def is_too_deep(text: str) -> bool:
    """Return True if a text is nested too deeply, without parsing it, because a parser would recurse first."""
    if text.count("[") + text.count("{") <= MAX_JSON_NESTING:
        return False
    depth = 0
    for match in _STRUCTURE.finditer(text):
        token = match.group()
        if token in "[{":
            depth += 1
            if depth > MAX_JSON_NESTING:
                return True
        elif token in "]}":
            depth -= 1
    return False


def without_fence(text: str, *, labels: Sequence[str]) -> str:
    """Return the content of a text that is a single code fence, else the text; known labels are removed."""
    if len(text) < 2 * len(FENCE) or not (text.startswith(FENCE) and text.endswith(FENCE)):
        return text
    inner = text[len(FENCE) : -len(FENCE)]
    label = next((label for label in labels if inner.startswith(label)), "")
    return trim_blanks(inner.removeprefix(label))
