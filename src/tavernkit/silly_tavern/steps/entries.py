"""The prompt manager's list."""

from __future__ import annotations

from tavernkit.prompt.omission import Omission
from tavernkit.prompt.step import NoConfig, Step
from tavernkit.silly_tavern.chat_completion.prompt_collection import collect
from tavernkit.silly_tavern.preset_prompts import PresetPrompt
from tavernkit.silly_tavern.state import SillyTavernState


class EntriesStep(Step[SillyTavernState, NoConfig]):
    """Takes the preset's prompts that are active for this generation, in order, and expands each.

    Reads ``context`` and ``macros``; writes ``prompt_entries``. Prompts that are not active are reported as omissions.
    """

    name = "entries"

    def before(self, state: SillyTavernState) -> None:
        """Walk the preset's order list."""
        preset = state.context.active_preset

        def leave_out(prompt: PresetPrompt, reason: str) -> None:
            state.omit(Omission("prompt", prompt.identifier, reason, prompt.name or None))

        state.prompt_entries = collect(
            preset.effective_prompts, preset.effective_order, state.context.prompt_type, state.macros, leave_out
        )
