"""MessagePack as in RisuAI's files: JSON-like data, byte strings, dates and ``undefined``."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import MAX_SAFE_INTEGER, to_string
from tavernkit._text.js_values.numbers import as_float
from tavernkit._values import Json, is_mapping, is_sequence
from tavernkit.risu_ai._limits import MAX_PACK_DEPTH

Packed: TypeAlias = "bool | int | float | str | bytes | datetime | list[Packed] | dict[str, Packed] | None"
"""The values of a MessagePack file."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MessagePackError(ValueError):
    """The bytes are not MessagePack, or nest too deeply."""


class BigInteger(int):
    """A whole number that JavaScript reads as a ``BigInt``."""


class _Missing:
    """msgpackr's ``undefined``."""


class _Opened:
    """A list or map has begun; its items follow."""


MISSING, OPENED, NO_KEY = _Missing(), _Opened(), _Missing()


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A parsed value: ``end`` is where it ends, ``problem`` says why the rest of damaged data is missing."""

    value: Packed
    end: int
    problem: str = ""


def as_double(number: float) -> float:
    """Return a whole number as JavaScript has it: beyond 53 bits it is rounded."""
    return number if abs(number) <= MAX_SAFE_INTEGER else float(number)


def unpack(data: bytes) -> Packed:
    """Read one value. Map entries and list items that are ``undefined`` are missing and null."""
    return read_packed(data).value


def read_packed(
    data: bytes,
    *,
    big_integers: bool = False,
    salvage: bool = False,
    max_depth: int = MAX_PACK_DEPTH,
    undefined: Packed = None,
) -> Unpacked:
    """Read one value and return it with its end.

    Args:
        data: MessagePack, possibly followed by other data.
        big_integers: Read the 64-bit forms of whole numbers as ``BigInteger``.
        salvage: Return the readable part of damaged data instead of raising.
        max_depth: How deeply lists and maps may nest.
        undefined: What an undefined item of a list becomes; in maps it is left out.

    Raises:
        MessagePackError: The data is damaged (without ``salvage``), or completely unreadable.
    """
    reader = _Reader(data, big_integers, max_depth, undefined)
    try:
        value, problem = reader.read(), ""
    except MessagePackError as error:
        value, problem = reader.close(), str(error)
        if not salvage or value is MISSING:
            raise
    return Unpacked(None if isinstance(value, _Missing) else value, reader.at, problem)


class _Reader:
    """Reads without recursion, with its own stack."""

    def __init__(self, data: bytes, big_integers: bool, max_depth: int, undefined: Packed) -> None:
        self.at = 0
        self._undefined = undefined
        self._data = data
        self._big = big_integers
        self._max_depth = max_depth
        self._container: list[Packed] | dict[str, Packed] | None = None
        self._left = 0
        self._key: str | _Missing = NO_KEY
        self._waiting: list[tuple[list[Packed] | dict[str, Packed] | None, int, str | _Missing]] = []

    def read(self) -> Packed | _Missing:
        while True:
            value = self._next()
            if isinstance(value, _Opened):
                continue
            while True:
                container = self._container
                if container is None:
                    return value
                if isinstance(container, list):
                    container.append(self._undefined if isinstance(value, _Missing) else value)
                elif isinstance(self._key, _Missing):
                    self._key = self._as_key(value)
                    break
                else:
                    if not isinstance(value, _Missing):
                        container[self._key] = value
                    self._key = NO_KEY
                self._left -= 1
                if self._left:
                    break
                value = container
                self._container, self._left, self._key = self._waiting.pop()

    def close(self) -> Packed | _Missing:
        """End all lists and maps that are open."""
        value: Packed | _Missing = MISSING
        while self._container is not None:
            if not isinstance(value, _Missing):
                if isinstance(self._container, list):
                    self._container.append(value)
                elif not isinstance(self._key, _Missing):
                    self._container[self._key] = value
            value = self._container
            self._container, self._left, self._key = self._waiting.pop()
        return value

    def _next(self) -> Packed | _Missing | _Opened:
        head = self._take(1)[0]
        if head <= 0x7F:
            return head
        if head >= 0xE0:
            return head - 0x100
        if head <= 0x8F:
            return self._open({}, head & 0x0F)
        if head <= 0x9F:
            return self._open([], head & 0x0F)
        if head <= 0xBF:
            return self._text(head & 0x1F)
        if head in _CONSTANTS:
            return _CONSTANTS[head]
        if head in _NUMBERS:
            number = self._number(_NUMBERS[head])
            if head not in _WIDE:
                return number
            return BigInteger(number) if self._big else as_double(number)
        if 0xC4 <= head <= 0xC6:
            return self._take(self._size(head - 0xC4))
        if 0xC7 <= head <= 0xC9:
            return self._extension(self._size(head - 0xC7))
        if 0xD4 <= head <= 0xD8:
            return self._extension(1 << (head - 0xD4))
        if 0xD9 <= head <= 0xDB:
            return self._text(self._size(head - 0xD9))
        if head in {0xDC, 0xDD}:
            return self._open([], self._size(head - 0xDB))
        if head in {0xDE, 0xDF}:
            return self._open({}, self._size(head - 0xDD))
        raise MessagePackError(f"byte {head:#x} at {self.at - 1} starts nothing")

    def _open(self, container: list[Packed] | dict[str, Packed], size: int) -> Packed | _Opened:
        if not size:
            return container
        if len(self._waiting) >= self._max_depth:
            raise MessagePackError(f"the data nests deeper than {self._max_depth}")
        self._waiting.append((self._container, self._left, self._key))
        self._container, self._left, self._key = container, size, NO_KEY
        return OPENED

    def _as_key(self, value: Packed | _Missing) -> str:
        if isinstance(value, str):
            # msgpackr keeps the prototype out of reach.
            return "__proto_" if value == "__proto__" else value
        if isinstance(value, (dict, list)):  # as text, nested keys double in size with every level
            raise MessagePackError(f"a key before {self.at} is a {type(value).__name__}")
        return to_string(value) if isinstance(value, (int, float)) or value is None else str(value)

    def _take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self._data):
            raise MessagePackError("the data is cut off")
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def _number(self, kind: str) -> int | float:
        return struct.unpack(kind, self._take(struct.calcsize(kind)))[0]

    def _size(self, width: int) -> int:
        return int(self._number(_SIZES[width]))

    def _text(self, size: int) -> str:
        return self._take(size).decode("utf-8", "replace")

    def _extension(self, size: int) -> Packed | _Missing:
        kind = self._number(">b")
        data = self._take(size)
        if kind == 0:
            return MISSING
        if kind == -1 and size in _TIMES:
            return _date(data)
        raise MessagePackError(f"extension {kind} is not known")


_SIZES = {0: ">B", 1: ">H", 2: ">I"}
_TIMES = frozenset({4, 8, 12})
_WIDE = frozenset({0xCF, 0xD3})
_CONSTANTS: dict[int, bool | None] = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = dict(
    zip(range(0xCA, 0xD4), (">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), strict=True),
)


def _date(data: bytes) -> datetime | None:
    """Read a timestamp; None if it is out of range."""
    if len(data) == 4:
        seconds, nanoseconds = int.from_bytes(data, "big"), 0
    elif len(data) == 8:
        both = int.from_bytes(data, "big")
        seconds, nanoseconds = both & (2**34 - 1), both >> 34
    else:
        nanoseconds, seconds = struct.unpack(">Iq", data)
    try:
        return EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    except OverflowError:
        return None


def as_json(value: Packed) -> Json:
    """Return a value as JavaScript writes it to JSON: a date is a text, bytes are an object of numbers, NaN is null."""
    if type(value) in _JSON_SCALARS:
        return value  # pyright: ignore[reportReturnType]  # the checker does not know the scalars
    if isinstance(value, dict):
        return {key: item if type(item) in _JSON_SCALARS else as_json(item) for key, item in value.items()}  # pyright: ignore[reportReturnType]  # as above
    if isinstance(value, list):
        return [item if type(item) in _JSON_SCALARS else as_json(item) for item in value]  # pyright: ignore[reportReturnType]  # as above
    if isinstance(value, bytes):
        return {str(place): byte for place, byte in enumerate(value)}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


_JSON_SCALARS = frozenset({str, int, bool, type(None)})


def pack(value: object) -> bytes:
    """Write JSON-like data, bytes and dates.

    Whole numbers beyond 32 bits are written as floats, as RisuAI does: it would read the 64-bit forms as big integers.
    """
    out = bytearray()
    try:
        _write(value, out, 0)
    except RecursionError as error:  # the caller is deep in a stack of its own
        raise MessagePackError("the data nests too deeply for this process") from error
    return bytes(out)


def _write(value: object, out: bytearray, depth: int) -> None:
    if depth > MAX_PACK_DEPTH:
        raise MessagePackError(f"the data nests deeper than {MAX_PACK_DEPTH}")
    if value is None or isinstance(value, bool):
        out.append({None: 0xC0, False: 0xC2, True: 0xC3}[value])
    elif isinstance(value, (int, float)):
        _write_number(value, out)
    elif isinstance(value, str):
        data = value.encode("utf-8", "replace")
        if len(data) < 32:
            out.append(0xA0 | len(data))
        else:
            _write_size(len(data), (0xD9, 0xDA, 0xDB), out)
        out += data
    elif isinstance(value, (bytes, bytearray)):
        _write_size(len(value), (0xC4, 0xC5, 0xC6), out)
        out += value
    elif isinstance(value, datetime):
        _write_date(value, out)
    elif is_mapping(value):
        _write_map(value, out, depth)
    elif is_sequence(value):
        if len(value) < 16:
            out.append(0x90 | len(value))
        else:
            _write_size(len(value), (None, 0xDC, 0xDD), out)
        for item in value:
            _write(item, out, depth + 1)
    else:
        raise MessagePackError(f"{type(value).__name__} cannot be packed")


def _write_map(value: Mapping[str, object], out: bytearray, depth: int) -> None:
    if len(value) < 16:
        out.append(0x80 | len(value))
    else:
        _write_size(len(value), (None, 0xDE, 0xDF), out)
    for key, item in value.items():
        _write(str(key), out, depth + 1)
        _write(item, out, depth + 1)


def _write_number(value: float, out: bytearray) -> None:
    if abs(value) <= MAX_SAFE_INTEGER and value == int(value):
        number = int(value)
        if 0 <= number <= 0x7F or -0x20 <= number < 0:
            out += struct.pack(">B", number & 0xFF)
            return
        for head, kind in ((0xCC, ">B"), (0xCD, ">H"), (0xCE, ">I"), (0xD0, ">b"), (0xD1, ">h"), (0xD2, ">i")):
            low, high = _RANGES[kind]
            if low <= number <= high:
                out.append(head)
                out += struct.pack(kind, number)
                return
    out.append(0xCB)
    out += struct.pack(">d", as_float(value))


def _write_date(value: datetime, out: bytearray) -> None:
    moment = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - EPOCH
    seconds = moment.days * 86_400 + moment.seconds
    out += b"\xc7\x0c\xff" + struct.pack(">Iq", moment.microseconds * 1000, seconds)


_RANGES = {
    ">B": (0, 0xFF),
    ">H": (0, 0xFFFF),
    ">I": (0, 0xFFFFFFFF),
    ">b": (-0x80, -1),
    ">h": (-0x8000, -1),
    ">i": (-0x80000000, -1),
}


def _write_size(size: int, heads: tuple[int | None, int, int], out: bytearray) -> None:
    for head, kind, limit in zip(heads, (">B", ">H", ">I"), (0xFF, 0xFFFF, 0xFFFFFFFF), strict=True):
        if head is not None and size <= limit:
            out.append(head)
            out += struct.pack(kind, size)
            return
    raise MessagePackError("the data is too large")
