"""JSON pointers (RFC 6901): their syntax, and reading and changing a document through them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

from tavernkit._values import Json, is_mapping, is_sequence
from tavernkit.errors import ConfigError

_INDEX = re.compile(r"0|[1-9][0-9]*")
_BAD_ESCAPE = re.compile(r"~(?![01])")
_MAX_INDEX_DIGITS = 9


def _text(token: object) -> str:
    if isinstance(token, bool):
        return "true" if token else "false"
    return "" if token is None else str(token)


def escape(token: object) -> str:
    """Escape a key or index for a pointer; None is the empty key."""
    return _text(token).replace("~", "~0").replace("/", "~1")


def unescape(token: object) -> str:
    """Read a key of a pointer."""
    token = _text(token)
    bad = _BAD_ESCAPE.search(token)
    if bad is None:
        return token.replace("~1", "/").replace("~0", "~")
    if bad.end() == len(token):
        raise ConfigError(f"{token!r} ends in ~, which must be written ~0", code="POINTER_TRAILING_TILDE")
    raise ConfigError(f"{token!r} has a ~ that is neither ~0 nor ~1", code="POINTER_BAD_ESCAPE")


def tokens(pointer: object) -> list[str]:
    """Split a pointer into keys; the empty pointer, which is the whole document, has none."""
    if not isinstance(pointer, str):
        raise ConfigError(f"a JSON pointer is text, not {type(pointer).__name__}", code="POINTER_NOT_A_STRING")
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise ConfigError(f"the JSON pointer {pointer!r} must begin with /", code="POINTER_NO_LEADING_SLASH")
    return [unescape(token) for token in pointer[1:].split("/")]


def from_tokens(keys: Iterable[object] | None) -> str:
    """Write keys and list indexes as a pointer; no keys mean the whole document, a text is one key."""
    listed = (keys,) if isinstance(keys, str) else keys or ()
    return "".join([f"/{escape(key)}" for key in listed])


def resolve(document: object, pointer: str, default: object = None) -> object:
    """Return the value at a pointer, or ``default`` if there is none."""
    value = document
    for token in tokens(pointer):
        if is_mapping(value) and token in value:
            value = value[token]
        elif is_sequence(value) and (index := _index(token, len(value))) is not None:
            value = value[index]
        else:
            return default
    return value


def set_value(document: object, pointer: str, value: object) -> Json:
    """Return a copy of a document with the value at a pointer replaced.

    A key is added if it is missing, an item of a list is replaced, ``-`` appends to a list. The parent must exist. Only
    the containers along the path are copied.
    """
    keys = tokens(pointer)
    if not keys:
        return cast("Json", value)
    root, parent = _copy_way(document, keys, pointer)
    if isinstance(parent, dict):
        parent[keys[-1]] = cast("Json", value)
    elif keys[-1] == "-":
        parent.append(cast("Json", value))
    else:
        parent[_existing(keys[-1], len(parent), pointer)] = cast("Json", value)
    return root


def delete(document: object, pointer: str) -> Json:
    """Return a copy of a document without the value at a pointer."""
    keys = tokens(pointer)
    if not keys:
        raise ConfigError("the whole document cannot be deleted from itself", code="POINTER_IS_ROOT")
    root, parent = _copy_way(document, keys, pointer)
    if isinstance(parent, list):
        del parent[_existing(keys[-1], len(parent), pointer)]
    elif keys[-1] in parent:
        del parent[keys[-1]]
    else:
        raise _not_found(pointer)
    return root


def _copy_way(document: object, keys: list[str], pointer: str) -> tuple[Json, dict[str, Json] | list[Json]]:
    """Copy a document along the path to the parent of the last key; return the copy and that parent."""
    root = part = _copy(document, pointer)
    for key in keys[:-1]:
        if isinstance(part, dict):
            if key not in part:
                raise _not_found(pointer)
            part[key] = inner = _copy(part[key], pointer)
        else:
            index = _existing(key, len(part), pointer)
            part[index] = inner = _copy(part[index], pointer)
        part = inner
    return root, part


def _copy(value: object, pointer: str) -> dict[str, Json] | list[Json]:
    if is_mapping(value):
        return cast("dict[str, Json]", dict(value))
    if is_sequence(value):
        return cast("list[Json]", list(value))
    raise _not_found(pointer)


def _index(token: str, length: int) -> int | None:
    if _INDEX.fullmatch(token) is None or len(token) > _MAX_INDEX_DIGITS or int(token) >= length:
        return None
    return int(token)


def _existing(token: str, length: int, pointer: str) -> int:
    index = _index(token, length)
    if index is None:
        raise _not_found(pointer)
    return index


def _not_found(pointer: str) -> ConfigError:
    return ConfigError(f"the document has nothing at {pointer!r}", code="POINTER_NOT_FOUND")
