"""Reads the arguments of a tool call, in any form that models write."""

from __future__ import annotations

import itertools
from dataclasses import field
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._text import strict_json
from tavernkit._text.coerce import trim_blanks
from tavernkit._values import Json, JsonObject, is_mapping, is_object, is_sequence, thaw_object
from tavernkit.vibe_tavern._code_fence import without_fence

ParseStatus = Literal["ok", "invalid_json", "too_large"]

_LABELS = tuple("".join(letters) for letters in itertools.product("jJ", "sS", "oO", "nN"))
"""``json`` in any case."""


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
        if size > max_bytes:
            return ParsedArguments("too_large", size)
        if is_mapping(arguments):
            return ParsedArguments("ok", size, thaw_object(arguments))
        return ParsedArguments("invalid_json", size)
    text = without_fence(trim_blanks(arguments), labels=_LABELS)
    if not text:
        return ParsedArguments("ok", size)
    trimmed_size = strict_json.byte_length(text)
    if trimmed_size > max_bytes:
        return ParsedArguments("too_large", trimmed_size)
    try:
        value = strict_json.loads(text)
        if isinstance(value, str):
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
