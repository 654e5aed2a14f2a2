"""Clock and calendar, and the times of messages."""

from __future__ import annotations

import math
from datetime import UTC
from itertools import islice

from tavernkit._text.js_values import js_round, number_to_string, utf16_length
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.dates import (
    DAY,
    LocalTime,
    format_date,
    format_time,
    local_time,
    milliseconds,
    start_of_day,
    valid_time,
)
from tavernkit.risu_ai._cbs.functions.history import message_at
from tavernkit.risu_ai._cbs.functions.identity import selected
from tavernkit.risu_ai._cbs.registry import FunctionGroup

functions = FunctionGroup("time")

_NO_TIME = "[Cannot get time]"
_OLD_MESSAGE = "[Cannot get time, message was sent in older version]"
_OLD_PREVIOUS_MESSAGE = "[Cannot get time, previous message was sent in older version]"
_COUNTED_TIME = "00:00:00"
_MAX_FORMAT = 300
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def _now(call: CBSCall) -> int:
    return milliseconds(call.context.clock())


def _local(call: CBSCall, time: int) -> LocalTime:
    return local_time(time, call.context.device.timezone)


def _clock_text(shown: LocalTime) -> str:
    return f"{shown.hour}:{shown.minute}:{shown.second}"


def _date_text(shown: LocalTime) -> str:
    return f"{shown.year}-{shown.month}-{shown.day}"


def _formatted(call: CBSCall) -> str:
    """Format a date; every placeholder is replaced in turn, even in the results of earlier ones."""
    text = call.args[0]
    if not text:
        return ""
    text = text.removeprefix(":")
    if utf16_length(text) > _MAX_FORMAT:
        return ""
    given = call.number(1) / 1000 if call.get(1) else 0.0
    time = valid_time(given) if given and not math.isnan(given) else _now(call)
    for placeholder, value in _placeholders(call, time):
        text = text.replace(placeholder, value)
    return text


def _placeholders(call: CBSCall, time: int) -> tuple[tuple[str, str], ...]:
    shown = _local(call, time)
    year = str(shown.year)
    month = _MONTHS[shown.month - 1]
    weekday = _WEEKDAYS[shown.weekday]
    days = (time - start_of_day(shown.year - 1, 12, 31, call.context.device.timezone)) // DAY
    return (
        ("YYYY", year),
        ("YY", year[2:]),
        ("MMMM", month),
        ("MMM", month[:3]),
        ("MM", f"{shown.month:02}"),
        ("DDDD", str(days)),
        ("DD", f"{shown.day:02}"),
        ("dddd", weekday),
        ("ddd", weekday[:3]),
        ("HH", f"{shown.hour:02}"),
        ("hh", f"{shown.hour % 12 or 12:02}"),
        ("mm", f"{shown.minute:02}"),
        ("ss", f"{shown.second:02}"),
        ("X", str(time // 1000)),
        ("x", str(time)),
        ("A", "PM" if shown.hour >= 12 else "AM"),
    )


@functions("time", args=("format", "timestamp"))
def time(call: CBSCall) -> str:
    """The time of day, or a date in a format."""
    return _formatted(call) if call.args else _clock_text(_local(call, _now(call)))


@functions("date", "datetimeformat", args=("format", "timestamp"))
def date(call: CBSCall) -> str:
    """The date, or a date in a format."""
    return _formatted(call) if call.args else _date_text(_local(call, _now(call)))


@functions("isotime")
def isotime(call: CBSCall) -> str:
    """The time of day in UTC."""
    return _clock_text(local_time(_now(call), UTC))


@functions("isodate")
def isodate(call: CBSCall) -> str:
    """The date in UTC."""
    return _date_text(local_time(_now(call), UTC))


@functions("unixtime")
def unixtime(call: CBSCall) -> str:
    """The seconds since 1970."""
    return number_to_string(js_round(_now(call) / 1000))


def _message_time(call: CBSCall) -> int | str:
    """Return the time of the message being rendered, or the text that says why there is none."""
    if call.context.token_counting:
        return _COUNTED_TIME
    if call.context.chat_index == -1:
        return _NO_TIME
    moment = message_at(call, call.context.chat_index).time
    return valid_time(moment) if moment else _OLD_MESSAGE


@functions("messagetime", "message_time")
def messagetime(call: CBSCall) -> str:
    """The time of day of the message, as the user's language writes it."""
    moment = _message_time(call)
    return moment if isinstance(moment, str) else format_time(_local(call, moment), call.context.device.locale)


@functions("messagedate", "message_date")
def messagedate(call: CBSCall) -> str:
    """The date of the message, as the user's language writes it."""
    moment = _message_time(call)
    return moment if isinstance(moment, str) else format_date(_local(call, moment), call.context.device.locale)


def _duration(span: float) -> str:
    """Write a span of milliseconds; negative ones have a sign in every part."""
    span = valid_time(span)
    seconds = math.floor(span / 1000)
    minutes = math.floor(seconds / 60)
    hours = math.floor(minutes / 60)
    return f"{hours}:{_padded(math.fmod(minutes, 60))}:{_padded(math.fmod(seconds, 60))}"


def _padded(number: float) -> str:
    return str(int(number)).rjust(2, "0")


@functions("messageidleduration", "message_idle_duration")
def messageidleduration(call: CBSCall) -> str:
    """The time between the user's last two messages."""
    if call.context.token_counting:
        return _COUNTED_TIME
    index = call.context.chat_index
    if index == -1:
        return _NO_TIME
    message_at(call, index)
    messages = call.context.chat.messages
    call.walk(index)
    users = [*islice((each for each in map(messages.__getitem__, range(index, -1, -1)) if each.role == "user"), 2)]
    if not users:
        return "[No user message found]"
    if len(users) == 1:
        return "[No previous user message found]"
    last, previous = users[0].time, users[1].time
    if not last:
        return _OLD_MESSAGE
    return _duration(last - previous) if previous else _OLD_PREVIOUS_MESSAGE


@functions("idleduration", "idle_duration")
def idleduration(call: CBSCall) -> str:
    """The time since the last message."""
    if call.context.token_counting:
        return _COUNTED_TIME
    selected(call)
    messages = call.context.chat.messages
    if not messages:
        return _COUNTED_TIME
    last = messages[-1].time
    return _duration(_now(call) - last) if last else _OLD_MESSAGE
