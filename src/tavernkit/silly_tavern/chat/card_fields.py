"""The character's texts, ready for a prompt: all of them at once, as a generation begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tavernkit.cards.character import Character
from tavernkit.silly_tavern.chat.depth_prompt import depth_prompt_of
from tavernkit.silly_tavern.files.chat_file import ChatMetadata
from tavernkit.silly_tavern.groups.cards import JoinedFields
from tavernkit.text.js_values import trim


@dataclass(frozen=True, slots=True)
class CardTexts:
    """Card fields with their macros expanded. A whitespace-only field is empty."""

    system_prompt: str = ""
    examples: str = ""
    description: str = ""
    personality: str = ""
    persona: str = ""
    scenario: str = ""
    post_history: str = ""
    depth_prompt: str = ""
    creator_notes: str = ""


def card_texts(
    character: Character | None,
    metadata: ChatMetadata,
    persona: str,
    *,
    prefer_prompt: bool,
    prefer_jailbreak: bool,
    joined: JoinedFields | None,
    expand: Callable[[str], str],
) -> CardTexts:
    """Expand the fields one after another, in SillyTavern's order: a variable set in one is there in the next.

    ``expand`` expands a text in which card macros are empty. ``joined`` holds a group's merged fields, expanded.
    """
    if character is None:
        return CardTexts(persona=expand(trim(persona)))
    own = character

    def field(text: str) -> str:
        return expand(trim(text))

    system_prompt = field(metadata.system_prompt or own.system_prompt) if prefer_prompt else ""
    examples = joined.examples if joined is not None else field(metadata.mes_example or own.mes_example)
    description = joined.description if joined is not None else field(own.description)
    personality = joined.personality if joined is not None else field(own.personality)
    persona_text = field(persona)
    scenario = joined.scenario if joined is not None else field(metadata.scenario or own.scenario)
    texts = CardTexts(
        system_prompt=system_prompt,
        examples=examples,
        description=description,
        personality=personality,
        persona=persona_text,
        scenario=scenario,
        post_history=field(own.post_history_instructions) if prefer_jailbreak else "",
        depth_prompt=field(depth_prompt_of(own).text),
        creator_notes=field(own.creator_notes),
    )
    for greeting in (own.first_mes, *own.alternate_greetings):
        field(greeting)
    return texts
