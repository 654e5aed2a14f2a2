"""Times, dates and durations, and reading dates as people and chat files write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from tavernkit._text.js_values import trim
from tavernkit._text.js_values.dates import parse_other_date
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._macros.call import MacroCall
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.moment import MONTHS, WEEKDAYS, epoch_milliseconds, format_time, humanize, relative
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroRegistry

macros = MacroRegistry()

INVALID_DATE = "Invalid date"
"""The result for an unreadable date."""

FORMATS = {"time": "h:mm A", "date": "MMMM D, YYYY", "weekday": "dddd", "isotime": "HH:mm", "isodate": "YYYY-MM-DD"}
"""The default time format of macros."""

_UTC_OFFSET = re.compile(r"UTC([+-][0-9]+)\Z")
_MINUTES_FROM = 16
_MINUTES_A_DAY = 1440
_MAX_TIME = 8.64e15
"""The last millisecond of a JavaScript date, before or after 1970."""


def time_at_offset(environment: MacroEnvironment, offset: str) -> str:
    """Return the time of day at an offset from UTC: in hours if it is below 16, else in minutes, as Moment has it."""
    number = float(offset)
    minutes = number * 60 if abs(number) < _MINUTES_FROM else number
    now = environment.clock().astimezone(UTC)
    if abs(epoch_milliseconds(now) + minutes * 60_000) > _MAX_TIME:
        return INVALID_DATE
    # Moment's zones may be any number of minutes; whole days do not change the time of day.
    return format_time(now + timedelta(minutes=minutes % _MINUTES_A_DAY), FORMATS["time"])


def idle_duration(environment: MacroEnvironment) -> str:
    """Return how long ago the user wrote, not counting the newest message."""
    index = environment.place_in_chat("idle", lambda: _last_answered(environment.chat))
    line = None if index is None else environment.chat[index]
    if line is None or not line.send_date:
        return "just now"
    sent = parse_send_date(line.send_date, environment.timezone)
    if sent is None:
        return INVALID_DATE
    return humanize(epoch_milliseconds(environment.now()) - epoch_milliseconds(sent))


def _last_answered(chat: Sequence[ChatMessage]) -> int | None:
    # The newest message does not count, no matter who wrote it.
    visible = [index for index, line in enumerate(chat) if not line.is_system]
    return next((index for index in reversed(visible[:-1]) if chat[index].is_user), None)


def time_difference(environment: MacroEnvironment, left: str, right: str) -> str:
    """Return the difference between two dates."""
    first, second = parse_date(left, environment.timezone), parse_date(right, environment.timezone)
    if first is None or second is None:
        return INVALID_DATE
    return relative(epoch_milliseconds(first) - epoch_milliseconds(second))


def _now(call: MacroCall) -> datetime:
    return call.environment.now()


@macros.macro("time", args=(MacroArgument("offset", optional=True),), category="time", example="{{time::UTC+2}}")
def time(call: MacroCall) -> str:
    """The time of day, local or at an offset from UTC."""
    # Anything else, `utc+2` too, gives the local time.
    found = _UTC_OFFSET.match(call.argument(0))
    return format_time(_now(call), FORMATS["time"]) if found is None else time_at_offset(call.environment, found[1])


@macros.macro("date", category="time")
def date(call: MacroCall) -> str:
    """The date, such as March 5, 2031."""
    return format_time(_now(call), FORMATS["date"])


@macros.macro("weekday", category="time")
def weekday(call: MacroCall) -> str:
    """The day of the week."""
    return format_time(_now(call), FORMATS["weekday"])


@macros.macro("isotime", category="time")
def isotime(call: MacroCall) -> str:
    """The time of day in 24 hours."""
    return format_time(_now(call), FORMATS["isotime"])


@macros.macro("isodate", category="time")
def isodate(call: MacroCall) -> str:
    """The date, such as 2031-03-05."""
    return format_time(_now(call), FORMATS["isodate"])


@macros.macro(
    "datetimeformat", args=(MacroArgument("format"),), category="time", example="{{datetimeformat::DD.MM.YYYY HH:mm}}"
)
def datetimeformat(call: MacroCall) -> str:
    """Date and time in a custom format."""
    return format_time(_now(call), call.args[0])


@macros.macro("idleDuration", hidden_aliases=("idle_duration",), category="time")
def idle_duration_macro(call: MacroCall) -> str:
    """How long ago the user wrote last."""
    return idle_duration(call.environment)


@macros.macro(
    "timeDiff",
    args=(MacroArgument("left"), MacroArgument("right")),
    category="time",
    example="{{timeDiff::2031-01-01::2031-02-01}}",
)
def time_diff(call: MacroCall) -> str:
    """The difference between two dates, in words."""
    return time_difference(call.environment, call.args[0], call.args[1])


_ZONE = r"(?P<zone>\s*Z|[+-]\d\d(?::?\d\d)?)?"
_CLOCK, _BASIC_CLOCK = (
    rf"(?:[T ](?P<hour>\d\d)(?:{colon}(?P<minute>\d\d)(?:{colon}(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?)?{_ZONE})?"
    for colon in (":", "")
)
_BROWSERS_CLOCK = (
    r"(?:T(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
)
# Moment's forms: a day with hyphens goes with a time with colons, and a week or a month alone with none.
_ISO = tuple(
    re.compile(rf"\s*(?P<year>[+-]\d{{6}}|\d{{4}}){day}\Z", re.ASCII)
    for day in (
        r"-(?P<month>\d\d)-(?P<day>\d\d)" + _CLOCK,
        r"-W(?P<week>\d\d)-(?P<weekday>\d)" + _CLOCK,
        r"-W(?P<week>\d\d)",
        r"-(?P<yearday>\d{3})" + _CLOCK,
        r"-(?P<month>\d\d)" + _BROWSERS_CLOCK,
        r"(?P<month>\d\d)(?P<day>\d\d)" + _BASIC_CLOCK,
        r"W(?P<week>\d\d)(?P<weekday>\d)" + _BASIC_CLOCK,
        r"W(?P<week>\d\d)",
        r"(?P<yearday>\d{3})" + _BASIC_CLOCK,
        r"(?P<month>\d\d)",
        _BROWSERS_CLOCK,
    )
)
_MONTH_NAMES = [month[:3] for month in MONTHS]
_WEEKDAY_NAMES = [day[:3] for day in WEEKDAYS]
_RFC_2822 = re.compile(
    rf"(?:(?P<weekday>{'|'.join(_WEEKDAY_NAMES)}),?\s)?(?P<day>\d{{1,2}})\s(?P<month>{'|'.join(_MONTH_NAMES)})\s"
    r"(?P<year>\d{2,4})\s(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?\s"
    r"(?P<zone>UT|GMT|[ECMP][SD]T|[Zz]|[+-]\d{4})\Z",
    re.ASCII,
)
_US_ZONES = {"E": -5, "C": -6, "M": -7, "P": -8}
_CHAT_FILE = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})\s?@(?P<hour>\d{1,2})h\s?(?P<minute>\d{1,2})m\s?"
    r"(?P<second>\d{1,2})s(?:\s?(?P<milliseconds>\d{1,3})ms)?\Z",
    re.ASCII,
)
_GLUED_HALF = re.compile(r"(?<=\d)[ap]m\b", re.ASCII | re.IGNORECASE)
_UNITS = ("year", "month", "day", "hour", "minute", "second")
_MAX_LENGTH = 100
_MAX_EPOCH_DIGITS = 15


def parse_date(text: str, local: tzinfo) -> datetime | None:
    """Read a date: ISO 8601, RFC 2822, or whatever else browsers read. Without a zone it is local."""
    text = text if len(text) <= _MAX_LENGTH else ""
    for pattern in _ISO:
        found = pattern.match(text)
        if found is not None:
            return _checked(lambda found=found: _from_iso(found, local))
    found = _RFC_2822.match(" ".join(text.split()))
    if found is not None:
        return _checked(lambda: _from_rfc(found))
    return parse_other_date(text, local)


def parse_send_date(value: str | int | float, local: tzinfo) -> datetime | None:
    """Read the ``send_date`` of a chat message, in any of the formats that SillyTavern has used."""
    if not isinstance(value, str):
        return _checked(lambda: _from_epoch(value))
    text = trim(value)
    if text.isascii() and text.isdigit():
        return _checked(lambda: _from_epoch(int(text))) if len(text) <= _MAX_EPOCH_DIGITS else None
    found = _CHAT_FILE.match(text[:_MAX_LENGTH])
    if found is not None:
        return _checked(lambda: _from_chat_file(found))
    # Browsers do not read the time that SillyTavern wrote for years: 2:07pm, without a space.
    return parse_date(_GLUED_HALF.sub(r" \g<0>", text), local)


def _checked(make: Callable[[], datetime | None]) -> datetime | None:
    """Return the result of ``make``; None if there is no such date."""
    try:
        return make()
    except (ValueError, OverflowError):
        return None


def _from_epoch(milliseconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def _number(found: re.Match[str], name: str, default: int = 0) -> int:
    text = found.groupdict().get(name)
    return int(text) if text else default


def _from_iso(found: re.Match[str], local: tzinfo) -> datetime:
    groups = found.groupdict()
    year = _number(found, "year")
    if groups.get("week"):
        day = datetime.fromisocalendar(year, _number(found, "week"), _number(found, "weekday", 1))
    elif groups.get("yearday"):
        day = datetime(year, 1, 1) + timedelta(days=_number(found, "yearday") - 1)
        if day.year != year:
            raise ValueError("no such day of the year")
    else:
        day = datetime(year, _number(found, "month", 1), _number(found, "day", 1))
    hour = _number(found, "hour")
    midnight = hour == 24 and not _number(found, "minute") and not _number(found, "second")
    microsecond = int((groups.get("fraction") or "0")[:3].ljust(3, "0")) * 1000
    time = day.replace(
        hour=0 if midnight else hour,
        minute=_number(found, "minute"),
        second=_number(found, "second"),
        microsecond=microsecond,
    )
    if midnight:
        time += timedelta(days=1)
    zone = groups.get("zone")
    return time.replace(tzinfo=_zone(zone.strip()) if zone else local)


def _zone(text: str) -> tzinfo:
    if text in ("Z", "z", "UT", "GMT"):
        return UTC
    if text[0] in _US_ZONES:
        return timezone(timedelta(hours=_US_ZONES[text[0]] + (text[1] == "D")))
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _from_rfc(found: re.Match[str]) -> datetime | None:
    year = int(found["year"])
    if year <= 49:
        year += 2000
    elif year <= 999:
        year += 1900
    time = datetime(
        year,
        _MONTH_NAMES.index(found["month"]) + 1,
        int(found["day"]),
        int(found["hour"]),
        int(found["minute"]),
        _number(found, "second"),
        tzinfo=_zone(found["zone"]),
    )
    named = found["weekday"]
    return None if named and _WEEKDAY_NAMES[time.isoweekday() % 7] != named else time


def _from_chat_file(found: re.Match[str]) -> datetime:
    # UTC, although SillyTavern's other dates without a zone are local.
    year, month, day, hour, minute, second = (int(found[name]) for name in _UNITS)
    return datetime(year, month, day, hour, minute, second, _number(found, "milliseconds") * 1000, tzinfo=UTC)
