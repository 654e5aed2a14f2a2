"""A small chat that tests build prompts of."""

from __future__ import annotations

from typing import Any

from tavernkit.cards import Character, User
from tavernkit.silly_tavern import Builder, ChatPlan, Preset

CHAT: list[dict[str, Any]] = [
    {"name": "Lyra", "mes": "You are late, {{user}}."},
    {"name": "Mira", "is_user": True, "mes": "I lost my boat."},
    {"name": "Lyra", "mes": "Sit down."},
    {"name": "Mira", "is_user": True, "mes": "Is {{char}} alone?"},
]


def card(name: str = "Lyra", **fields: Any) -> Character:
    return Character(name=name, **{"description": f"{name} keeps the lamp.", **fields})


def preset(**keys: Any) -> Preset:
    return Preset.from_json({"openai_model": "gpt-4", **keys})


def order(*identifiers: str) -> list[dict[str, Any]]:
    """A prompt order; a leading minus switches a line off."""
    entries = [{"identifier": each.removeprefix("-"), "enabled": not each.startswith("-")} for each in identifiers]
    return [{"character_id": 100001, "order": entries}]


def inputs(**changes: Any) -> dict[str, Any]:
    return {
        "character": card(),
        "user": User(name="Mira"),
        "preset": preset(),
        "history": CHAT,
        "random": lambda: 0.0,
        "warn": None,
        **changes,
    }


def build(**changes: Any) -> ChatPlan:
    return Builder(**inputs(**changes)).build()


def contents(plan: ChatPlan) -> list[str]:
    return [message.content for message in plan.messages]
