"""JavaScript's dates, in a time zone, far beyond Python's years 1 to 9999, and how languages write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from tavernkit._dataclass import dataclass
from tavernkit.risu_ai._cbs.signals import FunctionFailure

DAY = 86_400_000
_MAX_TIME = 8.64e15
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_YEARS = 400
_CYCLE = 146_097 * DAY
_FIRST_YEAR, _LAST_YEAR = 2, 9998  # a margin, so that no time zone leaves Python's range
_RANGE = tuple((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1) for year in (2, 9999))


class LocalTime(NamedTuple):
    """A moment as a calendar and a clock show it; ``weekday`` counts from Sunday."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    weekday: int


def milliseconds(moment: datetime) -> int:
    """Return the milliseconds since 1970 of a moment; a naive one is taken as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def valid_time(time: float) -> int:
    """Return a time as in JavaScript's ``Date``; fails if it is out of range."""
    if not abs(time) <= _MAX_TIME:
        raise FunctionFailure("the date is not valid")
    return math.trunc(time)


def local_time(time: int, zone: tzinfo) -> LocalTime:
    """Show a moment in a time zone. Years that Python does not support use the rules of an equivalent year."""
    cycles = _cycles(time, _RANGE[0], _RANGE[1], _CYCLE, future=0)
    moment = (_EPOCH + timedelta(milliseconds=time - cycles * _CYCLE)).astimezone(zone)
    return LocalTime(
        moment.year + cycles * _CYCLE_YEARS,
        moment.month,
        moment.day,
        moment.hour,
        moment.minute,
        moment.second,
        moment.isoweekday() % 7,
    )


def start_of_day(year: int, month: int, day: int, zone: tzinfo) -> int:
    """Return the moment at which a day begins in a time zone."""
    cycles = _cycles(year, _FIRST_YEAR, _LAST_YEAR + 1, _CYCLE_YEARS, future=1970)
    moment = datetime(year - cycles * _CYCLE_YEARS, month, day, tzinfo=zone)
    return milliseconds(moment) + cycles * _CYCLE


def _cycles(point: int, first: int, end: int, cycle: int, *, future: int) -> int:
    """Count the periods of 400 years (after which calendars repeat) to an equivalent supported time.

    Early years map to one without daylight saving time, late years to one with today's rules.
    """
    if first <= point < end:
        return 0
    return (point - (first if point < first else future)) // cycle


@dataclass(frozen=True, slots=True)
class _Forms:
    """Templates over the parts of a time; ``period`` names the halves of the day where the clock has twelve hours."""

    time: str
    date: str
    period: tuple[str, str] = ("", "")


_24_HOURS = "{hour:02}:{minute:02}:{second:02}"
_24_HOURS_PLAIN = "{hour}:{minute:02}:{second:02}"
_12_HOURS = "{hour12}:{minute:02}:{second:02} {period}"
_PERIOD_FIRST = "{period} {hour12}:{minute:02}:{second:02}"

_ENGLISH = _Forms(_12_HOURS, "{month}/{day}/{year}", ("AM", "PM"))
_BRITISH = _Forms(_24_HOURS, "{day:02}/{month:02}/{year}")
_DOTTED = _Forms(_24_HOURS, "{day}.{month}.{year}")

_INDIAN = _Forms(_12_HOURS, "{day}/{month}/{year}", ("am", "pm"))
_LATIN_AMERICAN = _Forms(_12_HOURS, "{day}/{month}/{year}", ("a.m.", "p.m."))
_DOTTED_PADDED = _Forms(_24_HOURS, "{day:02}.{month:02}.{year}")
_CHINESE_PERIOD = "{period}{hour12}:{minute:02}:{second:02}"
_CHINESE_HALVES = ("上午", "下午")

_FORMS: Mapping[str, _Forms] = {
    "en": _ENGLISH,
    "en-gb": _BRITISH,
    "en-ie": _Forms(_24_HOURS, "{day}/{month}/{year}"),
    "en-au": _Forms(_12_HOURS, "{day:02}/{month:02}/{year}", ("am", "pm")),
    "en-ca": _Forms(_12_HOURS, "{year}-{month:02}-{day:02}", ("a.m.", "p.m.")),
    "en-in": _INDIAN,
    "ko": _Forms(_PERIOD_FIRST, "{year}. {month}. {day}.", ("오전", "오후")),
    "ja": _Forms(_24_HOURS_PLAIN, "{year}/{month}/{day}"),
    "zh": _Forms(_24_HOURS, "{year}/{month}/{day}"),
    "zh-tw": _Forms(_CHINESE_PERIOD, "{year}/{month}/{day}", _CHINESE_HALVES),
    "zh-hant": _Forms(_CHINESE_PERIOD, "{year}/{month}/{day}", _CHINESE_HALVES),
    "zh-hk": _Forms(_CHINESE_PERIOD, "{day}/{month}/{year}", _CHINESE_HALVES),
    "de": _DOTTED,
    "fr": _BRITISH,
    "es": _Forms(_24_HOURS_PLAIN, "{day}/{month}/{year}"),
    "es-mx": _LATIN_AMERICAN,
    "es-419": _LATIN_AMERICAN,
    "it": _Forms(_24_HOURS, "{day}/{month}/{year}"),
    "pt": _BRITISH,
    "ru": _DOTTED_PADDED,
    "uk": _DOTTED_PADDED,
    "ro": _DOTTED_PADDED,
    "pl": _Forms(_24_HOURS, "{day}.{month:02}.{year}"),
    "tr": _DOTTED_PADDED,
    "nl": _Forms(_24_HOURS, "{day}-{month}-{year}"),
    "sv": _Forms(_24_HOURS, "{year}-{month:02}-{day:02}"),
    "vi": _Forms(_24_HOURS, "{day}/{month}/{year}"),
    "id": _Forms("{hour:02}.{minute:02}.{second:02}", "{day}/{month}/{year}"),
    "cs": _Forms(_24_HOURS_PLAIN, "{day}. {month}. {year}"),
    "hu": _Forms(_24_HOURS_PLAIN, "{year}. {month:02}. {day:02}."),
    "he": _Forms(_24_HOURS_PLAIN, "{day}.{month}.{year}"),
    "hi": _INDIAN,
    "fi": _Forms("{hour}.{minute:02}.{second:02}", "{day}.{month}.{year}"),
    "da": _Forms("{hour:02}.{minute:02}.{second:02}", "{day}.{month}.{year}"),
    "nb": _DOTTED,
    "el": _Forms(_12_HOURS, "{day}/{month}/{year}", ("π.μ.", "μ.μ.")),
}


def _forms(locale: str) -> _Forms:
    tag = locale.lower().replace("_", "-")
    return _FORMS.get(tag) or _FORMS.get(tag.partition("-")[0]) or _ENGLISH


def _fill(template: str, forms: _Forms, shown: LocalTime) -> str:
    period = forms.period[shown.hour >= 12]
    return template.format_map({**shown._asdict(), "hour12": shown.hour % 12 or 12, "period": period})


def format_time(shown: LocalTime, locale: str) -> str:
    """Write a time of day (``toLocaleTimeString``)."""
    forms = _forms(locale)
    return _fill(forms.time, forms, shown)


def format_date(shown: LocalTime, locale: str) -> str:
    """Write a date (``toLocaleDateString``)."""
    forms = _forms(locale)
    return _fill(forms.date, forms, shown)
