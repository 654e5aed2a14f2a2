"""The built-in prompts: lore, card, persona, registry, and the card's overrides."""

from __future__ import annotations

from tavernkit.prompt.step import NoConfig, Step
from tavernkit.silly_tavern.chat_completion.built_in_prompts import BuildTexts, merge_built_ins, override_by_card
from tavernkit.silly_tavern.persona import IN_PROMPT
from tavernkit.silly_tavern.state import SillyTavernState
from tavernkit.silly_tavern.world_info.explanation import Explanation
from tavernkit.silly_tavern.world_info.placement import PlacedEntry
from tavernkit.silly_tavern.world_info.result import WorldInfoResult
from tavernkit.values import FrozenJson, FrozenObject


class PinnedGroupsStep(Step[SillyTavernState, NoConfig]):
    """Puts the texts every prompt list has a place for into ``prompt_entries``.

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
            lore_sources=_lore_sources(result) if result is not None else {},
        )
        collection = state.prompt_entries
        own = {prompt.identifier for prompt in collection if prompt.custom}
        merge_built_ins(collection, texts, context.active_preset, state.extensions, state.macros)
        override_by_card(collection, state.card, state.macros.with_original)
        state.pinned_groups = {prompt.identifier: prompt for prompt in collection if prompt.identifier not in own}


def _lore_sources(result: WorldInfoResult) -> FrozenObject:
    explained = {one.entry.identity: one for one in result.explanations.touched() if one.active}

    def entries(placed: tuple[PlacedEntry, ...]) -> list[FrozenJson]:
        found: list[FrozenJson] = []
        for one in placed:
            why = explained.get(one.entry.identity)
            found.append(
                {
                    "id": one.entry.identity,
                    "name": one.entry.comment,
                    "cause": _cause(why) if why is not None else "",
                    "reason": why.text if why is not None else "",
                }
            )
        return found

    return {"worldInfoBefore": entries(result.placement.before), "worldInfoAfter": entries(result.placement.after)}


def _cause(why: Explanation) -> str:
    return f"key {why.match.key!r}" if why.match is not None else str(why.reason)
