"""A character's note: the prompt of a card that stands in the chat at a depth."""

from __future__ import annotations

from dataclasses import dataclass

from tavernkit.cards.character import Character
from tavernkit.text.json_reader import as_number
from tavernkit.values import is_mapping

DEFAULT_DEPTH = 4
ROLE_NUMBERS = {"system": 0, "user": 1, "assistant": 2}


@dataclass(frozen=True, slots=True)
class DepthPrompt:
    """A text, its depth and the number of its role."""

    text: str
    depth: int | float = DEFAULT_DEPTH
    role: int = 0


def depth_prompt_of(character: Character) -> DepthPrompt:
    """A card's depth prompt as it is written; its role may be a name or a number, anything else counts as system."""
    found = character.extensions.get("depth_prompt")
    if not is_mapping(found):
        return DepthPrompt("")
    text, depth, role = found.get("prompt"), as_number(found.get("depth")), found.get("role")
    number = ROLE_NUMBERS.get(role, 0) if isinstance(role, str) else as_number(role)
    return DepthPrompt(
        text=text if isinstance(text, str) else "",
        depth=DEFAULT_DEPTH if depth is None else depth,
        role=int(number) if number in (0, 1, 2) else 0,
    )
