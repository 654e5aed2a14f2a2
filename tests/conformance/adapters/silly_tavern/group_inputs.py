"""Characters as the group vectors write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tavernkit.cards import Character
from tavernkit.silly_tavern._group import Group, GroupChat, GroupMember

TOP_FIELDS = ("name", "description", "personality", "scenario", "first_mes", "mes_example")


def card(character: dict[str, Any]) -> Character:
    """A character as SillyTavern holds it in memory: the old fields on top, the new ones in `data`."""
    top = {key: value for key, value in character.items() if key in TOP_FIELDS and isinstance(value, str)}
    data = {**character.get("data", {}), **top}
    if "talkativeness" in character:
        data["extensions"] = {**data.get("extensions", {}), "talkativeness": character["talkativeness"]}
    return Character.from_card({"spec": "chara_card_v2", "spec_version": "2.0", "data": data})


def member(character: dict[str, Any]) -> GroupMember:
    return GroupMember(character["avatar"], card(character))


def open_group(names: Sequence[str], speaker: str) -> GroupChat:
    """A group chat of which only the names are given."""
    cards = {f"{name}.png": Character(name=name) for name in names}
    return GroupChat.of(Group.from_json({"members": list(cards)}), cards, f"{speaker}.png")
