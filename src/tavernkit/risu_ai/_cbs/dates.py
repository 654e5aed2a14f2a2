"""JavaScript's dates, in a time zone, far beyond Python's years 1 to 9999."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

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
