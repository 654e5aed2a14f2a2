"""Our filters as Liquid calls them: random values that repeat, times, and standard ones that differ."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from liquid import RenderContext
from liquid.builtin.filters.math import divided_by, modulo, round_
from liquid.builtin.filters.misc import date as builtin_date
from liquid.builtin.filters.string import split
from liquid.exceptions import LiquidError
from liquid.filter import num_arg, with_context

from tavernkit._text import strict_json
from tavernkit._text.coerce import trim_blanks
from tavernkit._values import is_list, is_sequence
from tavernkit.vibe_tavern._limits import MAX_DATE_FORMAT_CHARACTERS, MAX_DICE
from tavernkit.vibe_tavern._liquid_macros import standard_filters as standard
from tavernkit.vibe_tavern._liquid_macros.engine import MacroContext, Run
from tavernkit.vibe_tavern._liquid_macros.values import given, to_number, to_text
from tavernkit.vibe_tavern._options import is_blank

Filter: TypeAlias = Callable[..., object]

DEFAULT_WORD = "0"
_DRAW_STEPS = 50
"""The cost in steps of advancing a sequence of random numbers."""

_LONGEST_DATE = 100
"""The maximum length of a date; longer texts stay unchanged."""


class DivisionByZeroError(LiquidError):
    """A number was divided by zero."""


@with_context
def _pick(value: object, counter: object = None, word: object = None, *, context: RenderContext) -> str:
    return pick(given(value), *_seeds(context, counter, word))


@with_context
def _rollp(value: object, counter: object = None, word: object = None, *, context: RenderContext) -> str:
    return rollp(given(value), *_seeds(context, counter, word))


def _time_filter(write: Callable[[int], str]) -> Filter:
    @with_context
    def apply(value: object, *, context: RenderContext) -> str:
        return write(milliseconds_of(given(value), _run(context).now_ms))

    return apply


@with_context
def _datetimeformat(value: object, pattern: object = None, *, context: RenderContext) -> str:
    at = milliseconds_of(given(value), _run(context).now_ms)
    return datetimeformat(at, to_text(given(pattern)))


@with_context
def _date(value: object, pattern: object, *, context: RenderContext) -> object:
    """The standard filter, but with the run's clock and UTC."""
    value, pattern = given(value), given(pattern)
    if is_blank(pattern) or isinstance(value, bool) or not isinstance(value, (int, str)):
        return value
    if isinstance(value, str) and len(value) > _LONGEST_DATE:
        return value
    if value in ("now", "today"):
        value = moment(_run(context).now_ms())
    elif isinstance(value, int) or (value.isascii() and value.isdecimal()):
        value = moment(int(value) * 1000)
    return builtin_date(value, to_text(pattern), environment=context.env)


def _dividing(builtin: Filter) -> Filter:
    def apply(value: object, other: object) -> object:
        if num_arg(given(other), default=0) == 0:  # 0.0 too: nothing becomes infinite
            raise DivisionByZeroError("divided by 0", token=None)
        return builtin(value, other)

    return apply


def _split(value: object, separator: object) -> list[str]:
    """The standard filter, but empty parts at the end are dropped."""
    parts = split(value, separator)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _round(value: object, digits: object = None) -> object:
    """The standard filter, but halves go away from zero."""
    number = to_number(given(value))
    whole = not to_number(given(digits))
    if whole and isinstance(number, float) and math.isfinite(number) and abs(number % 1) == 0.5:
        return math.trunc(number + math.copysign(0.5, number))
    return round_(value, digits)


def _run(context: RenderContext) -> Run:
    assert isinstance(context, MacroContext)
    return context.run


def _seeds(context: RenderContext, counter: object, word: object) -> tuple[int, str]:
    assert isinstance(context, MacroContext)
    context.step(_DRAW_STEPS)
    run = context.run.context
    count = to_number(_first(given(counter), run.get("message_index")))
    seed = _first(given(word), run.get("rng_word"), context.resolve("char", default=None))
    place = 0 if count is None or (isinstance(count, float) and not math.isfinite(count)) else int(count)
    return place, DEFAULT_WORD if seed is None else to_text(seed)


def _first(*values: object) -> object:
    return next((value for value in values if value is not None), None)


_MASK = 0xFFFFFFFF
_COUNTER_PERIOD = 1000


def random_values(counters: Iterable[int], word: str) -> list[float]:
    """Return numbers from 0 up to 1: the ones at these places (modulo 1000) of the generator seeded by the word."""
    places = [counter % _COUNTER_PERIOD for counter in counters]
    state = _seed_from(word)
    sequence: list[int] = []
    for _ in range(max(places, default=-1) + 1):
        value, state = _step(state)
        sequence.append(value)
    return [sequence[place] / (_MASK + 1) for place in places]


