"""Our filters, as Liquid calls them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from liquid import RenderContext
from liquid.builtin.filters.math import divided_by, modulo, round_
from liquid.builtin.filters.misc import date as builtin_date
from liquid.builtin.filters.string import split
from liquid.exceptions import LiquidError
from liquid.filter import num_arg, with_context

from tavernkit.vibe_tavern._liquid_macros import list_filters, random_filters, text_filters, time_filters
from tavernkit.vibe_tavern._liquid_macros.engine import MacroContext, Run
from tavernkit.vibe_tavern._liquid_macros.numbers import to_number, to_text
from tavernkit.vibe_tavern._liquid_macros.operands import given
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
    return random_filters.pick(given(value), *_seeds(context, counter, word))


@with_context
def _rollp(value: object, counter: object = None, word: object = None, *, context: RenderContext) -> str:
    return random_filters.rollp(given(value), *_seeds(context, counter, word))


def _hash7(value: object) -> str:
    return random_filters.hash7(given(value))


def _time_filter(write: Callable[[int], str]) -> Filter:
    @with_context
    def apply(value: object, *, context: RenderContext) -> str:
        return write(time_filters.milliseconds_of(given(value), _run(context).now_ms))

    return apply


@with_context
def _datetimeformat(value: object, pattern: object = None, *, context: RenderContext) -> str:
    at = time_filters.milliseconds_of(given(value), _run(context).now_ms)
    return time_filters.datetimeformat(at, to_text(given(pattern)))


@with_context
def _date(value: object, pattern: object, *, context: RenderContext) -> object:
    """The standard filter, but with the run's clock and UTC."""
    value, pattern = given(value), given(pattern)
    if is_blank(pattern) or isinstance(value, bool) or not isinstance(value, (int, str)):
        return value
    if isinstance(value, str) and len(value) > _LONGEST_DATE:
        return value
    if value in ("now", "today"):
        value = time_filters.moment(_run(context).now_ms())
    elif isinstance(value, int) or (value.isascii() and value.isdecimal()):
        value = time_filters.moment(int(value) * 1000)
    return builtin_date(value, to_text(pattern), environment=context.env)


def _dividing(builtin: Filter) -> Filter:
    def apply(value: object, other: object) -> object:
        if not isinstance(other, float) and num_arg(given(other), default=0) == 0:
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


FILTERS: dict[str, Filter] = {
    "hash7": _hash7,
    "hash": _hash7,
    "pick": _pick,
    "rollp": _rollp,
    "unixtime": _time_filter(time_filters.unixtime),
    "isodate": _time_filter(time_filters.isodate),
    "isotime": _time_filter(time_filters.isotime),
    "datetimeformat": _datetimeformat,
    "date": _date,
    "divided_by": _dividing(divided_by),
    "modulo": _dividing(modulo),
    "round": _round,
    "split": _split,
    "join": list_filters.join,
    "truncate": text_filters.truncate,
    "truncatewords": text_filters.truncatewords,
    "escape": text_filters.escape,
    "h": text_filters.escape,
    "escape_once": text_filters.escape_once,
    "strip_html": text_filters.strip_html,
    "url_decode": text_filters.url_decode,
    "base64_decode": text_filters.base64_decode,
    "size": text_filters.size,
    "slice": text_filters.slice_,
    "concat": list_filters.concat,
    "sort": list_filters.sort,
    "map": list_filters.map_,
    "sum": list_filters.sum_,
    "compact": list_filters.compact,
    "uniq": list_filters.uniq,
    "sort_natural": list_filters.sort_natural,
    "where": list_filters.where,
    "reject": list_filters.reject,
    "find": list_filters.find,
    "find_index": list_filters.find_index,
    "has": list_filters.has,
}


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
