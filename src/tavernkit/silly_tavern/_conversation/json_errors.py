"""Error messages of ``JSON.parse``, which are the results of tool calls with invalid arguments."""

from __future__ import annotations

import re

from tavernkit._text import strict_json
from tavernkit._text.js_values import utf16_length

_CONTEXT = 10
"""How many characters on each side of the error the message quotes, if the text is longer than both."""

_BLANKS = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
"""A string up to its end, or up to what is wrong with it."""
_HEX_DIGITS = re.compile(r"[0-9a-fA-F]*")
_NUMBER = re.compile(r"-?(?P<whole>0|[1-9][0-9]*)?(?P<fraction>\.[0-9]*)?(?P<exponent>[eE][+-]?[0-9]*)?")
_DIGITS = "0123456789"
_WORDS = {"t": "true", "f": "false", "n": "null"}
_QUOTED_ALONE = ("undefined", "NaN", "Infinity", "[object Object]")
"""Texts that JavaScript makes of values by mistake; their message is shorter."""


class _InvalidJSONError(Exception):
    """The text is not JSON; the message is that of ``JSON.parse``."""


def json_error(text: str) -> str:
    """Return the message of ``JSON.parse`` for a text that is not JSON; empty for one that is."""
    try:
        strict_json.loads(text)
    except (ValueError, RecursionError):
        try:
            _Reader(text).read()
        except _InvalidJSONError as error:
            return str(error)
        # JavaScript accepts any number of digits and deeper nesting.
        return "the JSON text has too many digits or is nested too deeply"
    return ""


class _Reader:
    """Reads a text as V8 does, up to the first error."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> None:
        """Read the whole text.

        Raises:
            _InvalidJSONError: It is not JSON.
        """
        open_brackets: list[str] = []
        self._begin_value(open_brackets)
        while open_brackets:
            after = self._next()
            if after == open_brackets[-1]:
                self._at += 1
                open_brackets.pop()
                continue
            in_object = open_brackets[-1] == "}"
            if after != ",":
                raise self._error(
                    "Expected ',' or '}' after property value"
                    if in_object
                    else "Expected ',' or ']' after array element"
                )
            self._at += 1
            if in_object:
                self._key(first=False)
            self._begin_value(open_brackets)
        if self._next():
            raise self._error("Unexpected non-whitespace character after JSON", "")

    def _begin_value(self, open_brackets: list[str]) -> None:
        """Read a value: a whole one, or containers up to the first value inside that is not a container."""
        while True:
            first = self._next()
            if first == "{":
                self._at += 1
                if self._next() == "}":
                    self._at += 1
                    return
                open_brackets.append("}")
                self._key(first=True)
            elif first == "[":
                self._at += 1
                if self._next() == "]":
                    self._at += 1
                    return
                open_brackets.append("]")
            else:
                self._scalar(first)
                return

    def _scalar(self, first: str) -> None:
        if first == '"':
            self._string()
        elif first and first in f"-{_DIGITS}":
            self._number()
        elif first in _WORDS:
            for letter in _WORDS[first]:
                if self._here() != letter:
                    raise self._unexpected()
                self._at += 1
        else:
            raise self._unexpected()

    def _key(self, *, first: bool) -> None:
        if self._next() != '"':
            raise self._error("Expected property name or '}'" if first else "Expected double-quoted property name")
        self._string()
        if self._next() != ":":
            raise self._error("Expected ':' after property name") if first else self._unexpected()
        self._at += 1

    def _string(self) -> None:
        self._skip(_STRING)
        if self._here() == '"':
            self._at += 1
        elif self._here() == "\\":
            self._at += 1
            if self._here() == "u":
                self._at += 1
                self._skip(_HEX_DIGITS)
                raise self._error("Bad Unicode escape")
            known = "" < self._here() <= "\xff"
            raise self._error("Bad escaped character") if known else self._unexpected()
        else:
            raise self._error("Bad control character in string literal" if self._here() else "Unterminated string")

    def _number(self) -> None:
        found = self._skip(_NUMBER)
        if found["whole"] is None:
            self._at = found.start() + 1
            raise self._error("No number after minus sign")
        if found["whole"] == "0" and self._text[found.end("whole") : found.end("whole") + 1] in tuple(_DIGITS):
            self._at = found.end("whole")
            raise self._unexpected()
        if found["fraction"] == ".":
            self._at = found.end("fraction")
            raise self._error("Unterminated fractional number")
        if found["exponent"] is not None and found["exponent"][-1] not in _DIGITS:
            raise self._error("Exponent part is missing a number")

    def _here(self) -> str:
        """Return the next character; empty at the end."""
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        """Return the next character after blanks; empty at the end."""
        self._skip(_BLANKS)
        return self._here()

    def _skip(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        assert found is not None  # each pattern matches what stands there, or nothing
        self._at = found.end()
        return found

    def _unexpected(self) -> _InvalidJSONError:
        here = self._here()
        if not here:
            return _InvalidJSONError("Unexpected end of JSON input")
        if here == '"':
            return self._error("Unexpected string")
        if here in f"-{_DIGITS}":
            return self._error("Unexpected number")
        if self._text in _QUOTED_ALONE:
            return _InvalidJSONError(f'"{self._text}" is not valid JSON')
        return _InvalidJSONError(f"Unexpected token '{here}', {self._quoted()} is not valid JSON")

    def _error(self, what: str, where: str = " in JSON") -> _InvalidJSONError:
        before = self._text[: self._at]
        line = before[before.rfind("\n") + 1 :]
        place = f"line {before.count(chr(10)) + 1} column {utf16_length(line) + 1}"
        return _InvalidJSONError(f"{what}{where} at position {utf16_length(before)} ({place})")

    def _quoted(self) -> str:
        text = self._text
        if len(text) <= 2 * _CONTEXT:
            return f'"{text}"'
        start, end = max(self._at - _CONTEXT, 0), self._at + _CONTEXT
        return f'{"..." if self._at >= _CONTEXT else ""}"{text[start:end]}"{"..." if end < len(text) else ""}'
