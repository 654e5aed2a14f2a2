"""Numbers: arithmetic, comparisons and truth (``1`` and ``0``; only the text ``1`` is true), dice and choices."""

from __future__ import annotations

import math
from collections.abc import Callable

from tavernkit._text.js_values import (
    JSRangeError,
    js_lower,
    js_round,
    number_to_string,
    remainder,
    to_fixed,
    to_integer,
    to_number,
)
from tavernkit._values import Json
from tavernkit.risu_ai._cbs.calculator import power
from tavernkit.risu_ai._cbs.functions.chat import selected
from tavernkit.risu_ai._cbs.hashing import pick_hash_rand
from tavernkit.risu_ai._cbs.limits import MAX_ROLLS, FunctionFailure
from tavernkit.risu_ai._cbs.lists import parse_array, stringify
from tavernkit.risu_ai._cbs.registry import CBSCall, FunctionGroup

number_functions = FunctionGroup("numbers")


@number_functions("round", args=("number",), pure=True)
def round_(call: CBSCall) -> str:
    """The nearest integer, halves up."""
    return number_to_string(js_round(call.number(0)))


@number_functions("floor", args=("number",), pure=True)
def floor(call: CBSCall) -> str:
    """The next integer below."""
    number = call.number(0)
    return number_to_string(math.floor(number) if math.isfinite(number) else number)


@number_functions("ceil", args=("number",), pure=True)
def ceil(call: CBSCall) -> str:
    """The next integer above."""
    number = call.number(0)
    return number_to_string(math.ceil(number) if math.isfinite(number) else number)


@number_functions("abs", args=("number",), pure=True)
def abs_(call: CBSCall) -> str:
    """The number without its sign."""
    return number_to_string(abs(call.number(0)))


@number_functions("remaind", args=("a", "b"), pure=True)
def remaind(call: CBSCall) -> str:
    """What is left of a division, with the sign of the first number."""
    return number_to_string(remainder(call.number(0), call.number(1)))


@number_functions("pow", args=("base", "exponent"), pure=True)
def pow_(call: CBSCall) -> str:
    """A power."""
    return number_to_string(power(call.number(0), call.number(1)))


def _numbers(call: CBSCall) -> list[float]:
    values = (to_number(item) for item in call.items())
    return [0.0 if value != value else value for value in values]  # what is not a number counts as 0


@number_functions("min", args=("numbers...",), pure=True)
def min_(call: CBSCall) -> str:
    """The least of the arguments, or of the items of a list."""
    return number_to_string(min(_numbers(call), default=math.inf))


@number_functions("max", args=("numbers...",), pure=True)
def max_(call: CBSCall) -> str:
    """The greatest of the arguments, or of the items of a list."""
    return number_to_string(max(_numbers(call), default=-math.inf))


def _total(numbers: list[float]) -> float:
    total = 0.0
    for number in numbers:  # sum() would round differently on newer Pythons
        total += number
    return total


@number_functions("sum", args=("numbers...",), pure=True)
def sum_(call: CBSCall) -> str:
    """The sum of the arguments, or of the items of a list."""
    return number_to_string(_total(_numbers(call)))


@number_functions("average", args=("numbers...",), pure=True)
def average(call: CBSCall) -> str:
    """The average of the arguments, or of the items of a list."""
    numbers = _numbers(call)
    return number_to_string(_total(numbers) / len(numbers) if numbers else math.nan)


@number_functions("fixnum", "fixnumber", args=("number", "digits"), pure=True)
def fixnum(call: CBSCall) -> str:
    """The number with this many decimals."""
    digits = to_integer(call.number(1))
    if not 0 <= digits <= 100:
        raise FunctionFailure("there can be 0 to 100 decimals")
    try:
        return to_fixed(call.number(0), int(digits))
    except JSRangeError as error:
        raise FunctionFailure(str(error)) from error


logic_functions = FunctionGroup("logic")


def _bit(value: object) -> str:
    return "1" if value else "0"


@logic_functions("equal", args=("a", "b"), pure=True)
def equal(call: CBSCall) -> str:
    """True if two texts are the same."""
    return _bit(call.get(0) == call.get(1))


@logic_functions("notequal", "not_equal", args=("a", "b"), pure=True)
def notequal(call: CBSCall) -> str:
    """True if two texts differ."""
    return _bit(call.get(0) != call.get(1))


@logic_functions("greater", args=("a", "b"), pure=True)
def greater(call: CBSCall) -> str:
    """True if the first number is greater."""
    return _bit(call.number(0) > call.number(1))


@logic_functions("less", args=("a", "b"), pure=True)
def less(call: CBSCall) -> str:
    """True if the first number is less."""
    return _bit(call.number(0) < call.number(1))


@logic_functions("greaterequal", "greater_equal", args=("a", "b"), pure=True)
def greaterequal(call: CBSCall) -> str:
    """True if the first number is greater or equal."""
    return _bit(call.number(0) >= call.number(1))


@logic_functions("lessequal", "less_equal", args=("a", "b"), pure=True)
def lessequal(call: CBSCall) -> str:
    """True if the first number is less or equal."""
    return _bit(call.number(0) <= call.number(1))


