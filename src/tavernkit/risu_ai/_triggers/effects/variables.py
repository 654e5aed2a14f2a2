"""Variables, numbers and random numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from tavernkit._text.js_values import number_to_string, parse_float, remainder, to_number
from tavernkit.risu_ai._cbs.calculator import calculate
from tavernkit.risu_ai._cbs.signals import FunctionFailure
from tavernkit.risu_ai._triggers.registry import EffectTable

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run

effects = EffectTable()

_VARIABLE = re.compile(r"\$([a-zA-Z0-9_]+)")


def _divide(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or left != left or right != right:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


_V1_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+=": lambda old, new: old + new,
    "-=": lambda old, new: old - new,
    "*=": lambda old, new: old * new,
    "/=": _divide,
}
_V2_OPERATORS: dict[str, Callable[[float, float], float]] = {**_V1_OPERATORS, "%=": remainder}


def _assign(
    run: Run, effect: Effect, value: str, name: str, operators: dict[str, Callable[[float, float], float]]
) -> None:
    operator = effect.fields.get("operator")
    if operator == "=":
        run.set(name, value)
        return
    compute = operators.get(operator) if isinstance(operator, str) else None
    if compute is None:
        run.set(name, "")
        return
    old = to_number(run.get(name))
    run.set(name, number_to_string(compute(0.0 if old != old else old, to_number(value))))


@effects.effect("setvar")
def set_variable_v1(run: Run, effect: Effect) -> None:
    """Assign to a variable, or calculate with it."""
    name = run.cbs(effect.fields.get("var"))
    _assign(run, effect, run.cbs(effect.fields.get("value")), name, _V1_OPERATORS)


@effects.effect("v2SetVar")
def set_variable(run: Run, effect: Effect) -> None:
    """Assign to a variable, or calculate with it."""
    value = run.value(effect, "value")
    _assign(run, effect, value, run.name(effect, "var"), _V2_OPERATORS)


@effects.effect("v2DeclareLocalVar")
def declare_local(run: Run, effect: Effect) -> None:
    """Declare a variable that exists until the end of its block."""
    name, value = run.name(effect, "var"), run.value(effect, "value")
    run.locals.declare(name, run.world.budget.text(value), effect.indent)


@effects.effect("v2Random")
def random(run: Run, effect: Effect) -> None:
    """Draw a whole number."""
    least, most = run.number(effect, "min"), run.number(effect, "max")
    drawn = run.world.context.random() * (most - least + 1) + least
    run.output(effect, number_to_string(math.floor(drawn) if math.isfinite(drawn) else drawn))


@effects.effect("v2Calculate")
def calculate_expression(run: Run, effect: Effect) -> None:
    """Evaluate an expression, which may contain the run's own variables."""
    expression = _VARIABLE.sub(lambda found: _number_text(run.get(found[1])), run.value(effect, "expression"))
    try:
        result = calculate(expression, run.world.context)
    except FunctionFailure:
        result = "0"
    run.output(effect, result)


def _number_text(text: str) -> str:
    number = parse_float(text)
    return "0" if number != number else number_to_string(number)


@effects.effect("v2Tokenize")
def tokenize(run: Run, effect: Effect) -> None:
    """Count the tokens of a text."""
    run.output(effect, str(run.world.count_tokens(run.value(effect, "value"))))
