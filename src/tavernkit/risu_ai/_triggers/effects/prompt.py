"""What becomes of the prompt (added texts, stopping, sending again) and of the text that a ``display`` run edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit.risu_ai._triggers.registry import EffectTable
from tavernkit.risu_ai._triggers.signals import RunAbortedError

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run

effects = EffectTable()


@effects.effect("systemprompt")
def system_prompt_v1(run: Run, effect: Effect) -> None:
    """Add a text to the prompt."""
    run.add_prompt(effect.fields.get("location", "undefined"), run.cbs(effect.fields.get("value")))


@effects.effect("v2SystemPrompt")
def system_prompt(run: Run, effect: Effect) -> None:
    """Add a text to the prompt."""
    run.add_prompt(effect.fields.get("location", "undefined"), run.value(effect, "value"))


@effects.effect("stop", "v2StopPromptSending")
def stop_sending(run: Run, effect: Effect) -> None:
    """Send nothing after this run; the run itself continues."""
    run.stop_sending = True


@effects.effect("sendAIprompt", "v2SendAIprompt", low_level=True)
def send_again(run: Run, effect: Effect) -> None:
    """Let the model answer again after the run."""
    run.send_ai_prompt = True


@effects.effect("v2GetDisplayState")
def get_display(run: Run, effect: Effect) -> None:
    """Read the text."""
    if not run.display_mode:
        raise RunAbortedError
    run.output(effect, "null" if run.display_data is None else run.display_data)


@effects.effect("v2SetDisplayState")
def set_display(run: Run, effect: Effect) -> None:
    """Replace the text."""
    if not run.display_mode:
        raise RunAbortedError
    run.display_data = run.world.budget.text(run.value(effect, "value"))