@logic_functions("and", args=("a", "b"), pure=True)
def and_(call: CBSCall) -> str:
    """True if both are ``1``."""
    return _bit(call.get(0) == "1" and call.get(1) == "1")


@logic_functions("or", args=("a", "b"), pure=True)
def or_(call: CBSCall) -> str:
    """True if one of them is ``1``."""
    return _bit(call.get(0) == "1" or call.get(1) == "1")


@logic_functions("not", args=("a",), pure=True)
def not_(call: CBSCall) -> str:
    """``0`` if the argument is ``1``, else ``1``."""
    return _bit(call.get(0) != "1")


@logic_functions("all", args=("items...",), pure=True)
def all_(call: CBSCall) -> str:
    """True if all arguments, or all items of a list, are ``1``."""
    return _bit(all(item == "1" for item in call.items()))  # the number 1 of a JSON list is not the text


@logic_functions("any", args=("items...",), pure=True)
def any_(call: CBSCall) -> str:
    """True if one of the arguments, or of the items of a list, is ``1``."""
    return _bit(any(item == "1" for item in call.items()))


@logic_functions("iserror", args=("text",), pure=True)
def iserror(call: CBSCall) -> str:
    """True if a text is an error message of RisuAI."""
    return _bit(js_lower(call.text(0)).startswith("error:"))


random_functions = FunctionGroup("random")

_COMMA = "§X"
"""A placeholder for an escaped comma while a list is split."""


def _choices(args: list[str]) -> list[Json]:
    if len(args) > 1:
        return [*args]
    text = args[0]
    if text.startswith("[") and text.endswith("]"):
        return parse_array(text)  # `[a,b]` is not JSON: one item
    return [*text.replace("\\,", _COMMA).replace(":", ",").split(",")]


def _choose(call: CBSCall, chance: float) -> str:
    if not call.args:
        return number_to_string(chance)
    choices = _choices(call.args)
    index = 0 if call.context.token_counting else math.floor(chance * len(choices))
    if not 0 <= index < len(choices):
        return ""
    choice = choices[index]
    # The placeholder becomes a comma in lists that never had one, too.
    return choice.replace(_COMMA, ",") if isinstance(choice, str) else stringify(choice)


def _fixed_chance(call: CBSCall, offset: int = 0) -> float:
    selected(call)
    return pick_hash_rand(len(call.context.chat.messages) + offset, call.context.seed_word)


@random_functions("random", args=("items...",))
def random(call: CBSCall) -> str:
    """One of the arguments, of the items of a list, or of words separated by commas; without any, a number below 1."""
    return _choose(call, call.context.random())  # drawn even if the first item is taken to count tokens


@random_functions("pick", args=("items...",))
def pick(call: CBSCall) -> str:
    """Like ``random``, but always the same until the chat continues."""
    return _choose(call, _fixed_chance(call))


@random_functions("randint", args=("min", "max"))
def randint(call: CBSCall) -> str:
    """A whole number between two, both included."""
    low, high = call.number(0), call.number(1)
    if low != low or high != high:
        return "NaN"
    value = call.context.random() * (high - low + 1)
    return number_to_string((math.floor(value) if math.isfinite(value) else value) + low)


def _rolls(call: CBSCall, count: float, sides: float, chance: Callable[[int], float]) -> str:
    """Add up dice; a fraction of a die is a die."""
    if count > MAX_ROLLS:
        raise FunctionFailure(f"one tag may roll at most {MAX_ROLLS} dice")
    call.run.session.step(math.ceil(max(count, 0)))
    total = 0.0
    for index in range(math.ceil(max(count, 0))):
        value = chance(index) * sides
        total += (math.floor(value) if math.isfinite(value) else value) + 1
    return number_to_string(total)


@random_functions("dice", args=("XdY",))
def dice(call: CBSCall) -> str:
    """The sum of X dice with Y sides."""
    parts = call.text(0).split("d")  # `1d2d3` is 1d2, `d6` rolls nothing
    count = to_number(parts[0])
    sides = to_number(parts[1]) if len(parts) > 1 else math.nan
    if count != count or sides != sides:
        return "NaN"
    return _rolls(call, count, sides, lambda _: call.context.random())


def _roll(call: CBSCall, chance: Callable[[int], float]) -> str:
    if not call.args:
        return "1"
    parts = call.args[0].split("d")
    count, sides = 1.0, 6.0  # also for three parts or more
    if len(parts) == 2:
        count = to_number(parts[0]) if parts[0] else 1.0
        sides = to_number(parts[1]) if parts[1] else 6.0
    elif len(parts) == 1:
        sides = to_number(parts[0])  # no default here: an empty argument has 0 sides, which is NaN
    if not (count >= 1 and sides >= 1):
        return "NaN"
    return _rolls(call, count, sides, chance)


@random_functions("roll", args=("XdY",))
def roll(call: CBSCall) -> str:
    """The sum of X dice (default 1) with Y sides (default 6)."""
    return _roll(call, lambda _: call.context.random())


@random_functions("rollp", "rollpick", args=("XdY",))
def rollp(call: CBSCall) -> str:
    """Like ``roll``, but always the same until the chat continues."""
    return _roll(call, lambda index: _fixed_chance(call, 15 * index))  # RisuAI's distance between two dice
