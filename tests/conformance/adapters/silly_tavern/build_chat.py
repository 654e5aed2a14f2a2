"""End-to-end chat-completion builds."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tavernkit._values import thaw
from tavernkit.cards import Character, User
from tavernkit.silly_tavern._builder import build
from tavernkit.silly_tavern._chat.card_fields import Persona
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat_completion.plan import ChatPlan
from tavernkit.silly_tavern._files.chat_file import ChatMetadata
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._group import Group
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScripts, read_scripts
from tavernkit.silly_tavern._world_info.book import WorldBook
from tests.conformance.runner import VECTORS, Case

REPLY = "canned reply"


@cache
def defaults() -> Any:
    return json.loads((VECTORS / "silly_tavern" / "build_chat.defaults.json").read_text("utf-8"))


def run(case: Case) -> object:
    given = case.input
    if "generations" in case.expected:
        return {"generations": round_of_speakers(given)}
    return result(build(**inputs(given)))


def round_of_speakers(given: Any) -> list[object]:
    from tavernkit.silly_tavern._builder import Builder

    shared = inputs(given)
    speakers = Builder().decide(**shared).activated
    chat: Any = list(shared.pop("history"))
    message, found = shared.pop("message"), []
    for avatar in speakers:
        plan = build(**shared, history=chat, message=message, speaker=avatar)
        name = avatar.removesuffix(".png")
        found.append({"speaker": name, **result(plan)})
        chat, message = [*plan.chat, ChatMessage(name=name, mes=REPLY, original_avatar=avatar)], ""
    return found


def inputs(given: Any) -> dict[str, Any]:
    base = defaults()
    persona = {**base["persona"], **given.get("persona", {})}
    power_user = dict(base["power_user"])
    for key, value in given.get("power_user", {}).items():
        power_user[key] = {**power_user.get(key, {}), **value} if isinstance(value, dict) else value
    settings = Settings.from_json(
        {
            "username": given["user_name"],
            "power_user": power_user,
            "extension_settings": {"note": {**base["note_settings"], **given.get("note_settings", {})}},
            "world_info_settings": {**base["world_info_settings"], **given.get("world_info_settings", {})},
        }
    )
    options = given.get("options") or {}
    built: dict[str, Any] = {
        "user": User(name=given["user_name"]),
        "persona": Persona(
            description=persona["description"],
            position=persona["position"],
            depth=persona["depth"],
            role=persona["role"],
        ),
        "settings": settings,
        "preset": Preset.from_json({**base["preset"], **given.get("preset", {})}),
        "history": given["chat"],
        "message": given.get("user_input", ""),
        "chat_metadata": ChatMetadata.from_json(given.get("chat_metadata", {})),
        "generation_type": given["type"],
        "books": [WorldBook.from_json(book, name=name) for name, book in given.get("world_info", {}).items()],
        "extension_prompts": given.get("extension_prompts", []),
        "tools": given.get("tools", []),
        "quiet_prompt": options.get("quiet_prompt", ""),
        "response_length": options.get("responseLength", 0),
        "skip_world_info_registration": options.get("skipWIAN", False),
        "tool_recursion": options.get("depth", 0),
        "random": lambda: 0.0,
        "on_overflow": "return",
        "warn": None,
    }
    if "regex_scripts" in given:
        built["regex_scripts"] = RegexScripts(global_=read_scripts(given["regex_scripts"], "scripts"))
    if "card" in given:
        built["character"] = Character.from_card(given["card"])
    if "cards" in given:
        cards = [Character.from_card(card) for card in given["cards"]]
        group = {**base["group"], **given["group"]}
        for key in ("members", "disabled_members"):
            group[key] = [f"{name}.png" for name in group[key]]
        built["members"] = {f"{card.name}.png": card for card in cards}
        built["group"] = Group.from_json(group)
        if "speaker" in given:
            built["speaker"] = given["speaker"]
    return built


def result(plan: ChatPlan) -> dict[str, object]:
    request = plan.to_request()
    found: dict[str, object] = {
        "messages": request.pop("messages"),
        "items": [
            [block.slot, block.metadata["identifier"], block.role, block.metadata["tokens"]] for block in plan.blocks
        ],
        "token_counts": dict(plan.token_counts),
        "total_tokens": sum(plan.token_counts.values()),
        "budget_left": plan.budget_left,
        "overridden_prompts": list(plan.overridden_prompts),
        "request": thaw(request),
    }
    if plan.overflow is not None:
        found["overflow"] = "mandatory_prompts_exceed_context"
    return found
