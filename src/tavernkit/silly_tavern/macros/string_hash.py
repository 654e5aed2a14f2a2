"""The hash that SillyTavern takes of texts: for timed lore effects and for ``{{pick}}``."""

from __future__ import annotations

import sys

_MASK = 0xFFFFFFFF
_UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


def code_units(text: str) -> memoryview[int]:
    """The UTF-16 code units of a text, lone surrogates included."""
    return memoryview(text.encode(_UTF16, "surrogatepass")).cast("H")


def string_hash(text: str) -> int:
    """Hash a text to 53 bits (cyrb53 with seed 0, over UTF-16 code units)."""
    first, second = 0xDEADBEEF, 0x41C6CE57
    for unit in code_units(text):
        first = (first ^ unit) * 2654435761 & _MASK
        second = (second ^ unit) * 1597334677 & _MASK
    first = ((first ^ first >> 16) * 2246822507 & _MASK) ^ ((second ^ second >> 13) * 3266489909 & _MASK)
    second = ((second ^ second >> 16) * 2246822507 & _MASK) ^ ((first ^ first >> 13) * 3266489909 & _MASK)
    return 4294967296 * (second & 2097151) + first
