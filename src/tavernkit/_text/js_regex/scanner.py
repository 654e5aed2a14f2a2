"""Reads the source of a pattern character by character, and collects what must be known before parsing."""

from __future__ import annotations

import re

from tavernkit._text.js_values.strings import join_surrogates
from tavernkit.errors import TavernKitError

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_SURVEYED = re.compile(r"[\\\[(]")
_MAX_SHOWN = 1000
_HEX = frozenset("0123456789abcdefABCDEF")
MAX_CODE_POINT = 0x10FFFF

STRING_PROPERTIES = frozenset(
    {
        *("Basic_Emoji", "Emoji_Keycap_Sequence", "RGI_Emoji", "RGI_Emoji_Modifier_Sequence"),
        *("RGI_Emoji_Flag_Sequence", "RGI_Emoji_Tag_Sequence", "RGI_Emoji_ZWJ_Sequence"),
    }
)
"""The properties of ``v`` mode that match strings: the engine writes each out as thousands of alternatives."""
FLAGS = "dgimsuvy"
"""The flags JavaScript knows."""

# Repeated groups are possessive: otherwise each repetition takes a hundred bytes of memory.
_LITERAL = re.compile(r"/((?:[^\\/\[]++|\\[\s\S]|\[(?:[^\\\]]++|\\[\s\S])*+\])++)/([A-Za-z]*)")


class JSRegexSyntaxError(TavernKitError, ValueError):
    """A pattern or its flags are not a JavaScript regular expression; the message says what and where."""


def is_string_property(text: str) -> bool:
    """Return True for ``p{…}`` with such a property."""
    return text.startswith("p{") and text[2:-1] in STRING_PROPERTIES


def _halves(found: re.Match[str]) -> str:
    code = ord(found[0]) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def invalid(source: str, flags: str, reason: object) -> JSRegexSyntaxError:
    """Make the error for a pattern."""
    shown = source if len(source) <= _MAX_SHOWN else f"{source[:_MAX_SHOWN]}…"
    return JSRegexSyntaxError(f"Invalid regular expression: /{shown}/{flags}: {reason}")


