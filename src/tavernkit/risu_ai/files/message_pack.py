"""MessagePack, as far as JSON-like data and byte strings need it."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import TypeAlias

from tavernkit.risu_ai.limits import MAX_PACK_DEPTH
from tavernkit.values import is_mapping, is_sequence

Packed: TypeAlias = "bool | int | float | str | bytes | list[Packed] | dict[str, Packed] | None"
"""What a MessagePack file can hold here."""

MAX_SAFE_INTEGER = 2**53 - 1


class MessagePackError(ValueError):
    """The bytes are not MessagePack, or nest too deeply."""


class _Missing:
    """msgpackr's ``undefined``."""


MISSING = _Missing()
_SIZES = {0: ">B", 1: ">H", 2: ">I"}


def unpack(data: bytes) -> Packed:
    """Read one value. Map entries and list items that are ``undefined`` are missing and null."""
    try:
        value = _Reader(data).value(0)
    except RecursionError as error:  # the caller is deep in a stack of its own
        raise MessagePackError("the data nests too deeply for this process") from error
    return None if isinstance(value, _Missing) else value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self, depth: int) -> Packed | _Missing:
        if depth > MAX_PACK_DEPTH:
            raise MessagePackError(f"the data nests deeper than {MAX_PACK_DEPTH}")
        head = self._take(1)[0]
        if head <= 0x7F:
            return head
        if head >= 0xE0:
            return head - 0x100
        if head <= 0x8F:
            return self._map(head & 0x0F, depth)
        if head <= 0x9F:
            return self._list(head & 0x0F, depth)
        if head <= 0xBF:
            return self._text(head & 0x1F)
        return self._long(head, depth)

    def _long(self, head: int, depth: int) -> Packed | _Missing:
        if head in _CONSTANTS:
            return _CONSTANTS[head]
        if head in _NUMBERS:
            return self._number(_NUMBERS[head])
        if 0xC4 <= head <= 0xC6:
            return self._take(self._size(head - 0xC4))
        if 0xC7 <= head <= 0xC9:
            return self._extension(self._size(head - 0xC7))
        if 0xD4 <= head <= 0xD8:
            return self._extension(1 << (head - 0xD4))
        if 0xD9 <= head <= 0xDB:
            return self._text(self._size(head - 0xD9))
        if head in {0xDC, 0xDD}:
            return self._list(self._size(head - 0xDB), depth)
        if head in {0xDE, 0xDF}:
            return self._map(self._size(head - 0xDD), depth)
        raise MessagePackError(f"byte {head:#x} at {self._at - 1} starts nothing")

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise MessagePackError("the data is cut off")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _number(self, kind: str) -> int | float:
        return struct.unpack(kind, self._take(struct.calcsize(kind)))[0]

    def _size(self, width: int) -> int:
        return int(self._number(_SIZES[width]))

    def _text(self, size: int) -> str:
        return self._take(size).decode("utf-8", "replace")

    def _list(self, size: int, depth: int) -> Packed:
        found: list[Packed] = []
        for _ in range(size):  # no comprehension: it would cost two more frames a level
            item = self.value(depth + 1)
            found.append(None if isinstance(item, _Missing) else item)
        return found

    def _map(self, size: int, depth: int) -> Packed:
        found: dict[str, Packed] = {}
        for _ in range(size):
            key, value = self.value(depth + 1), self.value(depth + 1)
            if isinstance(key, (dict, list)):  # as text, keys in keys double with every level
                raise MessagePackError(f"a key before {self._at} is a {type(key).__name__}")
            if not isinstance(value, _Missing):
                found[key if isinstance(key, str) else str(key)] = value
        return found

    def _extension(self, size: int) -> _Missing:
        kind = self._number(">b")
        self._take(size)
        if kind != 0:
            raise MessagePackError(f"extension {kind} is not known")
        return MISSING


_CONSTANTS: dict[int, bool | None] = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = dict(
    zip(range(0xCA, 0xD4), (">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), strict=True),
)


def pack(value: object) -> bytes:
    """Write JSON-like data; whole numbers beyond JavaScript's safe ones are written as floats, as JavaScript would."""
    out = bytearray()
    _write(value, out, 0)
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
    if math.isfinite(value) and value == int(value) and abs(value) <= MAX_SAFE_INTEGER:
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
    out += struct.pack(">d", value)


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
