"""The text that a ``display`` run edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit.risu_ai._triggers.registry import EffectTable
from tavernkit.risu_ai._triggers.signals import RunAbortedError

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run

effects = EffectTable()


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
