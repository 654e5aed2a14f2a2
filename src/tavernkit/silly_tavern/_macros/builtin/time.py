"""Times, dates and durations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._macros.call import MacroCall
from tavernkit.silly_tavern._macros.dates import parse_date, parse_send_date
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.moment import epoch_milliseconds, format_time, humanize, relative
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroRegistry

macros = MacroRegistry()

INVALID_DATE = "Invalid date"
"""The result for an unreadable date."""

FORMATS = {"time": "h:mm A", "date": "MMMM D, YYYY", "weekday": "dddd", "isotime": "HH:mm", "isodate": "YYYY-MM-DD"}
"""The default time format of macros."""

_UTC_OFFSET = re.compile(r"UTC([+-][0-9]+)\Z")
_MINUTES_FROM = 16
_MAX_OFFSET_DIGITS = 9


def time_at_offset(environment: MacroEnvironment, offset: str) -> str:
    """Return the time of day at an offset from UTC: in hours if it is below 16, else in minutes."""
    if len(offset) > _MAX_OFFSET_DIGITS:
        return INVALID_DATE
    number = int(offset)
    minutes = number * 60 if abs(number) < _MINUTES_FROM else number
    # A datetime zone is less than a day; Moment's may be any number of minutes.
    shifted = environment.clock().astimezone(UTC) + timedelta(minutes=minutes)
    return format_time(shifted, FORMATS["time"])


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
