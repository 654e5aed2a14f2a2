"""A small chat that tests build prompts of."""

from __future__ import annotations

from typing import Any

from tavernkit.cards import User
from tavernkit.risu_ai import Builder, Preset, RisuCharacter, RisuPlan
from tavernkit.risu_ai._prompt_template.cards import read_cards

CHAT: list[dict[str, Any]] = [
    {"role": "user", "data": "Hi.", "chatId": "m0"},
    {"role": "char", "data": "Welcome.", "chatId": "m1"},
    {"role": "user", "data": "What now?", "chatId": "m2"},
]

STANDARD: list[dict[str, Any]] = [
    {"type": "plain", "type2": "main", "text": "Main.", "role": "system"},
    {"type": "description"},
    {"type": "persona"},
    {"type": "lorebook"},
    {"type": "chat", "rangeStart": 0, "rangeEnd": "end"},
    {"type": "authornote"},
    {"type": "plain", "type2": "globalNote", "text": "Note.", "role": "system"},
]


def character(**fields: Any) -> RisuCharacter:
    base = {"name": "Mira", "chaId": "c1", "desc": "A smith.", "firstMessage": "Hello.", "alternateGreetings": []}
    return RisuCharacter.from_json({**base, **fields})


def preset(template: list[dict[str, Any]] | None = None, **fields: Any) -> Preset:
    """A preset for a model that counts as GPT and joins system messages."""
    base: dict[str, Any] = {"main_prompt": "Main.", "ai_model": "gpt4o", "max_context": 8000, "max_response": 100}
    cards = None if template is None else read_cards(template)
    return Preset(**{**base, "prompt_template": cards, **fields})


def lore(content: str, **fields: Any) -> dict[str, Any]:
    entry = {"key": "", "secondkey": "", "insertorder": 100, "comment": "", "mode": "normal", "alwaysActive": True}
    return {**entry, "content": content, **fields}


class Characters:
    """Counts characters, so that budgets can be added up by hand."""

    def estimate(self, text: str, model_hint: str | None = None) -> int:
        return len(text)


def inputs(**changes: Any) -> dict[str, Any]:
    return {
        "character": character(),
        "user": User(name="Ann"),
        "preset": preset(),
        "history": {"message": CHAT, "fmIndex": -1},
        "random": lambda: 0.5,
        "warn": None,
        **changes,
    }


def build(**changes: Any) -> RisuPlan:
    return Builder().build(**inputs(**changes))


def contents(plan: RisuPlan) -> list[str]:
    return [block.content for block in plan.enabled_blocks]


def omitted(plan: RisuPlan) -> dict[str, str]:
    return {each.name or each.id: each.reason for each in plan.omissions}
