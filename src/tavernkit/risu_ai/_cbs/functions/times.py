"""Clock and calendar, and the times of messages, with JavaScript's dates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import NamedTuple

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import js_round, number_to_string, utf16_length
from tavernkit.risu_ai._cbs.functions.chat import message_at, selected
from tavernkit.risu_ai._cbs.limits import FunctionFailure
from tavernkit.risu_ai._cbs.registry import CBSCall, FunctionGroup

time_functions = FunctionGroup("time")

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
    text = text.removeprefix(":")  # the third of `{{time:::HH}}`
    if utf16_length(text) > _MAX_FORMAT:
        return ""
    # The timestamp is divided by 1000 and then read as milliseconds: only microseconds give the right date. 0 is now.
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
    # One too few in the first hour of a day with daylight saving time.
    days = (time - start_of_day(shown.year - 1, 12, 31, call.context.device.timezone)) // DAY
    return (
        ("YYYY", year),
        ("YY", year[2:]),  # 645 for the year 14645
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
        ("X", str(time // 1000)),  # down, though `unixtime` rounds
        ("x", str(time)),
        # the last placeholder hits names inserted before it: April becomes AMpril
        ("A", "PM" if shown.hour >= 12 else "AM"),
    )


@time_functions("time", args=("format", "timestamp"))
def time(call: CBSCall) -> str:
    """The time of day, or a date in a format."""
    return _formatted(call) if call.args else _clock_text(_local(call, _now(call)))


@time_functions("date", "datetimeformat", args=("format", "timestamp"))
def date(call: CBSCall) -> str:
    """The date, or a date in a format."""
    return _formatted(call) if call.args else _date_text(_local(call, _now(call)))


@time_functions("isotime")
def isotime(call: CBSCall) -> str:
    """The time of day in UTC."""
    return _clock_text(local_time(_now(call), UTC))


@time_functions("isodate")
def isodate(call: CBSCall) -> str:
    """The date in UTC."""
    return _date_text(local_time(_now(call), UTC))


@time_functions("unixtime")
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


@time_functions("messagetime", "message_time")
def messagetime(call: CBSCall) -> str:
    """The time of day of the message, as the user's language writes it."""
    moment = _message_time(call)
    return moment if isinstance(moment, str) else format_time(_local(call, moment), call.context.device.locale)


@time_functions("messagedate", "message_date")
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


@time_functions("messageidleduration", "message_idle_duration")
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


@time_functions("idleduration", "idle_duration")
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
_ISO = _Forms(_24_HOURS, "{year}-{month:02}-{day:02}")
_CHINESE_PERIOD = "{period}{hour12}:{minute:02}:{second:02}"
_CHINESE_HALVES = ("上午", "下午")

_FORMS: Mapping[str, _Forms] = {
    "en": _ENGLISH,
    "en-gb": _BRITISH,
    "en-ie": _Forms(_24_HOURS, "{day}/{month}/{year}"),
    "en-au": _Forms(_12_HOURS, "{day:02}/{month:02}/{year}", ("am", "pm")),
    "en-ca": _Forms(_12_HOURS, "{year}-{month:02}-{day:02}", ("a.m.", "p.m.")),
    "en-in": _INDIAN,
    "en-nz": _Forms(_12_HOURS, "{day}/{month:02}/{year}", ("am", "pm")),
    "en-sg": _Forms(_12_HOURS, "{day:02}/{month:02}/{year}", ("am", "pm")),
    "en-hk": _INDIAN,
    "en-za": _Forms(_24_HOURS, "{year}/{month:02}/{day:02}"),
    "ko": _Forms(_PERIOD_FIRST, "{year}. {month}. {day}.", ("오전", "오후")),
    "ja": _Forms(_24_HOURS_PLAIN, "{year}/{month}/{day}"),
    "zh": _Forms(_24_HOURS, "{year}/{month}/{day}"),
    "zh-tw": _Forms(_CHINESE_PERIOD, "{year}/{month}/{day}", _CHINESE_HALVES),
    "zh-hant": _Forms(_CHINESE_PERIOD, "{year}/{month}/{day}", _CHINESE_HALVES),
    "zh-hk": _Forms(_CHINESE_PERIOD, "{day}/{month}/{year}", _CHINESE_HALVES),
    "de": _DOTTED,
    "fr": _BRITISH,
    "fr-ca": _Forms("{hour:02} h {minute:02} min {second:02} s", "{year}-{month:02}-{day:02}"),
    "fr-ch": _DOTTED_PADDED,
    "es": _Forms(_24_HOURS_PLAIN, "{day}/{month}/{year}"),
    "es-mx": _LATIN_AMERICAN,
    "es-419": _LATIN_AMERICAN,
    "es-us": _LATIN_AMERICAN,
    "it": _BRITISH,
    "pt": _BRITISH,
    "ru": _DOTTED_PADDED,
    "uk": _DOTTED_PADDED,
    "ro": _DOTTED_PADDED,
    "pl": _Forms(_24_HOURS, "{day}.{month:02}.{year}"),
    "tr": _DOTTED_PADDED,
    "nl": _Forms(_24_HOURS, "{day}-{month}-{year}"),
    "nl-be": _Forms(_24_HOURS, "{day}/{month}/{year}"),
    "sv": _ISO,
    "af": _ISO,
    "lt": _ISO,
    "vi": _Forms(_24_HOURS, "{day}/{month}/{year}"),
    "id": _Forms("{hour:02}.{minute:02}.{second:02}", "{day}/{month}/{year}"),
    "cs": _Forms(_24_HOURS_PLAIN, "{day}. {month}. {year}"),
    "hu": _Forms(_24_HOURS_PLAIN, "{year}. {month:02}. {day:02}."),
    "he": _Forms(_24_HOURS_PLAIN, "{day}.{month}.{year}"),
    "hi": _INDIAN,
    "fi": _Forms("{hour}.{minute:02}.{second:02}", "{day}.{month}.{year}"),
    "da": _Forms("{hour:02}.{minute:02}.{second:02}", "{day}.{month}.{year}"),
    "nb": _DOTTED,
    "no": _DOTTED,
    "et": _DOTTED,
    "sk": _Forms(_24_HOURS_PLAIN, "{day}. {month}. {year}"),
    "sl": _Forms(_24_HOURS, "{day}. {month}. {year}"),
    "hr": _Forms(_24_HOURS, "{day:02}. {month:02}. {year}."),
    "ca": _Forms(_24_HOURS_PLAIN, "{day}/{month}/{year}"),
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
