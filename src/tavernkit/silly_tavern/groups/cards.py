"""One card out of many: the fields of a group's members joined."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tavernkit.silly_tavern.card_fields import DepthPrompt, JoinedFields, read_depth_prompt
from tavernkit.silly_tavern.groups.group import Group, GroupMember
from tavernkit.text.js_values import trim

START = "<START>"
_FIELD_NAME = re.compile("<FIELDNAME>", re.IGNORECASE)

Substitute = Callable[[str, str | None], str]
"""Expands a card text: ``(text, character name)``; without a name ``{{char}}`` is the current speaker."""


def merge_cards(
    group: Group,
    characters: Sequence[GroupMember],
    speaker: str | None,
    *,
    substitute: Substitute,
    scenario_override: str = "",
    examples_override: str = "",
) -> JoinedFields | None:
    """Join the members' fields; nothing when the group swaps cards or has no members.

    ``speaker`` is the avatar of the one who speaks: counted even when muted. Overrides replace what would be collected.
    """
    if group.generation_mode == "swap" or not group.members:
        return None
    included = _members(group, characters, speaker, with_muted=group.generation_mode == "append_disabled")

    def joined(label: str, read: Callable[[GroupMember], str]) -> str:
        chunks = (_chunk(group, member, label, read(member), substitute) for member in included)
        return "\n".join(chunk for chunk in chunks if chunk)

    def override(text: str) -> str:
        return substitute(trim(text), None) if trim(text) else ""

    return JoinedFields(
        description=joined("Description", lambda member: member.description),
        personality=joined("Personality", lambda member: member.personality),
        scenario=override(scenario_override) or joined("Scenario", lambda member: member.scenario),
        examples=override(examples_override) or joined("Example Messages", _examples),
    )


def group_depth_prompts(
    group: Group, characters: Sequence[GroupMember], speaker: str | None, *, substitute: Substitute
) -> list[DepthPrompt]:
    """The members' own depth prompts; none when the group swaps cards."""
    if group.generation_mode == "swap":
        return []
    prompts: list[DepthPrompt] = []
    for member in _members(group, characters, speaker, with_muted=False):
        written = read_depth_prompt(member.depth_prompt)
        text = substitute(trim(written.text), member.name) if trim(written.text) else ""
        if text:
            prompts.append(DepthPrompt(text, written.depth, written.role))
    return prompts


def _members(
    group: Group, characters: Sequence[GroupMember], speaker: str | None, *, with_muted: bool
) -> list[GroupMember]:
    by_avatar = {character.avatar: character for character in reversed(characters)}
    muted = frozenset[str]() if with_muted else frozenset(group.disabled_members) - {speaker}
    return [by_avatar[avatar] for avatar in group.members if avatar in by_avatar and avatar not in muted]


def _examples(member: GroupMember) -> str:
    text = trim(member.mes_example)
    return text if not text or text.startswith(START) else f"{START}\n{text}"


def _chunk(group: Group, member: GroupMember, label: str, value: str, substitute: Substitute) -> str:
    value = trim(value)
    if not value:
        return ""

    def expanded(text: str) -> str:
        return substitute(_FIELD_NAME.sub(label, text), member.name) if text else ""

    return expanded(group.join_prefix) + expanded(value) + expanded(group.join_suffix)
