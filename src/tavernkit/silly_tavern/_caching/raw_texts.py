"""The raw texts of a prompt, with their macros."""

from __future__ import annotations

from tavernkit.cards._character import Character
from tavernkit.lore import LoreResult
from tavernkit.silly_tavern._chat.authors_note import depth_prompt_of
from tavernkit.silly_tavern._chat.extension_prompts import AUTHORS_NOTE, DEPTH_PROMPT, PERSONA
from tavernkit.silly_tavern._chat_completion.prompt_collection import MAIN
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._world_info.result import WorldInfoResult


def raw_texts(context: SillyTavernContext, lore: LoreResult | None = None) -> dict[tuple[str, str], str]:
    """Return the texts by kind and id of their source, for ``tavernkit.cache.plan_spans()``.

    Args:
        context: The inputs of the build.
        lore: The result of the lore scan: the entries that may be in the prompt.
    """
    preset, metadata = context.active_preset, context.metadata
    found = {("preset prompt", prompt.identifier): prompt.content for prompt in preset.effective_prompts}
    cards = [context.card, *context.members.values()] if context.card is not None else [*context.members.values()]
    card_fields = {
        "charDescription": _joined(cards, "description"),
        "charPersonality": f"{_joined(cards, 'personality')}\n{preset.personality_format}",
        "scenario": f"{metadata.scenario or _joined(cards, 'scenario')}\n{preset.scenario_format}",
        "mes_example": metadata.mes_example or _joined(cards, "mes_example"),
        "system_prompt": metadata.system_prompt or _joined(cards, "system_prompt"),
        "post_history_instructions": _joined(cards, "post_history_instructions"),
    }
    found |= {("card field", name): text for name, text in card_fields.items()}
    if context.card is not None:
        found["depth prompt", DEPTH_PROMPT] = depth_prompt_of(context.card).text
    persona = context.active_persona.description
    found["persona", "personaDescription"] = found["persona", PERSONA] = persona
    found["author's note", AUTHORS_NOTE] = metadata.note_prompt or ""
    found["preset", "newMainChat"] = preset.new_chat_prompt
    found["preset", "newChat"] = preset.new_example_chat_prompt
    for prompt in context.extension_prompts:
        found[prompt.kind, prompt.key] = prompt.value
    if context.text_completion:
        found |= _text_completion(context)
    if isinstance(lore, WorldInfoResult):
        found |= {("lore", each.entry.identity): str(each.entry.content or "") for each in lore.activated}
    return found


def _text_completion(context: SillyTavernContext) -> dict[tuple[str, str], str]:
    system, template = context.active_system_prompt, context.active_context_template
    card = context.card
    own = card.system_prompt if card is not None and system.enabled else ""
    return {
        ("system prompt", MAIN): own or system.content,
        ("system prompt", "post_history"): system.post_history,
        ("context template", "story_string"): template.story_string,
        ("context template", "chat_start"): template.chat_start,
        # The preset's formats of these fields apply to chat completion only.
        ("card field", "charPersonality"): card.personality if card is not None else "",
        ("card field", "scenario"): context.metadata.scenario or (card.scenario if card is not None else ""),
    }


def _joined(cards: list[Character], name: str) -> str:
    return "\n".join(str(getattr(card, name) or "") for card in cards)
