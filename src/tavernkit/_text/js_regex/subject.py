"""The text that a regex is applied to, in the engine's form.

The engine reads UTF-8 and counts code points; JavaScript without the ``u`` or ``v`` flag counts UTF-16 code units. For
a pattern that can see the difference, a text with characters outside the basic plane is therefore passed to the engine
with each code unit as one character; for others (``tavernkit._text.js_regex.analysis``) characters stay whole.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from tavernkit._text.js_regex.limits import SUBJECT_CACHE_SIZE
from tavernkit._text.js_values.strings import has_astral, join_surrogates, utf16_index
from tavernkit._values import LRUCache

_PLANE = 0x50000
_FIRST, _LAST = 0xD800, 0xDFFF

STAND_IN_LEAD = b"\xf1\x9d"
"""The first bytes of every stand-in in UTF-8, and of a few characters below them."""

HALF_SIZE = 4
"""The bytes of a stand-in in UTF-8."""

_FIRST_LOW = 0xB0
"""From this third byte on, a stand-in is the second half of a pair."""

_PAIR = re.compile(rb"\xf1\x9d[\xa0-\xaf].\xf1\x9d[\xb0-\xbf].", re.DOTALL)
_ASTRAL = re.compile("[\U00010000-\U0005d7ff\U0005e000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STAND_IN = re.compile("[\U0005d800-\U0005dfff]")
_HIGH_PLANE = re.compile(rb"[\xf1-\xf4][\x80-\xbf]{3}")


def stand_in(code: int) -> int:
    """Return the stand-in of a surrogate; other characters are returned unchanged."""
    return code + _PLANE if _FIRST <= code <= _LAST else code


def to_stand_ins(text: str) -> str:
    """Replace the surrogates of a text with their stand-ins."""
    return _SURROGATE.sub(lambda found: chr(ord(found[0]) + _PLANE), text)


def from_stand_ins(text: str) -> str:
    """Replace stand-ins with their surrogates, and pairs with their character."""
    return join_surrogates(_STAND_IN.sub(lambda found: chr(ord(found[0]) - _PLANE), text))


def to_halves(text: str) -> str:
    """Replace each character outside the basic plane with its two stand-ins."""
    return _ASTRAL.sub(lambda found: halves(found[0].encode()).decode(), text)


def halves(character: bytes) -> bytes:
    """Return the two stand-ins of a character outside the basic plane, all in UTF-8."""
    code = ord(character.decode()) - 0x10000
    high, low = 0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF)
    return (chr(_PLANE + high) + chr(_PLANE + low)).encode()


def count_pairs(data: bytes) -> int:
    """Count the characters that are stored as two stand-ins."""
    return 0 if data.find(STAND_IN_LEAD) < 0 else len(_PAIR.findall(data))


def count_astral(text: str) -> int:
    """Count the characters outside the basic plane, without the stand-ins."""
    return len(_ASTRAL.findall(text))


def is_inside_pair(data: bytes, offset: int) -> bool:
    """Return True if an offset is between the two stand-ins of a character."""
    return (
        data.startswith(STAND_IN_LEAD, offset)
        and data[offset + 2] >= _FIRST_LOW
        and offset >= HALF_SIZE
        and data.startswith(STAND_IN_LEAD, offset - HALF_SIZE)
        and data[offset - 2] < _FIRST_LOW
    )


def astral_characters(data: bytes) -> set[bytes]:
    """Find the characters outside the basic plane in UTF-8, without existing stand-ins."""
    found = {b"\xf0" + rest[:3] for rest in data.split(b"\xf0")[1:]}
    if any(lead in data for lead in (b"\xf1", b"\xf2", b"\xf3", b"\xf4")):
        found.update(one for one in _HIGH_PLANE.findall(data) if _STAND_IN.fullmatch(one.decode()) is None)
    return found


def engine_ranges(first: int, last: int) -> list[tuple[int, int]]:
    """Split a range of characters so that its surrogates are stand-ins and it contains no other stand-ins."""
    parts = [
        (first, min(last, _FIRST - 1)),
        (max(first, _LAST + 1), min(last, _FIRST + _PLANE - 1)),
        (max(first, _LAST + _PLANE + 1), last),
    ]
    if first <= _LAST and last >= _FIRST:
        parts.append((max(first, _FIRST) + _PLANE, min(last, _LAST) + _PLANE))
    return [(low, high) for low, high in parts if low <= high]


_FEW = 16
"""Up to this many distinct characters are replaced one by one, which is faster than searching for any of them."""


class WideText:
    """A text with non-ASCII characters. It has a length and can be sliced like a text, by the engine's offsets."""

    __slots__ = ("_cursor", "_halved", "_lowered", "_stand_ins", "_units", "data", "engine_text", "text")

    def __init__(self, text: str, *, whole: bool) -> None:
        self.text = text
        self.engine_text = text
        """The text as the engine sees it."""
        self._units = self._stand_ins = False
        self._cursor = (0, 0, 0)
        self._lowered: str | None = None
        self._halved: dict[bytes, bytes] = {}
        try:
            self.data = self.text.encode()
        except UnicodeEncodeError:
            self._stand_ins = True
            self.text = join_surrogates(self.text)
            self.engine_text = to_stand_ins(self.text)
            self.data = self.engine_text.encode()
        if whole or not (self._stand_ins or has_astral(self.text)):
            return
        self._units = self._stand_ins = True
        characters = astral_characters(self.data)
        if len(characters) > _FEW:
            self.engine_text = to_halves(self.engine_text)
            self.data = self.engine_text.encode()
            return
        for character in characters:
            self._halved[character] = halves(character)
            self.data = self.data.replace(character, self._halved[character])
        self.engine_text = self.data.decode()

    def __len__(self) -> int:
        return len(self.data)

    @property
    def lowered(self) -> str:
        """The text in lower case."""
        if self._lowered is None:
            self._lowered = self.text.lower()
        return self._lowered

    def __getitem__(self, span: slice) -> str:
        """Return a part of the text; it may begin or end with half a character."""
        part = self.data[span]
        return self.decoded(part) if self._stand_ins and not part.isascii() else part.decode()

    def encoded(self, text: str) -> bytes | None:
        """Return another text in the same encoding as this one's data; None if that is not possible."""
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return None
        return data if data.find(STAND_IN_LEAD) < 0 else None

    def decoded(self, data: bytes) -> str:
        """Decode parts of the data; adjacent halves of a character are joined."""
        for character, two in self._halved.items():
            data = data.replace(two, character)
        text = data.decode()
        # Not "in", which first tries to read bytes as a number and is several times slower.
        return from_stand_ins(text) if self._stand_ins and data.find(STAND_IN_LEAD) >= 0 else text

    def count(self, offset: int) -> int:
        """Count characters or units, whichever the regex counts, up to an engine offset."""
        return self._counts(offset)[0]

    def python_offset(self, offset: int) -> int:
        """Convert an engine offset to an offset of the text."""
        counted, pairs = self._counts(offset)
        return counted - pairs if self._units else counted

    def utf16_offset(self, offset: int) -> int:
        """Convert an engine offset to a JavaScript offset."""
        counted, pairs = self._counts(offset)
        return counted if self._units else counted + pairs

    def _counts(self, offset: int) -> tuple[int, int]:
        """Count characters or units up to an engine offset, and the surrogate pairs in JavaScript.

        The middle of a pair counts as its start in Python.
        """
        inside = self._units and is_inside_pair(self.data, offset)
        end = offset - HALF_SIZE if inside else offset
        # Start where the last count ended: callers mostly move forward.
        at, counted, pairs = self._cursor
        step = 1 if end >= at else -1
        part = self.data[at:end] if step > 0 else self.data[end:at]
        text = part.decode()
        counted += step * len(text)
        pairs += step * (count_pairs(part) if self._units else count_astral(text))
        self._cursor = (end, counted, pairs)
        return (counted + 1, pairs + 1) if inside else (counted, pairs)

    def counted_offset(self, offset: int) -> int:
        """Convert an offset of the text to the number of characters or units before it."""
        return offset if not self._units else utf16_index(self.text, offset)


