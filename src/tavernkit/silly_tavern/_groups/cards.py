"""Joins the fields of a group's members into one card."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim
from tavernkit._text.traced import join, substitute
from tavernkit.silly_tavern._chat.authors_note import DepthPrompt, depth_prompt_of
from tavernkit.silly_tavern._groups.group import GroupChat, GroupMember

START = "<START>"
_FIELD_NAME = re.compile("<FIELDNAME>", re.IGNORECASE | re.ASCII)

JoinedField: TypeAlias = Literal["description", "personality", "scenario", "mes_example"]
"""A card field that groups join."""

_TITLES: dict[JoinedField, str] = {
    "description": "Description",
    "personality": "Personality",
    "scenario": "Scenario",
    "mes_example": "Example Messages",
}

ExpandCardText: TypeAlias = Callable[[str, str | None], str]
"""Expands a card's text: ``(text, character name)``; without a name ``{{char}}`` is the current speaker."""


@dataclass(frozen=True, slots=True)
class JoinedFields:
    """Fields of a group's members joined into one card, expanded."""

    description: str
    personality: str
    scenario: str
    examples: str


def merge_cards(
    chat: GroupChat, *, expand: ExpandCardText, scenario_override: str = "", examples_override: str = ""
) -> JoinedFields | None:
    """Join the members' fields; None if the group swaps cards. Overrides replace the joined texts."""
    if not chat.joins_cards:
        return None
    return JoinedFields(
        description=join_field(chat, "description", expand),
        personality=join_field(chat, "personality", expand),
        scenario=join_field(chat, "scenario", expand, scenario_override),
        examples=join_field(chat, "mes_example", expand, examples_override),
    )


def join_field(chat: GroupChat, field: JoinedField, expand: ExpandCardText, override: str = "") -> str:
    """Join one field of the members, each between the group's prefix and suffix, unless the chat has its own."""
    own = trim(override)
    if own and (text := expand(own, None)):
        return text
    with_muted = chat.group.generation_mode == "append_disabled"
    chunks = [_chunk(chat, member, field, expand) for member in chat.heard(with_muted=with_muted)]
    return join("\n", (chunk for chunk in chunks if chunk))


def group_depth_prompts(chat: GroupChat, *, expand: ExpandCardText) -> list[DepthPrompt]:
    """Return the members' own depth prompts; empty if the group swaps cards."""
    if not chat.joins_cards:
        return []
    prompts: list[DepthPrompt] = []
    for member in chat.heard(with_muted=False):
        written = depth_prompt_of(member.character)
        text = expand(trim(written.text), member.name) if trim(written.text) else ""
        if text:
            prompts.append(DepthPrompt(text, written.depth, written.role))
    return prompts


def _chunk(chat: GroupChat, member: GroupMember, field: JoinedField, expand: ExpandCardText) -> str:
    written: str = getattr(member.character, field)
    value = trim(written)
    if not value:
        return ""
    if field == "mes_example" and not value.startswith(START):
        value = START + "\n" + value
    texts = (
        substitute(_FIELD_NAME, _TITLES[field], text)
        for text in (chat.group.join_prefix, value, chat.group.join_suffix)
    )
    return join("", (expand(text, member.name) for text in texts if text))
