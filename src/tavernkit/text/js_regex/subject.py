"""The text a regex runs on, in the form the engine needs.

The engine reads UTF-8 and counts code points; JavaScript without the ``u`` or ``v`` flag counts UTF-16 code units. A
text with characters outside the basic plane is therefore given to the engine with each code unit as one character:
surrogates are moved to :data:`SURROGATE_PLANE`, whose own characters cannot occur there, being two surrogates, too.
"""

from __future__ import annotations

import re

from tavernkit.text.js_values.strings import is_basic, join_surrogates, python_index, utf16_index

SURROGATE_PLANE = 0x50000
"""Added to a surrogate (U+D800 to U+DFFF) to get the character that stands for it: an unassigned plane."""

_ASTRAL_OR_SURROGATE = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STAND_IN = re.compile("[\U0005d800-\U0005dfff]")


def _stand_in(found: re.Match[str]) -> str:
    return chr(ord(found[0]) + SURROGATE_PLANE)


def _stand_in_units(found: re.Match[str]) -> str:
    code = ord(found[0]) - 0x10000
    if code < 0:
        return _stand_in(found)
    return chr(SURROGATE_PLANE + 0xD800 + (code >> 10)) + chr(SURROGATE_PLANE + 0xDC00 + (code & 0x3FF))


def _surrogate(found: re.Match[str]) -> str:
    return chr(ord(found[0]) - SURROGATE_PLANE)


def to_stand_ins(text: str) -> str:
    """Replace lone surrogates, which the engine cannot read, by their stand-ins."""
    return _SURROGATE.sub(_stand_in, text)


class Subject:
    """A text, and what the engine sees of it. All offsets of the engine are bytes of ``encoded``."""

    __slots__ = ("_cursor", "_encoded", "_stand_ins", "_units", "engine_text", "plain", "text")

    def __init__(self, text: str, *, unicode: bool) -> None:
        self.text = text
        self.engine_text = text
        self.plain = text.isascii()
        """Whether the engine's offsets are those of the text."""
        self._units = False
        self._stand_ins = False
        self._encoded = b""
        self._cursor = (0, 0)
        if not self.plain:
            self._prepare(unicode)

    def _prepare(self, unicode: bool) -> None:
        if unicode:
            if _SURROGATE.search(self.text):
                self._stand_ins = True
                self.text = join_surrogates(self.text)
                self.engine_text = to_stand_ins(self.text)
        elif not is_basic(self.text) or _SURROGATE.search(self.text):
            self._units = self._stand_ins = True
            self.engine_text = _ASTRAL_OR_SURROGATE.sub(_stand_in_units, self.text)
        self._encoded = self.engine_text.encode()

    @property
    def size(self) -> int:
        """The engine's offset of the end of the text."""
        return len(self.text) if self.plain else len(self._encoded)

    def cut(self, start: int, end: int) -> str:
        """Return a part of the text by engine offsets; it may begin or end with half a character."""
        if self.plain:
            return self.text[start:end]
        part = self._encoded[start:end].decode()
        return join_surrogates(_STAND_IN.sub(_surrogate, part)) if self._stand_ins else part

    def join(self, parts: list[str]) -> str:
        """Put parts together again."""
        return join_surrogates("".join(parts)) if self._stand_ins else "".join(parts)

    def python_offset(self, offset: int) -> int:
        """Turn an engine offset into an offset of the text."""
        counted = self.count(offset)
        return python_index(self.text, counted) if self._units else counted

    def utf16_offset(self, offset: int) -> int:
        """Turn an engine offset into a JavaScript offset."""
        counted = self.count(offset)
        return counted if self._units or self.plain else utf16_index(self.text, counted)

    def counted_offset(self, offset: int) -> int:
        """Turn an offset of the text into the number of things (characters or units) before it."""
        return utf16_index(self.text, offset) if self._units else offset

    def count(self, offset: int) -> int:
        """Count what the regex counts (characters, or units) up to an engine offset."""
        if self.plain:
            return offset
        # From where the last count ended: callers mostly go forward.
        at, count = self._cursor
        if offset >= at:
            count += len(self._encoded[at:offset].decode())
        else:
            count -= len(self._encoded[offset:at].decode())
        self._cursor = (offset, count)
        return count
