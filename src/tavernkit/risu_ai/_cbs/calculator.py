"""The calculator of ``{{? ...}}`` and ``calc``: RisuAI's own arithmetic, including its bugs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache

from tavernkit._text.js_values import WHITESPACE, number_to_string, parse_float, remainder, truthy
from tavernkit.risu_ai._cbs.blocks import NO_VARIABLES, Variables
from tavernkit.risu_ai._cbs.limits import CACHED_RESULTS, FunctionFailure

Operand = float | None
"""``None`` is a missing operand (``undefined``)."""

_OPERATORS = "-+*/^%<>|&≤≥=≠!"
_SPLIT = re.compile(rf"([{re.escape(_OPERATORS[1:])}]|(?<=[^{re.escape(_OPERATORS)}])-)")
_CHAT_VARIABLE = re.compile(r"\$([a-zA-Z0-9_]+)")
_GLOBAL_VARIABLE = re.compile(r"@([a-zA-Z0-9_]+)")
_NULL = re.compile("null", re.IGNORECASE | re.ASCII)
_NO_WHITESPACE = str.maketrans("", "", WHITESPACE)
_SPELLINGS = (("&&", "&"), ("||", "|"), ("<=", "≤"), (">=", "≥"), ("==", "="), ("!=", "≠"))
# All comparisons rank alike, and even ``^`` is left-associative: 3>2>1 is 0, 2^3^2 is 64.
_PRECEDENCE = {"!": 5, "^": 4, "*": 3, "/": 3, "%": 3, "+": 2, "-": 2} | dict.fromkeys("<>|&≤≥=≠", 1)
_CACHED_LENGTH = 120
_EXACT = 2.0**53


def calculate(expression: str, variables: Variables) -> str:
    """Evaluate an expression and return the number as text; fails if there is no result."""
    if "$" not in expression and "@" not in expression:
        return constant(expression)
    return _calculate(expression, variables)


def constant(expression: str) -> str:
    """Evaluate an expression without variables; raises ``NeedsVariables`` if it has one."""
    if len(expression) <= _CACHED_LENGTH:
        return _cached(expression)
    return _calculate(expression, NO_VARIABLES)


@lru_cache(maxsize=CACHED_RESULTS)
def _cached(expression: str) -> str:
    return _calculate(expression, NO_VARIABLES)


def _calculate(expression: str, variables: Variables) -> str:
    if "(" in expression:
        expression = _without_parentheses(expression, variables)
    result = _evaluate(expression, variables)
    if result is None:
        raise FunctionFailure("the expression has no result")
    return show(result)


def _without_parentheses(expression: str, variables: Variables) -> str:
    """Replace parentheses with their results; unclosed ones are removed.

    Results are pasted as text, as in RisuAI: ``2(3)`` is 23, ``5()`` is 50, a missing one is the word ``undefined``.
    """
    buffers: list[list[str]] = [[]]
    for piece in re.split(r"([()])", expression):
        if piece == "(":
            buffers.append([])
        elif piece == ")" and len(buffers) > 1:
            inner = show(_evaluate("".join(buffers.pop()), variables))
            buffers[-1].append(inner)
        else:
            buffers[-1].append(piece)
    return "".join(piece for buffer in buffers for piece in buffer)


def show(value: Operand) -> str:
    """Print a number as JavaScript does."""
    if value is None:
        return "undefined"
    if -_EXACT < value < _EXACT and value == (whole := int(value)):
        return str(whole)
    return number_to_string(value)


def _evaluate(text: str, variables: Variables) -> Operand:
    if "$" in text:
        text = _CHAT_VARIABLE.sub(lambda found: _variable(variables.chat_variable(found[1])), text)
    if "@" in text:
        text = _GLOBAL_VARIABLE.sub(lambda found: _variable(variables.global_variable(found[1])), text)
    for written, meant in _SPELLINGS:
        text = text.replace(written, meant)
    text = _NULL.sub("0", text).translate(_NO_WHITESPACE)
    values: list[Operand] = []
    pending: list[str] = []
    for index, token in enumerate(_SPLIT.split(text)):
        if index % 2 == 0 and token != "-":
            _push_operand(values, token or "0")  # a missing operand is 0: `!x` reads `0!x`
            continue
        precedence = _PRECEDENCE[token]
        while pending and (
            _PRECEDENCE[pending[-1]] > precedence or (_PRECEDENCE[pending[-1]] == precedence and token != "!")
        ):
            _apply(pending.pop(), values)
        pending.append(token)
    while pending:
        _apply(pending.pop(), values)
    return values[-1] if values else 0.0


def _variable(value: str) -> str:
    number = parse_float(value)
    return "0" if number != number else number_to_string(number)


def _push_operand(values: list[Operand], token: str) -> None:
    """Read a token as an operand; words and all spellings of zero except ``0`` are dropped, as in RisuAI."""
    number = float(token) if token.isascii() and token.isdecimal() else parse_float(token)
    if token == "0" or (number == number and number != 0):
        values.append(number)


def _apply(name: str, values: list[Operand]) -> None:
    right = values.pop() if values else None
    left = values.pop() if values else None
    values.append(_OPERATIONS[name](left, right))


_Operation = Callable[[Operand, Operand], Operand]


def _arithmetic(compute: Callable[[float, float], float]) -> _Operation:
    def operation(left: Operand, right: Operand) -> float:
        return compute(math.nan if left is None else left, math.nan if right is None else right)

    return operation


def _comparison(compare: Callable[[float, float], bool]) -> _Operation:
    def operation(left: Operand, right: Operand) -> float:
        return 1.0 if left is not None and right is not None and compare(left, right) else 0.0

    return operation


def divide(left: float, right: float) -> float:
    """Divide (``/``), also by zero."""
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def power(base: float, exponent: float) -> float:
    """Raise to a power (``**``): anything to the power 0 is 1, and 1 to an infinite power is not a number."""
    if exponent == 0:
        return 1.0
    if base != base or exponent != exponent or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    if exponent == 2:
        return base * base  # as Chromium does; `pow` may differ in the last digit
    if exponent == 0.5 and base > 0:
        return math.sqrt(base)
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and math.fmod(exponent, 2) != 0 else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        odd = math.fmod(exponent, 2) in (1.0, -1.0)
        return math.copysign(math.inf, base) if odd else math.inf


_OPERATIONS: dict[str, _Operation] = {
    "+": _arithmetic(lambda left, right: left + right),
    "-": _arithmetic(lambda left, right: left - right),
    "*": _arithmetic(lambda left, right: left * right),
    "/": _arithmetic(divide),
    "%": _arithmetic(remainder),
    "^": _arithmetic(power),
    "<": _comparison(lambda left, right: left < right),
    ">": _comparison(lambda left, right: left > right),
    "≤": _comparison(lambda left, right: left <= right),
    "≥": _comparison(lambda left, right: left >= right),
    "=": lambda left, right: 1.0 if left == right else 0.0,
    "≠": lambda left, right: 0.0 if left == right else 1.0,
    # these two return an operand, as in JavaScript
    "|": lambda left, right: left if truthy(left) else right,
    "&": lambda left, right: right if truthy(left) else left,
    # it takes two operands from the stack and ignores one
    "!": lambda _, right: 0.0 if truthy(right) else 1.0,
}