Subject: TypeAlias = "str | WideText"
"""A text that a regex is applied to; for ASCII, the engine's offsets are the text's own, so it needs no conversion."""


class SeenText:
    """A searched text: the original, its engine form, and the text that the engine sees."""

    __slots__ = ("searched", "subject", "text")

    def __init__(self, text: str, subject: Subject, searched: str) -> None:
        self.text = text
        self.subject = subject
        self.searched = searched


_cache: LRUCache[tuple[str, bool], WideText] = LRUCache(SUBJECT_CACHE_SIZE)
_last = {whole: ("", WideText("", whole=whole)) for whole in (False, True)}


def subject_of(text: str, *, whole: bool) -> Subject:
    """Return a text in the engine's form."""
    return text if text.isascii() else wide_text(text, whole)


def wide_text(text: str, whole: bool) -> WideText:
    """Return a text with characters beyond ASCII in the engine's form."""
    # Many expressions run on one text: checking for the last one is faster than a lookup.
    last, wide = _last[whole]
    if last is not text:
        wide = _cache.get_or_make((text, whole), lambda: WideText(text, whole=whole))
        _last[whole] = (text, wide)
    return wide


def engine_text(subject: Subject) -> str:
    """Return a text as the engine sees it."""
    return subject if isinstance(subject, str) else subject.engine_text
