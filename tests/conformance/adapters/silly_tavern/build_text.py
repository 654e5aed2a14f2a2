"""End-to-end text-completion builds."""

from __future__ import annotations

from typing import Any

from tavernkit.cards import Character, User
from tavernkit.silly_tavern._builder import build
from tavernkit.silly_tavern._chat.card_fields import Persona
from tavernkit.silly_tavern._files.chat_file import ChatMetadata
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._group import Group
from tavernkit.silly_tavern._text_completion.plan import TextPlan
from tavernkit.silly_tavern._world_info.book import WorldBook
from tests.conformance.runner import Case

WORLD_INFO = {
    "world_info": {},
    "world_info_depth": 2,
    "world_info_min_activations": 0,
    "world_info_budget": 25,
    "world_info_budget_cap": 0,
    "world_info_include_names": True,
    "world_info_recursive": True,
    "world_info_max_recursion_steps": 0,
    "world_info_case_sensitive": False,
    "world_info_match_whole_words": True,
    "world_info_use_group_scoring": False,
    "world_info_character_strategy": 1,
}
BOOKS = {
    "world_info": ("books", "oracle"),
    "character_world_info": ("character_books", "oracle-char"),
    "chat_world_info": ("chat_books", "oracle-chat"),
    "persona_world_info": ("persona_books", "oracle-persona"),
}
GENERATION_MODES = (0, 1, 2)


def run(case: Case) -> object:
    plan = build(**inputs(case.input))
    assert isinstance(plan, TextPlan)
    return plan.to_request()


def inputs(given: Any) -> dict[str, Any]:
    settings, generate = given["settings"], given["generate"]
    options = generate.get("options") or {}
    built: dict[str, Any] = {
        "dialect": "text",
        "user": User(name=given["user_name"]),
        "settings": Settings.from_json(
            {
                "username": given["user_name"],
                "power_user": {
                    **settings["power_user"],
                    **{key: settings[key] for key in ("context", "instruct", "sysprompt", "reasoning")},
                },
                "max_context": settings["max_context"],
                "amount_gen": settings["amount_gen"],
                "world_info_settings": WORLD_INFO,
            }
        ),
        "persona": live_persona(settings["power_user"]),
        "history": given["chat"],
        "message": generate.get("input_text", ""),
        "generation_type": generate["type"],
        "chat_metadata": ChatMetadata.from_json({**given["chat_metadata"], **given["authors_note"]}),
        "extension_prompts": given["extension_prompts"],
        "stop_strings": given["ephemeral_stop_strings"],
        "quiet_prompt": options.get("quiet_prompt", ""),
        "quiet_name": options.get("quietName", ""),
        "quiet_to_loud": options.get("quietToLoud", False),
        "force_name2": options.get("force_name2", False),
        "skip_world_info_registration": options.get("skipWIAN", False),
        "warn": None,
    }
    for key, (name, title) in BOOKS.items():
        if given.get(key) is not None:
            built[name] = [WorldBook.from_json(given[key], name=title)]
    group = given["group"]
    if group is None:
        built["character"] = Character.from_card(given["card"])
    else:
        cards = [Character.from_card(card) for card in group["members"]]
        built["members"] = {f"{card.name}.png": card for card in cards}
        built["group"] = Group.from_json(
            {
                **{key: value for key, value in group.items() if key.startswith("generation_mode")},
                "members": list(built["members"]),
                "disabled_members": [f"{name}.png" for name in group["disabled"]],
            }
        )
        built["speaker"] = group["speaker"]
    return built


def live_persona(power_user: Any) -> Persona:
    """The persona as it was set in the running program, where nothing is migrated any more."""
    return Persona(
        description=power_user.get("persona_description", ""),
        position=power_user.get("persona_description_position", 0),
        depth=power_user.get("persona_description_depth", 2),
        role=power_user.get("persona_description_role", 0),
    )
