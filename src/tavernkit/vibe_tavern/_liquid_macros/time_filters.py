"""Filters ``unixtime``, ``isodate``, ``isotime`` and ``datetimeformat``, all in UTC."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tavernkit.vibe_tavern._limits import MAX_DATE_FORMAT_CHARACTERS
from tavernkit.vibe_tavern._liquid_macros.numbers import to_number
from tavernkit.vibe_tavern._options import is_blank

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS_FROM = 10**11
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_FORMATS: dict[str, Callable[[datetime, int], str]] = {
    "YYYY": lambda at, _: str(at.year),
    "YY": lambda at, _: f"{at.year % 100:02d}",
    "MMMM": lambda at, _: _MONTHS[at.month - 1],
    "MMM": lambda at, _: _MONTHS[at.month - 1][:3],
    "MM": lambda at, _: f"{at.month:02d}",
    "DDDD": lambda at, _: str(at.timetuple().tm_yday),
    "DD": lambda at, _: f"{at.day:02d}",
    "dddd": lambda at, _: _DAYS[at.weekday()],
    "ddd": lambda at, _: _DAYS[at.weekday()][:3],
    "HH": lambda at, _: f"{at.hour:02d}",
    "hh": lambda at, _: f"{at.hour % 12 or 12:02d}",
    "mm": lambda at, _: f"{at.minute:02d}",
    "ss": lambda at, _: f"{at.second:02d}",
    "X": lambda _, milliseconds: str(milliseconds // 1000),
    "x": lambda _, milliseconds: str(milliseconds),
    "A": lambda at, _: "AM" if at.hour < 12 else "PM",
}
_TOKEN = re.compile("|".join(_FORMATS))


def milliseconds_of(value: object, now_ms: Callable[[], int]) -> int:
    """Read a time: a number of seconds or (from 10^11 on) milliseconds; blank, zero and unreadable values mean now."""
    number = None if is_blank(value) else to_number(value)
    if not number or (isinstance(number, float) and not math.isfinite(number)):
        return now_ms()
    return round(number if number >= _MILLISECONDS_FROM else number * 1000)


def unixtime(milliseconds: int) -> str:
    """Whole seconds since 1970, halves rounded up."""
    return str((milliseconds + 500) // 1000)


def isodate(milliseconds: int) -> str:
    """Year, month and day without padding."""
    at = moment(milliseconds)
    return f"{at.year}-{at.month}-{at.day}"


def isotime(milliseconds: int) -> str:
    """Hour, minute and second without padding."""
    at = moment(milliseconds)
    return f"{at.hour}:{at.minute}:{at.second}"


def datetimeformat(milliseconds: int, pattern: str) -> str:
    """Write a time by a pattern such as ``YYYY-MM-DD``; empty without a pattern, or if it is too long."""
    pattern = pattern.removeprefix(":")
    if not pattern or len(pattern) > MAX_DATE_FORMAT_CHARACTERS:
        return ""
    at = moment(milliseconds)
    return _TOKEN.sub(lambda match: _FORMATS[match.group()](at, milliseconds), pattern)


def moment(milliseconds: int) -> datetime:
    """The time of a count of milliseconds; out-of-range values become the first or last possible time."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if milliseconds > 0 else datetime.min.replace(tzinfo=UTC)
