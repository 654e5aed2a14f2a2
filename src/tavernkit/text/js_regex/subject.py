"""The text a regex runs on, in the form the engine needs.

The engine counts code points; JavaScript without the ``u`` or ``v`` flag counts UTF-16 code units. A text with
characters outside the basic plane is therefore given to the engine with each code unit as one character: surrogates
are moved to :data:`SURROGATE_PLANE`, whose own characters cannot occur there because they are surrogates, too.
"""

from __future__ import annotations

import re

from tavernkit.text.js_values.strings import is_basic, join_surrogates, python_index, utf16_index

SURROGATE_PLANE = 0x50000
"""Added to a surrogate (U+D800 to U+DFFF) to get the character that stands for it: an unassigned plane."""

_ASTRAL_OR_SURROGATE = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STAND_IN = re.compile("[\U0005d800-\U0005dfff]")


def _to_stand_ins(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return chr(code + SURROGATE_PLANE)
    code -= 0x10000
    return chr(SURROGATE_PLANE + 0xD800 + (code >> 10)) + chr(SURROGATE_PLANE + 0xDC00 + (code & 0x3FF))


def _from_stand_in(found: re.Match[str]) -> str:
    return chr(ord(found[0]) - SURROGATE_PLANE)


def to_units(text: str) -> str:
    """Write a text with one character for each UTF-16 code unit."""
    return _ASTRAL_OR_SURROGATE.sub(_to_stand_ins, text)


class Subject:
    """A text, and what the engine sees of it. ``engine_text`` has one character for each thing the regex counts."""

    __slots__ = ("engine_text", "text", "units")

    def __init__(self, text: str, *, unicode: bool) -> None:
        self.units = False
        self.text = text
        self.engine_text = text
        if text.isascii():
            return
        if unicode:
            if _SURROGATE.search(text):
                self.text = join_surrogates(text)
                self.engine_text = _SURROGATE.sub(_to_stand_ins, self.text)
        elif not is_basic(text) or _SURROGATE.search(text):
            self.units = True
            self.engine_text = to_units(text)

    def cut(self, start: int, end: int) -> str:
        """Return a part of the text by engine offsets; it may begin or end with half a character."""
        if not self.units:
            return self.text[start:end]
        return join_surrogates(_STAND_IN.sub(_from_stand_in, self.engine_text[start:end]))

    def python_offset(self, offset: int) -> int:
        """Turn an engine offset into an offset of the text."""
        return python_index(self.text, offset) if self.units else offset

    def utf16_offset(self, offset: int) -> int:
        """Turn an engine offset into a JavaScript offset."""
        return offset if self.units else utf16_index(self.text, offset)

    def engine_offset(self, offset: int) -> int:
        """Turn an offset of the text into an engine offset."""
        return utf16_index(self.text, offset) if self.units else offset
