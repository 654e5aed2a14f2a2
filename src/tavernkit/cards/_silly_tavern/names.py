"""File names that SillyTavern derives from character names."""

from __future__ import annotations

import re
from collections.abc import Container

from tavernkit.errors import InvalidCardError


class ImportRefusedError(InvalidCardError):
    """SillyTavern's importer refuses the file and answers HTTP 400."""


class ImportFailedError(InvalidCardError):
    """SillyTavern's importer throws; it answers HTTP 200 with ``{error: true}``."""


MAX_NAME_BYTES = 255

_ILLEGAL = re.compile(r'[/?<>\\:*|"]')
_CONTROL = re.compile(r"[\x00-\x1f\x80-\x9f]")
_DOTS = re.compile(r"\A\.+\Z")
_RESERVED = re.compile(r"\A(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?\Z", re.IGNORECASE | re.DOTALL)
_TRAILING = re.compile(r"(?<![. ])[. ]++\Z")


def sanitize(name: object, replacement: str = "") -> str:
    """Remove characters that a file name cannot have; raises ``ImportFailedError`` if the name is not text."""
    if not isinstance(name, str):
        raise ImportFailedError(f"the name is {type(name).__name__}, not a string")
    for pattern in (_ILLEGAL, _CONTROL, _DOTS, _RESERVED, _TRAILING):
        name = pattern.sub(replacement, name)
    return _cut(name)


def _cut(name: str) -> str:
    encoded = name.encode("utf-8", errors="replace")
    return name if len(encoded) <= MAX_NAME_BYTES else encoded[:MAX_NAME_BYTES].decode("utf-8", errors="ignore")


def free_name(name: str, taken: Container[str]) -> str:
    """Return the name, or the name with the first number that makes it unique."""
    if not name:
        raise ImportFailedError("the character has no name that could be a file name")
    if len(f"{name}.png".encode("utf-8", errors="replace")) > MAX_NAME_BYTES:
        raise ImportRefusedError("the name is too long for a file")
    chosen, number = name, 0
    while chosen in taken:
        number += 1
        chosen = f"{name}{number}"
    return chosen
