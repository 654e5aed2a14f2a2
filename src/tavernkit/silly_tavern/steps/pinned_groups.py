"""The built-in prompts: lore, card, persona, registry, and the card's overrides."""

from __future__ import annotations

from tavernkit.prompt.step import NoConfig, Step
from tavernkit.silly_tavern.chat.persona import IN_PROMPT
from tavernkit.silly_tavern.chat_completion.built_in_prompts import BuildTexts, merge_built_ins, override_by_card
from tavernkit.silly_tavern.state import SillyTavernState


class PinnedGroupsStep(Step[SillyTavernState, NoConfig]):
    """Puts the texts every prompt has a place for into the prompt list.

    Reads ``lore_result``, ``card``, ``quiet_prompt``, ``turn`` and ``extensions``; writes ``prompt_entries`` and
    ``pinned_groups``.
    """

    name = "pinned_groups"

    def before(self, state: SillyTavernState) -> None:
        """Merge the built-in prompts, then let the card override."""
        context, result = state.context, state.lore_result
        persona = context.active_persona
        texts = BuildTexts(
            card=state.card,
            lore_before=result.before if result is not None else "",
            lore_after=result.after if result is not None else "",
            quiet_prompt=state.quiet_prompt,
            bias=state.turn.bias,
            persona=persona.description if persona.place == IN_PROMPT else "",
            entries_before=state.lore_sources.of(result.placement.before) if result is not None else (),
            entries_after=state.lore_sources.of(result.placement.after) if result is not None else (),
        )
        collection = state.prompt_entries
        own = {prompt.identifier for prompt in collection if prompt.custom}
        merge_built_ins(collection, texts, context.active_preset, state.extensions, state.macros)
        override_by_card(collection, state.card, state.macros.with_original)
        state.pinned_groups = {prompt.identifier: prompt for prompt in collection if prompt.identifier not in own}
