"""The character's texts, ready for a prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tavernkit.cards.character import Character
from tavernkit.silly_tavern.chat_file import ChatMetadata
from tavernkit.silly_tavern.json_reader import as_number
from tavernkit.text.js_values import trim
from tavernkit.values import is_mapping

DEFAULT_DEPTH = 4
ROLE_NUMBERS = {"system": 0, "user": 1, "assistant": 2}


@dataclass(frozen=True, slots=True)
class DepthPrompt:
    """A character's note that stands in the chat at a depth."""

    text: str
    depth: int | float = DEFAULT_DEPTH
    role: int = 0


@dataclass(frozen=True, slots=True)
class JoinedFields:
    """Fields of a group's members joined into one card."""

    description: str
    personality: str
    scenario: str
    examples: str


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
    replace: Callable[[str], str],
) -> CardTexts:
    """Expand the fields one after another, in SillyTavern's order: a variable set in one is there in the next.

    ``replace`` expands a text in which card macros are empty. ``joined`` holds a group's merged fields, expanded.
    """
    if character is None:
        return CardTexts(persona=replace(trim(persona)))
    own = character

    def field(text: str) -> str:
        return replace(trim(text))

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


def depth_prompt_of(character: Character) -> DepthPrompt:
    """A card's depth prompt as it is written."""
    return read_depth_prompt(character.extensions.get("depth_prompt"))


def read_depth_prompt(found: object) -> DepthPrompt:
    """Read the object a card has; its role may be a name or a number, anything else counts as system."""
    if not is_mapping(found):
        return DepthPrompt("")
    text, depth, role = found.get("prompt"), as_number(found.get("depth")), found.get("role")
    number = ROLE_NUMBERS.get(role, 0) if isinstance(role, str) else as_number(role)
    return DepthPrompt(
        text=text if isinstance(text, str) else "",
        depth=DEFAULT_DEPTH if depth is None else depth,
        role=int(number) if number in (0, 1, 2) else 0,
    )
