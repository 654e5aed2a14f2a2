"""Control flow: conditions, loops, ends, and other triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit._text.js_values import UNDEFINED, to_number, truthy
from tavernkit.risu_ai._triggers.conditions import compare
from tavernkit.risu_ai._triggers.registry import EffectTable

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
    if effect.fields.get("sourceType") == "var":
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
    """Count an iteration. The counter is never reset: in later outer iterations, an inner loop runs only once."""
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
    run.world.reload_message(effect.fields.get("index", UNDEFINED))
