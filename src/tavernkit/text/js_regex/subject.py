"""The text a regex runs on, in the form the engine needs.

The engine reads UTF-8 and counts code points; JavaScript without the ``u`` or ``v`` flag counts UTF-16 code units. A
text with characters outside the basic plane is therefore given to the engine with each code unit as one character:
surrogates are moved to :data:`SURROGATE_PLANE`, whose own characters cannot occur there, being two surrogates, too.
"""

from __future__ import annotations

import re

from tavernkit.text.js_regex.limits import SUBJECT_CACHE_SIZE
from tavernkit.text.js_values.strings import has_astral, join_surrogates, python_index, utf16_index
from tavernkit.values import LRUCache

SURROGATE_PLANE = 0x50000
"""Added to a surrogate (U+D800 to U+DFFF) to get the character that stands for it: an unassigned plane."""

_STAND_IN_LEAD = b"\xf1\x9d"
"""The first bytes of every stand-in."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_STAND_IN = re.compile("[\U0005d800-\U0005dfff]")
_HIGH_PLANE = re.compile(rb"[\xf1-\xf4][\x80-\xbf]{3}")


def _stand_in(found: re.Match[str]) -> str:
    return chr(ord(found[0]) + SURROGATE_PLANE)


def _surrogate(found: re.Match[str]) -> str:
    return chr(ord(found[0]) - SURROGATE_PLANE)


def _halves(character: bytes) -> bytes:
    """Return the two stand-ins of a character outside the basic plane."""
    code = ord(character.decode()) - 0x10000
    high, low = 0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF)
    return (chr(SURROGATE_PLANE + high) + chr(SURROGATE_PLANE + low)).encode()


def _astral_characters(data: bytes) -> set[bytes]:
    """Find the characters outside the basic plane, without the stand-ins that are there already."""
    found = {b"\xf0" + rest[:3] for rest in data.split(b"\xf0")[1:]}
    if any(lead in data for lead in (b"\xf1", b"\xf2", b"\xf3", b"\xf4")):
        found.update(one for one in _HIGH_PLANE.findall(data) if not one.startswith(_STAND_IN_LEAD))
    return found


class Subject:
    """A text, and what the engine sees of it. ``plain`` text is ASCII: then the engine's offsets are the text's."""

    __slots__ = ("_cursor", "_data", "_halved", "_stand_ins", "_units", "engine_text", "plain", "text")

    def __init__(self, text: str, *, unicode: bool) -> None:
        self.text = text
        self.engine_text = text
        self.plain = text.isascii()
        if not self.plain:
            self._prepare(unicode)

    def _prepare(self, unicode: bool) -> None:
        self._units = self._stand_ins = False
        self._cursor = (0, 0)
        self._halved: dict[bytes, bytes] = {}
        try:
            self._data = self.text.encode()
        except UnicodeEncodeError:
            self._stand_ins = True
            self.text = join_surrogates(self.text)
            self.engine_text = _SURROGATE.sub(_stand_in, self.text)
            self._data = self.engine_text.encode()
        if unicode or not (self._stand_ins or has_astral(self.text)):
            return
        self._units = self._stand_ins = True
        for character in _astral_characters(self._data):
            self._halved[character] = _halves(character)
            self._data = self._data.replace(character, self._halved[character])
        self.engine_text = self._data.decode()

    @property
    def size(self) -> int:
        """The engine's offset of the end of the text."""
        return len(self.text) if self.plain else len(self._data)

    def cut(self, span: slice) -> str:
        """Return a part of the text by engine offsets; it may begin or end with half a character."""
        if self.plain:
            return self.text[span]
        part = self._data[span]
        if not self._stand_ins or _STAND_IN_LEAD not in part:
            return part.decode()
        for character, halves in self._halved.items():
            part = part.replace(halves, character)
        text = part.decode()
        return join_surrogates(_STAND_IN.sub(_surrogate, text)) if _STAND_IN_LEAD in part else text

    def join(self, parts: list[str]) -> str:
        """Put parts together again."""
        text = "".join(parts)
        return text if self.plain or not self._stand_ins else join_surrogates(text)

    def count(self, offset: int) -> int:
        """Count what the regex counts (characters, or units) up to an engine offset."""
        if self.plain:
            return offset
        # From where the last count ended: callers mostly go forward.
        at, count = self._cursor
        if offset >= at:
            count += len(self._data[at:offset].decode())
        else:
            count -= len(self._data[offset:at].decode())
        self._cursor = (offset, count)
        return count

    def python_offset(self, offset: int) -> int:
        """Turn an engine offset into an offset of the text."""
        counted = self.count(offset)
        return counted if self.plain or not self._units else python_index(self.text, counted)

    def utf16_offset(self, offset: int) -> int:
        """Turn an engine offset into a JavaScript offset."""
        counted = self.count(offset)
        return counted if self.plain or self._units else utf16_index(self.text, counted)

    def counted_offset(self, offset: int) -> int:
        """Turn an offset of the text into the number of things (characters or units) before it."""
        return offset if self.plain or not self._units else utf16_index(self.text, offset)


_cache: LRUCache[tuple[str, bool], Subject] = LRUCache(SUBJECT_CACHE_SIZE)


def subject_of(text: str, *, unicode: bool) -> Subject:
    """Return a text in the form the engine needs."""
    if text.isascii():
        return Subject(text, unicode=unicode)
    return _cache.get_or_make((text, unicode), lambda: Subject(text, unicode=unicode))
