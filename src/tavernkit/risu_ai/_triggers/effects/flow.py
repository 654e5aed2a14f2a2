"""Control flow (conditions, loops, ends, other triggers), variables, numbers and random numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from tavernkit._text.js_values import UNDEFINED, number_to_string, parse_float, remainder, to_number, truthy
from tavernkit.risu_ai._cbs.calculator import calculate, divide
from tavernkit.risu_ai._cbs.limits import FunctionFailure
from tavernkit.risu_ai._triggers.conditions import compare
from tavernkit.risu_ai._triggers.program import EffectTable

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run


effects = EffectTable()

END = 1 << 62
"""Past the last effect of any trigger."""


@effects.effect("v2Header", "v2Comment", "v2Loop", "v2LoopNTimes", "triggercode", "runAxLLM")
def nothing(run: Run, effect: Effect) -> None:
    """Do nothing: loops repeat at their end."""


@effects.effect("v2If")
def if_variable(run: Run, effect: Effect) -> int | None:
    """Continue if a comparison with a variable is true, else after the block."""
    source = run.get(run.cbs(effect.fields.get("source")))
    target = run.value(effect, "target")
    return None if compare(source, effect.fields.get("condition"), target) else effect.jump


@effects.effect("v2IfAdvanced")
def if_value(run: Run, effect: Effect) -> int | None:
    """Continue if a comparison with a variable or a text is true, else after the block."""
    source = run.cbs(effect.fields.get("source"))
    if effect.fields.get("sourceType") == "var":  # elsewhere, a variable is what has no type
        source = run.get(source)
    target = run.value(effect, "target")
    return None if compare(source, effect.fields.get("condition"), target) else effect.jump


@effects.effect("v2Else")
def skip_else(run: Run, effect: Effect) -> int:
    """Skip the else block, because the block before it ran."""
    return effect.jump


@effects.effect("v2EndIndent")
def end_block(run: Run, effect: Effect) -> int | None:
    """End a block, or repeat a loop. Without a matching loop, everything starts over."""
    target = None
    if truthy(effect.fields.get("endOfLoop")):
        target = effect.jump + 1
        opener = run.effects[effect.jump] if effect.jump >= 0 else None
        if opener is not None and opener.type == "v2LoopNTimes" and not _again(run, opener, effect.jump):
            target = None
    if effect.indent is not None:
        run.locals.drop(effect.indent)
    return target


def _again(run: Run, opener: Effect, position: int) -> bool:
    """Count an iteration. The counter is never reset: in later outer iterations, an inner loop runs only once.

    It counts at the end of the loop, so that a body runs at least once.
    """
    run.counters[position] = run.counters.get(position, 0) + 1
    times = run.number(opener, "value")
    return run.counters[position] < (0.0 if times != times else times)


@effects.effect("v2BreakLoop")
def break_loop(run: Run, effect: Effect) -> int:
    """Continue after the next end of a loop."""
    return effect.jump


@effects.effect("v2StopTrigger")
def stop_trigger(run: Run, effect: Effect) -> int:
    """End this trigger."""
    return END


@effects.effect("runtrigger")
def run_trigger_v1(run: Run, effect: Effect) -> None:
    """Run the triggers with a name."""
    run.nested(effect.fields.get("value"))


@effects.effect("v2RunTrigger")
def run_trigger(run: Run, effect: Effect) -> None:
    """Run the triggers with a name."""
    run.nested(effect.fields.get("target"))


@effects.effect("triggerlua")
def run_lua(run: Run, effect: Effect) -> None:
    """Call the Lua function of the mode, or the one with the manual name."""
    code = effect.fields.get("code")
    if run.lua.run_effect(run, code if isinstance(code, str) else ""):
        run.stop_sending = True


@effects.effect("v2ConsoleLog")
def console_log(run: Run, effect: Effect) -> None:
    """Write to the console."""
    text = run.value(effect, "source")
    run.world.ask_host("log", lambda: run.world.host.log(text), None, text)


@effects.effect("v2Wait")
def wait(run: Run, effect: Effect) -> None:
    """Wait some seconds, if the host wants to."""
    milliseconds = to_number(run.value(effect, "value")) * 1000
    run.world.ask_host("sleep", lambda: run.world.host.sleep(milliseconds), None, milliseconds)


@effects.effect("v2UpdateGUI")
def update_screen(run: Run, effect: Effect) -> None:
    """Draw everything again."""
    run.world.reload_screen += 1


@effects.effect("v2UpdateChatAt")
def update_message(run: Run, effect: Effect) -> None:
    """Draw a message again."""
    run.world.reload_message(effect.fields.get("index", UNDEFINED))  # not expanded


_VARIABLE = re.compile(r"\$([a-zA-Z0-9_]+)")


_V1_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+=": lambda old, new: old + new,
    "-=": lambda old, new: old - new,
    "*=": lambda old, new: old * new,
    "/=": divide,
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
    if compute is None:  # also `%=` in V1
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
    drawn = run.world.context.random() * (most - least + 1) + least  # not bounded if the least is above the most
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
