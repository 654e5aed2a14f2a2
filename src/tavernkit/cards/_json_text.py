"""JSON texts from files, read safely and written exactly."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._values import SCALARS, Json, JsonObject, is_mapping, is_sequence, thaw
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits
from tavernkit.cards.errors import JsonError
from tavernkit.errors import LimitExceededError, Warn

MAX_DIGITS = 400
"""Integers with more digits are larger than any number that other programs can represent."""

_NO_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_STRING = re.compile(rb'"[^"]*"?')
_BRACKETS = re.compile(rb"[\[{]+|[\]}]+")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def decode_text(data: bytes, warn: Warn, *, what: str) -> str:
    """Decode UTF-8, or UTF-16 and UTF-32 if detected; invalid bytes become U+FFFD with a warning."""
    encoding = json.detect_encoding(data)
    if encoding != "utf-8":
        name = "UTF-8 with a byte order mark" if encoding == "utf-8-sig" else encoding.upper()
        warn(f"{what}: read as {name}; other programs expect plain UTF-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        warn(f"{what}: bytes at offset {error.start} are not {encoding.upper()} and were replaced by U+FFFD")
        return data.decode(encoding, errors="replace")


def parse_json(
    data: bytes | str, *, what: str, warn: Warn, limits: Limits = DEFAULT_LIMITS, exact: bool = False
) -> Json:
    """Parse JSON of bounded depth; raises ``JsonError`` or ``LimitExceededError``.

    Small damage (a byte order mark, bad UTF-8, control characters in texts, zero bytes at the end, repeated keys) is
    repaired with a warning. With ``exact`` it is read as in SillyTavern: UTF-8 without a mark, nothing repaired.

    Args:
        data: The JSON text, or its bytes.
        what: What the text is, for messages.
        warn: Called with each warning.
        limits: Limits on sizes and depth; by default ``DEFAULT_LIMITS``.
        exact: Repair nothing.
    """
    if isinstance(data, str):
        text = data
    else:
        text = data.decode("utf-8", errors="replace") if exact else decode_text(data, warn, what=what)
    if not exact:
        text = text.rstrip("\0")
    check_depth(text, limits.max_json_depth, what=what)
    reader = _Reader(what, warn)
    try:
        return reader.read(text, strict=True)
    except json.JSONDecodeError as error:
        if exact:
            raise _no_json(what, error) from error
    try:
        value = reader.read(text, strict=False)
    except json.JSONDecodeError as error:
        raise _no_json(what, error) from error
    warn(f"{what}: control characters inside texts were kept, though JSON does not allow them")
    return value


def _no_json(what: str, error: json.JSONDecodeError) -> JsonError:
    if not error.doc.strip():
        return JsonError(f"{what} is empty, not JSON")
    return JsonError(f"{what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}")


def check_depth(text: str, max_depth: int, *, what: str) -> None:
    """Refuse JSON that is nested too deeply, before a parser recurses into it."""
    if text.count("[") + text.count("{") <= max_depth:
        return
    unescaped = text.encode("utf-8", "surrogatepass").replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = unescaped.translate(None, _NO_STRUCTURE).replace(b'""', b"")
    depth = 0
    for run in _BRACKETS.findall(_STRING.sub(b"", structure)):
        depth += len(run) if run[:1] in b"[{" else -len(run)
        if depth > max_depth:
            raise LimitExceededError(f"{what}: nested deeper than {max_depth} levels", limit="max_json_depth")


def check_levels(value: object, max_depth: int, *, what: str) -> None:
    """Refuse a value that is nested too deeply to be read again, before it is written as JSON."""
    level: list[object] = [value]
    depth = 0
    while level:
        depth += 1
        if depth > max_depth:
            raise LimitExceededError(f"{what}: nested deeper than {max_depth} levels", limit="max_json_depth")
        level = [inner for each in level for inner in _inner(each) if type(inner) not in SCALARS]


def _inner(value: object) -> Iterable[object]:
    if is_mapping(value):
        return value.values()
    return value if is_sequence(value) else ()


@dataclass(slots=True)
class _Reader:
    what: str
    warn: Warn
    reported: set[str] = field(default_factory=set[str])

    def read(self, text: str, *, strict: bool) -> Json:
        try:
            return json.loads(
                text,
                strict=strict,
                parse_int=self.integer,
                parse_float=self.float,
                parse_constant=self.constant,
                object_pairs_hook=self.object,
            )
        except RecursionError as error:
            raise LimitExceededError(
                f"{self.what}: nested too deeply for this process", limit="max_json_depth"
            ) from error

    def integer(self, digits: str) -> int | None:
        return int(digits) if len(digits) <= MAX_DIGITS else self.too_large(digits)

    def float(self, digits: str) -> float | None:
        value = float(digits)
        return value if math.isfinite(value) else self.too_large(digits)

    def too_large(self, digits: str) -> None:
        self.report(f"the number {digits[:20]}… is too large for any program and was read as null")

    def constant(self, name: str) -> None:
        raise JsonError(f"{self.what}: {name} is not JSON")

    def object(self, pairs: list[tuple[str, Json]]) -> JsonObject:
        members = dict(pairs)
        if len(members) < len(pairs):
            twice, _ = next(item for item in Counter(key for key, _ in pairs).items() if item[1] > 1)
            self.report(f"the key {twice[:80]!r} is given twice; its last value was used")
        return members

    def report(self, message: str) -> None:
        if message not in self.reported and len(self.reported) < 20:
            self.reported.add(message)
            self.warn(f"{self.what}: {message}")


def dump_json(value: object, *, indent: int | None = None) -> str:
    """Write JSON, compact or indented. Only lone surrogates are escaped, so the text is valid UTF-8."""
    separators = (",", ": ") if indent is not None else (",", ":")
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators, default=thaw
        )
    except RecursionError as error:
        raise LimitExceededError("the JSON to write is nested too deeply", limit="max_json_depth") from error
    if text.isascii():  # checking every character takes longer than writing them
        return text
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
