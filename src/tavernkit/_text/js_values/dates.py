"""Dates that JavaScript reads although they are not ISO 8601: ``Date.parse`` as V8 does it for everything else.

V8 takes words, numbers and signs one by one, in nearly any order, and ignores what it does not know before the first
number. So ``5 March 2031, 2:30 pm``, ``3/5/31``, ``Mar 5`` (of 2001) and what ``Date#toString`` writes are dates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from tavernkit._text.js_values.strings import WHITESPACE

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_UTC = dict.fromkeys(("ut", "utc", "z", "gmt"), 0)
_ZONES = _UTC | {"edt": -4, "est": -5, "cdt": -5, "cst": -6, "mdt": -6, "mst": -7, "pdt": -7, "pst": -8}
_HALVES = {"am": 0, "pm": 12}
_WORD_LENGTH = 3
"""How many characters of a word count. Only the names of months may be longer."""
_MOST_DIGITS = 9
_HOURS, _MINUTES, _MILLISECONDS = 24, 60, 1000
_MOST_MINUTES = 2**30 // 60
"""The largest offset from UTC."""
_TOKEN = re.compile(
    rf"(?P<number>[0-9]+)|(?P<symbol>[-+:.)])|(?P<space>[{WHITESPACE}]+)|(?P<word>(?:(?![{WHITESPACE}])[A-\U0010ffff])+)"
)
_PARENTHESIS = re.compile("[()]")


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def number(self) -> int:
        return int(self.text.lstrip("0")[:_MOST_DIGITS] or 0)


_END = _Token("end", "")


def parse_other_date(text: str, local: tzinfo) -> datetime | None:
    """Read a date that is not ISO 8601; without a zone it is local. None if V8 cannot read it, or Python cannot.

    Args:
        text: The date.
        local: The zone of dates without one.
    """
    reader = _Reader([*_tokens(text)])
    try:
        return reader.result(local) if reader.read() else None
    except (ValueError, OverflowError):
        return None


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is not None:
            at = found.end()
            yield _Token(found.lastgroup or "", found[0])
            continue
        at = _after_parentheses(text, at) if text[at] == "(" else at + 1
        yield _Token("other", "")


def _after_parentheses(text: str, start: int) -> int:
    depth = 0
    for found in _PARENTHESIS.finditer(text, start):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return found.end()
    return len(text)


class _Reader:
    """Collects the numbers of the day and the time, the month's name, and the zone."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._day: list[int] = []
        self._month = 0
        self._time: list[int] = []
        self._half: int | None = None
        self._sign = 0
        self._zone_hours: int | None = None
        self._zone_minutes: int | None = None

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _skip(self, symbol: str) -> bool:
        skipped = self._next == ("symbol", symbol)
        self._at += skipped
        return skipped

    def read(self) -> bool:
        """Read all tokens; return False at the first one that V8 refuses."""
        if not self._read_iso_day():
            return False
        while (token := self._take()) is not _END:
            number_seen = bool(self._day or self._time)
            if token.kind == "number":
                accepted = self._read_number(token)
            elif token.kind == "word":
                accepted = self._read_word(token.text[:_WORD_LENGTH].lower(), len(token.text), number_seen=number_seen)
            elif token.text in ("+", "-") and (self._time or self._zone_hours == self._zone_minutes == 0):
                accepted = self._read_offset(1 if token.text == "+" else -1)
            else:
                accepted = not (number_seen and token.text in ("+", "-", ")"))
            if not accepted:
                return False
        return True

    def _read_iso_day(self) -> bool:
        """Read a day as in ISO 8601. With its ``T``, only what is wholly in that form would be a date."""
        if self._next.kind == "number" and len(self._next.text) == 4:
            self._day.append(self._take().number)
            for most in (12, 31):
                if not self._skip("-") or len(self._next.text) != 2 or not 1 <= self._next.number <= most:
                    break
                self._day.append(self._take().number)
            return self._next.text not in ("T", "t")
        return True

    def _read_number(self, token: _Token) -> bool:
        number = token.number
        if self._skip(":"):
            twice = self._skip(":")
            if len(self._time) >= (1 if twice else 4):
                return False
            self._time += [number, 0] if twice else [number]
            if not twice:
                self._skip(".")
            return True
        if self._skip(".") and self._expects(number):
            if self._next.kind != "number":
                return False
            self._end_time(number, int(self._take().text[:3].ljust(3, "0")))
        elif self._zone_hours is not None and self._zone_minutes is None and number < _MINUTES:
            self._zone_minutes = number
        elif self._expects(number):
            self._end_time(number)
            following = self._next
            return following.kind in ("end", "space") or following.text in ("Z", "z", "+", "-")
        elif len(self._day) == 3:
            return False
        else:
            self._day.append(number)
            self._skip("-")
        return True

    def _end_time(self, *numbers: int) -> None:
        self._time = [*self._time, *numbers, 0, 0, 0][:4]

    def _expects(self, number: int) -> bool:
        """Return True if the next part of the time can be this number."""
        return number < (0, _MINUTES, _MINUTES, _MILLISECONDS, 0)[len(self._time)]

    def _read_word(self, word: str, length: int, *, number_seen: bool) -> bool:
        if word in _MONTHS:
            self._month = _MONTHS.index(word) + 1
            self._skip("-")
        elif length <= _WORD_LENGTH and word in _HALVES and self._time:
            self._half = _HALVES[word]
        elif length <= _WORD_LENGTH and word in _ZONES and number_seen:
            self._sign = -1 if _ZONES[word] < 0 else 1
            self._zone_hours, self._zone_minutes = abs(_ZONES[word]), 0
        else:
            return not number_seen and self._next.kind != "number"
        return True

    def _read_offset(self, sign: int) -> bool:
        self._sign = sign
        token = self._take() if self._next.kind == "number" else _Token("number", "")
        number, digits = token.number, len(token.text)
        if self._next == ("symbol", ":"):
            self._zone_hours, self._zone_minutes = number, None
        elif digits in (1, 2):
            self._zone_hours, self._zone_minutes = number, 0
        elif digits in (3, 4):
            self._zone_hours, self._zone_minutes = divmod(number, 100)
        else:
            return False
        return True

    def result(self, local: tzinfo) -> datetime | None:
        """Return the date; a day that its month does not have is one of the next month."""
        if not self._day:
            return None
        first, middle, last = [*self._day, 1, 1][:3]
        day_first = 1 <= first <= 31
        if self._month:
            year, month, day = (middle, self._month, first) if day_first else (first, self._month, middle)
        else:
            year, month, day = (last, first, middle) if day_first else (first, middle, last)
        if year < 100:
            year += 2000 if year < 50 else 1900
        self._end_time(0)
        hour, minute, second, millisecond = self._time
        if self._half is not None:
            if hour > 12:
                return None
            hour = hour % 12 + self._half
        if hour == _HOURS and (minute or second or millisecond):
            return None
        if not 1 <= day <= 31 or hour > _HOURS or minute >= _MINUTES or second >= _MINUTES:
            return None
        moment = datetime(year, month, 1) + timedelta(day - 1, second, 0, millisecond, minute, hour)
        if not self._sign:
            return moment.replace(tzinfo=local)
        minutes = (self._zone_hours or 0) * _MINUTES + (self._zone_minutes or 0)
        if minutes > _MOST_MINUTES:
            return None
        return moment.replace(tzinfo=UTC) - timedelta(minutes=self._sign * minutes)
