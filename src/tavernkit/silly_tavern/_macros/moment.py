"""Time formats of the Moment library, in English."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from tavernkit._text.js_values import js_round

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
"""The names of the months."""

WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
"""The names of the days of the week."""

_LONG_FORMATS = {
    "LTS": "h:mm:ss A",
    "LT": "h:mm A",
    "L": "MM/DD/YYYY",
    "LL": "MMMM D, YYYY",
    "LLL": "MMMM D, YYYY h:mm A",
    "LLLL": "dddd, MMMM D, YYYY h:mm A",
    "l": "M/D/YYYY",
    "ll": "MMM D, YYYY",
    "lll": "MMM D, YYYY h:mm A",
    "llll": "ddd, MMM D, YYYY h:mm A",
}
_LITERAL = r"\[[^\[]*\]"
_IN_LINE = r"[^\n\r\u2028\u2029]"
_LONG_TOKEN = re.compile(rf"{_LITERAL}|\\?(?:LTS|LT|L{{1,4}}|l{{1,4}})")
ISO_FORMAT = "YYYY-MM-DDTHH:mm:ssZ"
"""What an empty format means."""


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    if number % 100 // 10 == 1:
        return f"{number}th"
    return f"{number}{('th', 'st', 'nd', 'rd')[number % 10] if number % 10 < 4 else 'th'}"


def _weekday(time: datetime) -> int:
    return time.isoweekday() % 7


def _day_of_year(time: datetime) -> int:
    return time.timetuple().tm_yday


def _week(time: datetime) -> tuple[int, int]:
    """The year and number of the week: weeks start on Sunday, and the first one has 1 January in it."""
    start = time.date() - timedelta(days=_weekday(time))
    saturday = start + timedelta(days=6)
    first_day = saturday.replace(month=1, day=1)
    first_start = first_day - timedelta(days=first_day.isoweekday() % 7)
    return saturday.year, (start - first_start).days // 7 + 1


def _year(time: datetime) -> str:
    return f"{time.year:04}"


def _hour12(time: datetime) -> int:
    return time.hour % 12 or 12


def _milliseconds(time: datetime) -> int:
    return time.microsecond // 1000


def _fraction(digits: int) -> Callable[[datetime], str]:
    return lambda time: f"{_milliseconds(time):03}".ljust(digits, "0")[:digits]


def _offset(separator: str) -> Callable[[datetime], str]:
    def write(time: datetime) -> str:
        minutes = int((time.utcoffset() or timedelta()).total_seconds() // 60)
        hours, rest = divmod(abs(minutes), 60)
        return f"{'-' if minutes < 0 else '+'}{hours:02}{separator}{rest:02}"

    return write


_TOKENS: dict[str, Callable[[datetime], str]] = {
    "Y": _year,
    "YY": lambda time: f"{time.year % 100:02}",
    "YYYY": _year,
    "YYYYY": lambda time: f"{time.year:05}",
    "YYYYYY": lambda time: f"+{time.year:06}",
    "Q": lambda time: str((time.month + 2) // 3),
    "Qo": lambda time: ordinal((time.month + 2) // 3),
    "M": lambda time: str(time.month),
    "Mo": lambda time: ordinal(time.month),
    "MM": lambda time: f"{time.month:02}",
    "MMM": lambda time: MONTHS[time.month - 1][:3],
    "MMMM": lambda time: MONTHS[time.month - 1],
    "D": lambda time: str(time.day),
    "Do": lambda time: ordinal(time.day),
    "DD": lambda time: f"{time.day:02}",
    "DDD": lambda time: str(_day_of_year(time)),
    "DDDo": lambda time: ordinal(_day_of_year(time)),
    "DDDD": lambda time: f"{_day_of_year(time):03}",
    "d": lambda time: str(_weekday(time)),
    "do": lambda time: ordinal(_weekday(time)),
    "dd": lambda time: WEEKDAYS[_weekday(time)][:2],
    "ddd": lambda time: WEEKDAYS[_weekday(time)][:3],
    "dddd": lambda time: WEEKDAYS[_weekday(time)],
    "e": lambda time: str(_weekday(time)),
    "E": lambda time: str(time.isoweekday()),
    "w": lambda time: str(_week(time)[1]),
    "wo": lambda time: ordinal(_week(time)[1]),
    "ww": lambda time: f"{_week(time)[1]:02}",
    "W": lambda time: str(time.isocalendar().week),
    "Wo": lambda time: ordinal(time.isocalendar().week),
    "WW": lambda time: f"{time.isocalendar().week:02}",
    "gg": lambda time: f"{_week(time)[0] % 100:02}",
    "gggg": lambda time: f"{_week(time)[0]:04}",
    "ggggg": lambda time: f"{_week(time)[0]:05}",
    "GG": lambda time: f"{time.isocalendar().year % 100:02}",
    "GGGG": lambda time: f"{time.isocalendar().year:04}",
    "GGGGG": lambda time: f"{time.isocalendar().year:05}",
    "H": lambda time: str(time.hour),
    "HH": lambda time: f"{time.hour:02}",
    "h": lambda time: str(_hour12(time)),
    "hh": lambda time: f"{_hour12(time):02}",
    "k": lambda time: str(time.hour or 24),
    "kk": lambda time: f"{time.hour or 24:02}",
    "Hmm": lambda time: f"{time.hour}{time.minute:02}",
    "Hmmss": lambda time: f"{time.hour}{time.minute:02}{time.second:02}",
    "hmm": lambda time: f"{_hour12(time)}{time.minute:02}",
    "hmmss": lambda time: f"{_hour12(time)}{time.minute:02}{time.second:02}",
    "m": lambda time: str(time.minute),
    "mm": lambda time: f"{time.minute:02}",
    "s": lambda time: str(time.second),
    "ss": lambda time: f"{time.second:02}",
    **{"S" * digits: _fraction(digits) for digits in range(1, 10)},
    "a": lambda time: "am" if time.hour < 12 else "pm",
    "A": lambda time: "AM" if time.hour < 12 else "PM",
    "Z": _offset(":"),
    "ZZ": _offset(""),
    "z": lambda _time: "",
    "zz": lambda _time: "",
    "X": lambda time: str(epoch_milliseconds(time) // 1000),
    "x": lambda time: str(epoch_milliseconds(time)),
    "N": lambda _time: "AD",
    "NN": lambda _time: "AD",
    "NNN": lambda _time: "AD",
    "NNNN": lambda _time: "Anno Domini",
    "NNNNN": lambda _time: "AD",
    "y": lambda time: str(time.year),
    "yo": lambda time: ordinal(time.year),
    "yy": lambda time: f"{time.year:02}",
    "yyy": lambda time: f"{time.year:03}",
    "yyyy": lambda time: f"{time.year:04}",
}
# Moment treats `w|` as an unknown token. Hmm and similar tokens come before H, which would match their first letter;
# otherwise the longest token wins.
_TOKEN = re.compile(
    rf"({_LITERAL})|\\?[wW]\||\\?("
    + "|".join(sorted(_TOKENS, key=lambda token: (token[1:3] != "mm" or token[0] not in "Hh", -len(token))))
    + rf")|\\?{_IN_LINE}"
)


def format_time(time: datetime, pattern: str) -> str:
    """Write a time in a pattern of Moment's tokens; text in ``[brackets]`` is literal.

    Moment finds its tokens with a pattern in which ``.`` matches the rest: line breaks outside of brackets are lost,
    and a format with only line breaks fails.

    Args:
        time: The time to write.
        pattern: Tokens and text. Empty for ISO 8601 with the offset.

    Raises:
        ValueError: The pattern consists of line breaks only.
    """
    pattern = _LONG_TOKEN.sub(lambda found: _LONG_FORMATS.get(found[0], found[0]), pattern or ISO_FORMAT)

    def write(found: re.Match[str]) -> str:
        if found[1]:
            return found[1][1:-1]
        if found[2] and not found[0].startswith("\\"):
            return _TOKENS[found[2]](time)
        return found[0].replace("\\", "")

    written = [write(found) for found in _TOKEN.finditer(pattern)]
    if not written:
        raise ValueError("a date format of line breaks only")
    return "".join(written)


def epoch_milliseconds(time: datetime) -> int:
    """Milliseconds since 1970."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

_DAY = 86_400_000
# Unit, its upper limit, what one of it is called, what many are called.
_SCALE = (
    (45, "a minute", "{} minutes"),
    (22, "an hour", "{} hours"),
    (26, "a day", "{} days"),
    (11, "a month", "{} months"),
)


def humanize(milliseconds: float) -> str:
    """Return a duration in rough words: ``a few seconds``, ``3 hours``, ``a month``."""
    span = abs(milliseconds)
    if js_round(span / 1000) <= 44:
        return "a few seconds"
    days = span / _DAY
    months = days * 4800 / 146097
    for amount, (limit, one, many) in zip((span / 60_000, span / 3_600_000, days, months), _SCALE, strict=True):
        rounded = int(js_round(amount))
        if rounded <= 1:
            return one
        if rounded < limit:
            return many.format(rounded)
    years = int(js_round(months / 12))
    return "a year" if years <= 1 else f"{years} years"


def relative(milliseconds: float) -> str:
    """Return a relative time: ``in 3 hours``, ``3 hours ago``; no difference is ``a few seconds ago``."""
    return f"in {humanize(milliseconds)}" if milliseconds > 0 else f"{humanize(milliseconds)} ago"
