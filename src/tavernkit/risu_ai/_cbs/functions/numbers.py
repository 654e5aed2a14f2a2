"""Arithmetic on single numbers and lists."""

from __future__ import annotations

import math

from tavernkit._text.js_values import (
    JSRangeError,
    js_round,
    number_to_string,
    remainder,
    to_fixed,
    to_integer,
    to_number,
)
from tavernkit.risu_ai._cbs.calculator import power
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.registry import FunctionGroup
from tavernkit.risu_ai._cbs.signals import FunctionFailure

functions = FunctionGroup("numbers")


@functions("round", args=("number",), pure=True)
def round_(call: CBSCall) -> str:
    """The nearest integer, halves up."""
    return number_to_string(js_round(call.number(0)))


@functions("floor", args=("number",), pure=True)
def floor(call: CBSCall) -> str:
    """The next integer below."""
    number = call.number(0)
    return number_to_string(math.floor(number) if math.isfinite(number) else number)


@functions("ceil", args=("number",), pure=True)
def ceil(call: CBSCall) -> str:
    """The next integer above."""
    number = call.number(0)
    return number_to_string(math.ceil(number) if math.isfinite(number) else number)


@functions("abs", args=("number",), pure=True)
def abs_(call: CBSCall) -> str:
    """The number without its sign."""
    return number_to_string(abs(call.number(0)))


@functions("remaind", args=("a", "b"), pure=True)
def remaind(call: CBSCall) -> str:
    """What is left of a division, with the sign of the first number."""
    return number_to_string(remainder(call.number(0), call.number(1)))


@functions("pow", args=("base", "exponent"), pure=True)
def pow_(call: CBSCall) -> str:
    """A power."""
    return number_to_string(power(call.number(0), call.number(1)))


def _numbers(call: CBSCall) -> list[float]:
    values = (to_number(item) for item in call.items())
    return [0.0 if value != value else value for value in values]


@functions("min", args=("numbers...",), pure=True)
def min_(call: CBSCall) -> str:
    """The least of the arguments, or of the items of a list."""
    return number_to_string(min(_numbers(call), default=math.inf))


@functions("max", args=("numbers...",), pure=True)
def max_(call: CBSCall) -> str:
    """The greatest of the arguments, or of the items of a list."""
    return number_to_string(max(_numbers(call), default=-math.inf))


def _total(numbers: list[float]) -> float:
    total = 0.0
    for number in numbers:  # sum() would round differently on newer Pythons
        total += number
    return total


@functions("sum", args=("numbers...",), pure=True)
def sum_(call: CBSCall) -> str:
    """The sum of the arguments, or of the items of a list."""
    return number_to_string(_total(_numbers(call)))


@functions("average", args=("numbers...",), pure=True)
def average(call: CBSCall) -> str:
    """The average of the arguments, or of the items of a list."""
    numbers = _numbers(call)
    return number_to_string(_total(numbers) / len(numbers) if numbers else math.nan)


@functions("fixnum", "fixnumber", args=("number", "digits"), pure=True)
def fixnum(call: CBSCall) -> str:
    """The number with this many decimals."""
    digits = to_integer(call.number(1))
    if not 0 <= digits <= 100:
        raise FunctionFailure("there can be 0 to 100 decimals")
    try:
        return to_fixed(call.number(0), int(digits))
    except JSRangeError as error:
        raise FunctionFailure(str(error)) from error