class Scanner:
    """A position in the source. Without ``u`` or ``v``, a character outside the basic plane is two surrogates."""

    def __init__(self, source: str, flags: str) -> None:
        self.unicode = "u" in flags or "v" in flags
        self.sets = "v" in flags
        self.original = source
        self.flags = flags
        self.text = join_surrogates(source) if self.unicode else _ASTRAL.sub(_halves, source)
        self.at = 0
        self.written = 0
        """The total length of properties written with case variants."""
        self.properties: list[str] = []
        """The properties that were read."""

    def error(self, reason: str) -> JSRegexSyntaxError:
        """Make the error for this pattern, with V8's message."""
        return invalid(self.original, self.flags, reason)

    @property
    def more(self) -> bool:
        """True if there is more to read."""
        return self.at < len(self.text)

    def peek(self, offset: int = 0) -> str:
        """Return a character without reading it; empty beyond the end."""
        return self.text[self.at + offset : self.at + offset + 1]

    def take(self) -> str:
        """Read one character; empty at the end."""
        character = self.peek()
        self.at += 1
        return character

    def eat(self, expected: str) -> bool:
        """Read a text if it is next."""
        if not self.text.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def digits(self) -> str:
        """Read decimal digits."""
        start = self.at
        while self.peek() and self.peek() in "0123456789":
            self.at += 1
        return self.text[start : self.at]

    def hex_code(self, length: int) -> int | None:
        """Read this many hexadecimal digits; None if there are fewer."""
        digits = self.text[self.at : self.at + length]
        if len(digits) < length or not _HEX.issuperset(digits):
            return None
        self.at += length
        return int(digits, 16)

    def unicode_escape(self, *, braces: bool) -> int | None:
        """Read what follows the ``u`` of an escape: four digits (two such may make one character) or ``{…}``."""
        if braces and self.peek() == "{":
            return self._braced_code()
        code = self.hex_code(4)
        if code is None or not braces or not 0xD800 <= code <= 0xDBFF:
            return code
        start = self.at
        low = self.hex_code(4) if self.eat("\\u") else None
        if low is None or not 0xDC00 <= low <= 0xDFFF:
            self.at = start
            return code
        return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)

    def _braced_code(self) -> int | None:
        end = self.text.find("}", self.at)
        digits = self.text[self.at + 1 : end] if end >= 0 else ""
        if not digits or not _HEX.issuperset(digits) or int(digits, 16) > MAX_CODE_POINT:
            return None
        self.at = end + 1
        return int(digits, 16)

    def group_name(self) -> str:
        """Read a group name up to its ``>``; the ``<`` has been read."""
        name = ""
        while not self.eat(">"):
            character = self.take()
            if character == "\\":
                code = self.unicode_escape(braces=True) if self.eat("u") else None
                character = "" if code is None else chr(code)
            if not character:
                raise self.error("Invalid capture group name")
            name += character
        name = join_surrogates(name)
        if not _is_name(name):
            raise self.error("Invalid capture group name")
        return name

    def property_text(self) -> str:
        """Read ``p{…}`` or ``P{…}``, whose backslash has been read."""
        end = self.text.find("}", self.at)
        if self.peek(1) != "{" or end < 0:
            raise self.error("Invalid property name")
        text = self.text[self.at : end + 1]
        self.at = end + 1
        self.properties.append(text)
        return text

    def skip_class(self) -> None:
        """Read to the end of a class whose ``[`` has been read."""
        depth = 1
        while depth:
            character = self.take()
            if not character:
                raise self.error("Unterminated character class")
            if character == "\\":
                self.at += 1
            elif character == "]":
                depth -= 1
            elif character == "[" and self.sets:
                depth += 1


def _is_name(name: str) -> bool:
    plain = name.replace("$", "_").replace("\u200c", "_").replace("\u200d", "_")
    return plain.isidentifier() and name[0] not in "\u200c\u200d"


def survey(source: str, flags: str) -> tuple[int, dict[str, tuple[int, ...]]]:
    """Count the capturing groups of a pattern and collect the named ones.

    Both decide how escapes before the groups are read: a reference to a missing group is literal text.
    """
    scanner = Scanner(source, flags)
    count = 0
    names: dict[str, tuple[int, ...]] = {}
    while (found := _SURVEYED.search(scanner.text, scanner.at)) is not None:
        character = found[0]
        scanner.at = found.end()
        if character == "\\":
            scanner.at += 1
        elif character == "[":
            scanner.skip_class()
        elif character == "(" and scanner.peek() != "?":
            count += 1
        elif character == "(" and scanner.peek(1) == "<" and scanner.peek(2) not in ("=", "!"):
            count += 1
            scanner.at += 2
            name = scanner.group_name()
            names[name] = (*names.get(name, ()), count)
    return count, names


def check_flags(flags: str) -> str:
    """Return the flags in alphabetical order; unknown, repeated and contradicting ones are errors."""
    unknown = [flag for flag in flags if flag not in FLAGS]
    if unknown:
        raise JSRegexSyntaxError(f"Invalid flags: {unknown[0]!r} in {flags!r} is not one of {FLAGS}")
    if len(set(flags)) != len(flags):
        raise JSRegexSyntaxError(f"Invalid flags: {flags!r} names a flag twice")
    if "u" in flags and "v" in flags:
        raise JSRegexSyntaxError(f"Invalid flags: {flags!r} has both u and v")
    return "".join(sorted(flags))


def parse_literal(text: str) -> tuple[str, str] | None:
    """Split ``/source/flags`` into its two parts; None if the text does not have that form.

    A slash inside the source must be escaped or in a class. The parts are not checked: compiling does that.
    """
    found = _LITERAL.fullmatch(text)
    return (found[1], found[2]) if found else None