def _seed_from(word: str) -> tuple[int, int, int, int]:
    """Hash the word four times, each time continuing from the last hash."""
    data = word.encode("utf-8", "surrogatepass")
    factor, hashed = pow(33, len(data), _MASK + 1), 0
    for byte in data:
        hashed = (33 * hashed + byte) & _MASK
    seeds = [5515]
    for _ in range(4):
        seeds.append((factor * seeds[-1] + hashed) & _MASK)
    return seeds[1], seeds[2], seeds[3], seeds[4]


def _step(state: tuple[int, int, int, int]) -> tuple[int, tuple[int, int, int, int]]:
    a, b, c, d = state
    total = (a + b + d) & _MASK
    d = (d + 1) & _MASK
    a = b ^ (b >> 9)
    b = (c + ((c << 3) & _MASK)) & _MASK
    c = ((((c << 21) & _MASK) | (c >> 11)) + total) & _MASK
    return total, (a, b, c, d)


_SEPARATOR = re.compile(r":|(?<!\\),")  # a colon cannot be escaped
_SEVEN_DIGITS = 10_000_000
_COUNTER_STRIDE = 15
"""Distance between the counters of two dice of one roll."""


def hash7(value: object) -> str:
    """Seven digits that depend on the text alone."""
    (throw,) = random_values((0,), to_text(given(value)))
    number = math.floor(throw * _SEVEN_DIGITS)
    return f"{min(number, _SEVEN_DIGITS - 1):07d}"


def pick(value: object, counter: int, word: str) -> str:
    """Take one element of a list, of JSON list text, or of text with commas or colons."""
    elements = _elements(value)
    if not elements:
        return ""
    (throw,) = random_values((counter,), word)
    chosen = elements[math.floor(throw * len(elements))]
    return chosen if isinstance(chosen, str) else strict_json.compact(chosen)


def rollp(value: object, counter: int, word: str) -> str:
    """Throw dice written as ``2d6``, ``d20`` or ``20``; ``NaN`` for what is not dice."""
    dice = _dice(to_text(value))
    if dice is None:
        return "NaN"
    count, sides = dice
    throws = random_values((counter + _COUNTER_STRIDE * index for index in range(count)), word)
    return str(sum(math.floor(throw * sides) + 1 for throw in throws))


def _elements(value: object) -> list[object]:
    if is_sequence(value):
        return list(value)
    text = to_text(value)
    trimmed = trim_blanks(text)
    if trimmed.startswith("[") and trimmed.endswith("]"):
        try:
            listed = strict_json.loads(trimmed)
        except ValueError:
            listed = None
        if is_list(listed):
            return [*listed]
    parts = [part.replace("\\,", ",") for part in _SEPARATOR.split(text)]
    while parts and not parts[-1]:
        parts.pop()
    return [*parts]


def _dice(text: str) -> tuple[int, float] | None:
    parts = trim_blanks(text).split("d")
    while parts and not parts[-1]:
        parts.pop()
    if len(parts) not in (1, 2):  # "", "d" and "1d2d3" are one die of six sides, not an error
        return 1, 6
    written_count, written_sides = ("", parts[0]) if len(parts) == 1 else parts
    count = to_number(written_count) if trim_blanks(written_count) else 1
    sides = to_number(written_sides) if trim_blanks(written_sides) else 6
    if count is None or sides is None or count < 1 or sides < 1 or math.isinf(count) or math.isinf(sides):
        return None
    return min(math.ceil(count), MAX_DICE), sides  # sides may be a fraction


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


FILTERS: dict[str, Filter] = {
    "hash7": hash7,
    "hash": hash7,  # the same under another name
    "pick": _pick,
    "rollp": _rollp,
    "unixtime": _time_filter(unixtime),
    "isodate": _time_filter(isodate),
    "isotime": _time_filter(isotime),
    "datetimeformat": _datetimeformat,
    "date": _date,
    "divided_by": _dividing(divided_by),
    "modulo": _dividing(modulo),
    "round": _round,
    "split": _split,
    "join": standard.join,
    "truncate": standard.truncate,
    "truncatewords": standard.truncatewords,
    "escape": standard.escape,
    "h": standard.escape,
    "escape_once": standard.escape_once,
    "strip_html": standard.strip_html,
    "url_decode": standard.url_decode,
    "base64_decode": standard.base64_decode,
    "size": standard.size,
    "slice": standard.slice_,
    "concat": standard.concat,
    "sort": standard.sort,
    "map": standard.map_,
    "sum": standard.sum_,
    "compact": standard.compact,
    "uniq": standard.uniq,
    "sort_natural": standard.sort_natural,
    "where": standard.where,
    "reject": standard.reject,
    "find": standard.find,
    "find_index": standard.find_index,
    "has": standard.has,
}
