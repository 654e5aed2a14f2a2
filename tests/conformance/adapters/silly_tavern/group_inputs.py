"""Groups and characters as the group vectors write them."""

from __future__ import annotations

from typing import Any

from tavernkit.silly_tavern.groups.group import GroupMember, talkativeness_of


def member(character: dict[str, Any]) -> GroupMember:
    def text(key: str) -> str:
        value = character.get(key)
        return value if isinstance(value, str) else ""

    prompt = character.get("data", {}).get("extensions", {}).get("depth_prompt")
    return GroupMember(
        avatar=character["avatar"],
        name=character["name"],
        talkativeness=talkativeness_of(character),
        description=text("description"),
        personality=text("personality"),
        scenario=text("scenario"),
        mes_example=text("mes_example"),
        depth_prompt=prompt if isinstance(prompt, dict) else {},
    )
