"""Families of sources, each with a colour."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._dataclass import dataclass
from tavernkit._values import is_mapping
from tavernkit.prompt._block import Block


@dataclass(frozen=True, slots=True)
class SourceFamily:
    """Sources that share a colour; ``colour`` is for pages, ``style`` for terminals."""

    name: str
    """A short name, for programs."""
    label: str
    """The label in a legend."""
    colour: str
    style: str


PRESET = SourceFamily("preset", "preset", "#7c6ff0", "medium_purple1")
CARD = SourceFamily("card", "character card", "#2f9e6e", "spring_green3")
LORE = SourceFamily("lore", "lore", "#d9822b", "orange3")
EXAMPLE = SourceFamily("example", "example dialogue", "#8a9a2b", "dark_olive_green2")
HISTORY = SourceFamily("history", "chat history", "#2f7fd1", "deep_sky_blue1")
NOTE = SourceFamily("note", "notes and injections", "#c2477f", "hot_pink3")
PERSONA = SourceFamily("persona", "persona", "#1f9aa8", "dark_turquoise")
TOOL = SourceFamily("tool", "tools", "#8d6e4f", "rosy_brown")
OTHER = SourceFamily("other", "other", "#7a8190", "grey62")

FAMILIES = (PRESET, CARD, PERSONA, LORE, EXAMPLE, HISTORY, NOTE, TOOL, OTHER)
"""All families, in the order of a legend."""

_BY_KIND: Mapping[str, SourceFamily] = {
    "preset": PRESET,
    "preset prompt": PRESET,
    "main prompt": PRESET,
    "jailbreak": PRESET,
    "global note": PRESET,
    "start marker": PRESET,
    "post end inner format": PRESET,
    "system prompt": PRESET,
    "context template": PRESET,
    "reply line": PRESET,
    "bias": PRESET,
    "chain of thought": PRESET,
    "group instruction": PRESET,
    "continue instruction": PRESET,
    "emotion instructions": CARD,
    "image instructions": CARD,
    "chat metadata": NOTE,
    "card field": CARD,
    "description": CARD,
    "greeting": HISTORY,
    "example": EXAMPLE,
    "examples": EXAMPLE,
    "lore": LORE,
    "lore_entry": LORE,
    "lorebook": LORE,
    "history": HISTORY,
    "message": HISTORY,
    "chat": HISTORY,
    "user message": HISTORY,
    "injection": NOTE,
    "author's note": NOTE,
    "author note": NOTE,
    "depth prompt": NOTE,
    "quiet prompt": NOTE,
    "memory": NOTE,
    "persona": PERSONA,
    "persona prompt": PERSONA,
    "tool": TOOL,
    "tools": TOOL,
}

_BY_STAGE: Mapping[str, SourceFamily] = {"template": PRESET, "chat": HISTORY, "lore": LORE, "entries": PRESET}
_BY_GROUP: Mapping[str, SourceFamily] = {"examples": EXAMPLE, "lore": LORE, "history": HISTORY, "system": PRESET}


def family_of(block: Block) -> SourceFamily:
    """Return the family of a block; blocks without a known source count by their budget group."""
    source = block.source
    if not is_mapping(source):
        return _BY_KIND.get(str(source or ""), _BY_GROUP.get(block.token_budget_group, OTHER))
    kind = str(source.get("kind") or "")
    if kind == "card field" and (source.get("id") == "mes_example" or block.slot == "dialogueExamples"):
        return EXAMPLE
    for name in (kind, kind.partition(" + ")[0]):
        if name in _BY_KIND:
            return _BY_KIND[name]
    stage = _BY_STAGE.get(str(source.get("stage") or ""))
    return stage or _BY_GROUP.get(block.token_budget_group, OTHER)
