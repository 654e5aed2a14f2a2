"""JSON texts from files, read safely and written exactly; in pictures they are base64."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import string
from collections import Counter
from collections.abc import Iterable
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._values import SCALARS, Json, JsonObject, is_mapping, is_sequence, thaw
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits
from tavernkit.cards.errors import EncryptedCardError, JsonError
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
    """Write JSON, compact or indented. Only lone surrogates are escaped, so the text is valid UTF-8.

    NaN and infinity, which saves can contain and JSON cannot, become null, as ``JSON.stringify`` writes them.
    """
    separators = (",", ": ") if indent is not None else (",", ":")

    def written(value: object) -> str:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators, default=thaw
        )

    try:
        try:
            text = written(value)
        except ValueError:
            text = written(json.loads(json.dumps(value, default=thaw), parse_constant=lambda _: None))
    except RecursionError as error:
        raise LimitExceededError("the JSON to write is nested too deeply", limit="max_json_depth") from error
    if text.isascii():  # checking every character takes longer than writing them
        return text
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_URL_SAFE = bytes.maketrans(b"-_", b"+/")
# Deleted with ``translate``: a pattern would make a list of millions of pieces.
_FOREIGN = bytes(set(range(256)) - set(string.ascii_letters.encode() + string.digits.encode() + b"+/"))
_WHITESPACE = string.whitespace.encode()
_ENCRYPTED = b"rcc||"


def decode_base64(data: bytes) -> bytes:
    """Decode base64 leniently: skip other characters, stop at the first ``=``, accept URL-safe letters."""
    letters = data.partition(b"=")[0].translate(_URL_SAFE).translate(None, _FOREIGN)
    usable = len(letters) - (len(letters) % 4 == 1)
    return binascii.a2b_base64(letters[:usable] + b"=" * (-usable % 4))


def decode_payload(data: bytes, *, what: str, limits: Limits, warn: Warn) -> Json:
    """Read a card from the text of a picture; raises ``JsonError`` if it is not JSON."""
    text = data.strip(b"\0\t\n\r ")
    if text.startswith(_ENCRYPTED):
        raise EncryptedCardError(f"{what}: the card is encrypted by RisuAI and needs its password there")
    if text[:1] in (b"{", b"[") or text.startswith(b"\xef\xbb\xbf"):
        warn(f"{what}: plain JSON where base64 is expected")
        return parse_json(text, what=what, warn=warn, limits=limits)
    compact = text.translate(None, _WHITESPACE)
    try:
        decoded = binascii.a2b_base64(compact, strict_mode=True)
    except binascii.Error:
        decoded = decode_base64(compact)
        warn(f"{what}: the base64 has invalid characters, which were skipped")
    if not decoded:
        raise JsonError(f"{what}: the text is empty or not base64")
    return parse_json(decoded, what=what, warn=warn, limits=limits)


def encode_payload(card: object) -> bytes:
    """Write a card as the text of a picture."""
    return base64.b64encode(dump_json(card).encode())
