"""Dates as people and chat files write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from tavernkit._text.js_values import WHITESPACE, trim
from tavernkit.silly_tavern._macros.moment import MONTHS, WEEKDAYS

_CLOCK = (
    r"(?:[T ](?P<hour>\d\d)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?)?"
    r"(?:\s*(?P<zone>Z|[+-]\d\d(?::?\d\d)?))?)?\Z"
)
_ISO = tuple(
    re.compile(r"\s*(?P<year>[+-]\d{6}|\d{4})" + day + _CLOCK, re.ASCII)
    for day in (
        r"-(?P<month>\d\d)-(?P<day>\d\d)",
        r"-W(?P<week>\d\d)(?:-(?P<weekday>\d))?",
        r"-(?P<yearday>\d{3})",
        r"-(?P<month>\d\d)",
        r"(?P<month>\d\d)(?P<day>\d\d)",
        r"W(?P<week>\d\d)(?P<weekday>\d)?",
        r"(?P<yearday>\d{3})",
        r"(?P<month>\d\d)",
        r"",
    )
)
_MONTH_NAMES = "|".join(month[:3] for month in MONTHS)
_RFC_2822 = re.compile(
    rf"(?:(?P<weekday>{'|'.join(day[:3] for day in WEEKDAYS)}),?\s)?(?P<day>\d{{1,2}})\s(?P<month>{_MONTH_NAMES})\s"
    r"(?P<year>\d{2,4})\s(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?\s"
    r"(?P<zone>UT|GMT|[ECMP][SD]T|[Zz]|[+-]\d{4})\Z",
    re.ASCII,
)
_US_ZONES = {"E": -5, "C": -6, "M": -7, "P": -8}
_TIME_OF_DAY = r"(?:[,\s]+(?:at\s+)?(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?\s*(?P<half>[ap]m)?)?\Z"
_SPOKEN = tuple(
    re.compile(pattern + _TIME_OF_DAY, re.ASCII | re.IGNORECASE)
    for pattern in (
        rf"(?:[a-z]+,?\s+)?(?P<month>{_MONTH_NAMES})[a-z]*\.?\s+(?P<day>\d{{1,2}}),?\s+(?P<year>\d{{4}})",
        rf"(?:[a-z]+,?\s+)?(?P<day>\d{{1,2}})\s+(?P<month>{_MONTH_NAMES})[a-z]*\.?,?\s+(?P<year>\d{{4}})",
        r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})",
    )
)
_CHAT_FILE = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})\s?@(?P<hour>\d{1,2})h\s?(?P<minute>\d{1,2})m\s?"
    r"(?P<second>\d{1,2})s(?:\s?(?P<milliseconds>\d{1,3})ms)?\Z",
    re.ASCII,
)
_UNITS = ("year", "month", "day", "hour", "minute", "second")
_MAX_LENGTH = 100
_MAX_EPOCH_DIGITS = 15


def parse_date(text: str, local: tzinfo) -> datetime | None:
    """Read a date: ISO 8601, RFC 2822, or common English formats. Without a zone it is local."""
    text = text if len(text) <= _MAX_LENGTH else ""
    for pattern in _ISO:
        found = pattern.match(text)
        if found is not None:
            return _checked(lambda found=found: _from_iso(found, local))
    found = _RFC_2822.match(" ".join(text.split()))
    if found is not None:
        return _checked(lambda: _from_rfc(found))
    for pattern in _SPOKEN:
        spoken = pattern.match(text.strip(WHITESPACE))
        if spoken is not None:
            return _checked(lambda spoken=spoken: _from_speech(spoken, local))
    return None


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
    return parse_date(text, local)


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
    microsecond = int((groups["fraction"] or "0")[:3].ljust(3, "0")) * 1000
    time = day.replace(
        hour=0 if midnight else hour,
        minute=_number(found, "minute"),
        second=_number(found, "second"),
        microsecond=microsecond,
    )
    if midnight:
        time += timedelta(days=1)
    return time.replace(tzinfo=_zone(groups["zone"]) if groups["zone"] else local)


def _zone(text: str) -> tzinfo:
    if text in ("Z", "z", "UT", "GMT"):
        return UTC
    if text[0] in _US_ZONES:
        return timezone(timedelta(hours=_US_ZONES[text[0]] + (text[1] == "D")))
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _month(found: re.Match[str]) -> int:
    text = found["month"]
    if text.isdigit():
        return int(text)
    return next(index for index, month in enumerate(MONTHS, 1) if month[:3].lower() == text[:3].lower())


def _from_rfc(found: re.Match[str]) -> datetime | None:
    year = int(found["year"])
    if year <= 49:
        year += 2000
    elif year <= 999:
        year += 1900
    time = datetime(
        year,
        _month(found),
        int(found["day"]),
        int(found["hour"]),
        int(found["minute"]),
        _number(found, "second"),
        tzinfo=_zone(found["zone"]),
    )
    named = found["weekday"]
    return None if named and WEEKDAYS[time.isoweekday() % 7][:3] != named else time


def _from_speech(found: re.Match[str], local: tzinfo) -> datetime:
    hour = _number(found, "hour")
    half = (found["half"] or "").lower()
    if half and not 1 <= hour <= 12:
        raise ValueError("no such hour")
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return datetime(
        int(found["year"]),
        _month(found),
        int(found["day"]),
        hour,
        _number(found, "minute"),
        _number(found, "second"),
        tzinfo=local,
    )


def _from_chat_file(found: re.Match[str]) -> datetime:
    year, month, day, hour, minute, second = (int(found[name]) for name in _UNITS)
    return datetime(year, month, day, hour, minute, second, _number(found, "milliseconds") * 1000, tzinfo=UTC)
