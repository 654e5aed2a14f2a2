"""What can be read of a database in blocks that is damaged: the next block, and the whole parts of a JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from tavernkit.risu_ai._files.compression import GZIP

_KIND = re.compile(b"[\0-\6](?=[\0\1])")
_BODIES = (b'{"', b"{}", b"[{", b"[]")
"""How RisuAI's JSON of a block begins."""
_SPACE = re.compile(r"[ \t\r\n]*")


def find_block(data: bytes, start: int) -> int:
    """Return where the next block begins, or the end of the data.

    JSON escapes the bytes that a block begins with, so nothing in a block that is not compressed looks like another.
    """
    for found in _KIND.finditer(data, start):
        if _is_block(data, found.start()):
            return found.start()
    return len(data)


def _is_block(data: bytes, at: int) -> bool:
    name = at + 3
    body = name + int.from_bytes(data[at + 2 : name], "little") + 4
    if not data.startswith(GZIP if data[at + 1] else _BODIES, body):
        return False
    try:
        text = data[name : body - 4].decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() and '"' not in text  # a quote: it is JSON after a length that looks like a kind


def whole_parts(text: str, decoder: json.JSONDecoder) -> tuple[Mapping[str, object] | Sequence[object], str]:
    """Return the members of an object, or the items of a list, before the damage; and the last key.

    A value counts only with the comma or bracket after it: a number could be cut off.
    """
    members: dict[str, object] = {}
    items: list[object] = []
    at, last = _skip(text, 0), ""
    is_object = text[at : at + 1] == "{"
    more, end = bool(is_object or text[at : at + 1] == "["), "}" if is_object else "]"
    try:
        while more:
            at, key = _skip(text, at + 1), ""
            if is_object:
                key, at = _key(text, at, decoder)
            value, at = decoder.raw_decode(text, at)
            at = _skip(text, at)
            more = text[at : at + 1] == ","
            if not more and text[at : at + 1] != end:
                break
            members[key] = value
            items.append(value)
            last = key
    except (ValueError, RecursionError):
        pass
    return (members if is_object else items), last


def _key(text: str, at: int, decoder: json.JSONDecoder) -> tuple[str, int]:
    key, at = decoder.raw_decode(text, at)
    at = _skip(text, at)
    if not isinstance(key, str) or text[at : at + 1] != ":":
        raise ValueError("not a key")
    return key, _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
