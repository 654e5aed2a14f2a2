"""The prompt manager's list."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tavernkit.prompt.entry import EntryConditions, PromptEntry
from tavernkit.prompt.omission import Omission
from tavernkit.prompt.step import NoConfig, Step
from tavernkit.silly_tavern.chat.scan_messages import scan_messages
from tavernkit.silly_tavern.chat_completion.prompt_collection import collect
from tavernkit.silly_tavern.files.preset_check import never_sent
from tavernkit.silly_tavern.files.preset_prompts import PresetPrompt
from tavernkit.silly_tavern.state import SillyTavernState


class EntriesStep(Step[SillyTavernState, NoConfig]):
    """Takes the preset's prompts that are active for this generation, in order, and expands each.

    A prompt is active when it is switched on, its trigger names the generation and its ``conditions`` hold (these are
    our own addition to the format). Prompts that are not active are reported as omissions. In text completion there
    are the examples and the system prompt instead. Reads ``context``, ``core``, ``examples`` and ``macros``; writes
    ``prompt_entries``, or ``draft``.
    """

    name = "entries"

    def before(self, state: SillyTavernState) -> None:
        """Walk the preset's order list."""
        preset = state.context.active_preset

        def leave_out(prompt: PresetPrompt, reason: str) -> None:
            state.omit(Omission("prompt", prompt.identifier, reason, prompt.name or None))

        state.prompt_entries = collect(
            preset.effective_prompts, preset.effective_order, _objections(state), state.macros, leave_out
        )
        for prompt in preset.effective_prompts:
            reason = never_sent(prompt) if prompt.content and prompt.identifier in state.prompt_entries else None
            if reason is not None:
                leave_out(prompt, reason)


def _objections(state: SillyTavernState) -> Callable[[PresetPrompt], str | None]:
    kind = state.context.prompt_type

    @cache
    def conditions() -> EntryConditions:
        return _conditions(state)

    def objection(prompt: PresetPrompt) -> str | None:
        if not prompt.triggered_by(kind):
            return f"its trigger does not name {kind!r}"
        if not prompt.conditions:
            return None
        entry = PromptEntry(id=prompt.identifier, conditions=prompt.conditions)
        return None if entry.active_for(conditions()) else "its conditions do not hold"

    return objection


def _conditions(state: SillyTavernState) -> EntryConditions:
    context = state.context
    card = context.card
    return EntryConditions(
        chat_scan_messages=scan_messages(state.core, with_names=False),
        turn_count=sum(line.is_user for line in state.turn.chat),
        character=card,
        character_creator=card.creator if card is not None else "",
        character_version=card.character_version if card is not None else "",
        character_tags=card.tags if card is not None else (),
        user=context.user,
        persona=context.active_persona.description,
    )
