from __future__ import annotations

import json
from typing import Any

from tavernkit._text.js_values import trim
from tavernkit.cards import User
from tavernkit.silly_tavern._builder import Builder
from tavernkit.silly_tavern._files.chat_file import ChatMetadata
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._group import Group, GroupChat, group_depth_prompts, merge_cards
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._steps.prepare import PrepareStep
from tests.conformance.adapters.silly_tavern.group_inputs import card
from tests.conformance.runner import VECTORS, Case

ROLES = ("system", "user", "assistant")


def run(case: Case) -> object:
    given = case.input
    match given["op"]:
        case "cards":
            return {"cards": cards(given)}
        case "depth_prompts":
            return {"depth_prompts": depth_prompts(given)}
        case "card_fields":
            return {"fields": card_fields(given)}
        case "macros":
            macros = prepared(given).macros
            return {"text": macros(given["text"])}
        case _:
            return {"history": history(given)}


def inputs(given: Any) -> dict[str, Any]:
    speaker = given["characters"][given["character_id"]]
    defaults = json.loads((VECTORS / "silly_tavern" / "build_chat.defaults.json").read_text("utf-8"))
    return {
        "user": User(name=given["user_name"]),
        "group": Group.from_json(given["group"]),
        "members": {each["avatar"]: card(each) for each in given["characters"]},
        "speaker": speaker["avatar"],
        "character": card(speaker),
        "avatar": speaker["avatar"],
        "preset": Preset.from_json({**defaults["preset"], **given.get("oai_settings", {})}),
        "settings": Settings.from_json({"power_user": given.get("power_user", {})}),
        "chat_metadata": ChatMetadata.from_json(given.get("chat_metadata", {})),
        "history": given.get("chat", []),
        "generation_type": given.get("type", "normal"),
        "warn": None,
    }


def prepared(given: Any) -> SillyTavernState:
    state = SillyTavernState(Builder().make_context(**inputs(given)))
    PrepareStep().before(state)
    return state


def group_chat(given: Any) -> GroupChat:
    known = {each["avatar"]: card(each) for each in given["characters"]}
    return GroupChat.of(Group.from_json(given["group"]), known, given["characters"][given["character_id"]]["avatar"])


def cards(given: Any) -> object:
    metadata = given["chat_metadata"]
    joined = merge_cards(
        group_chat(given),
        expand=prepared(given).macros.card,
        scenario_override=metadata.get("scenario") or "",
        examples_override=metadata.get("mes_example") or "",
    )
    return joined and {
        "description": joined.description,
        "personality": joined.personality,
        "scenario": joined.scenario,
        "mesExamples": joined.examples,
    }


def depth_prompts(given: Any) -> object:
    prompts = group_depth_prompts(
        group_chat(given),
        expand=prepared(given).macros.card,
    )
    return [{"text": prompt.text, "depth": prompt.depth, "role": ROLES[prompt.role]} for prompt in prompts]


def card_fields(given: Any) -> object:
    state = prepared(given)
    texts, own = state.card, state.context.card
    assert own is not None
    return {
        "system": texts.system_prompt,
        "mesExamples": texts.examples,
        "description": texts.description,
        "personality": texts.personality,
        "persona": texts.persona,
        "scenario": texts.scenario,
        "jailbreak": texts.post_history,
        "version": own.character_version,
        "creatorNotes": texts.creator_notes,
        "charDepthPrompt": texts.depth_prompt,
        "firstMessage": state.macros.card(trim(own.first_mes)),
        "alternateGreetings": [state.macros.card(trim(greeting)) for greeting in own.alternate_greetings],
    }


def history(given: Any) -> object:
    """The messages of a dry run from the start of the chat on: the main prompt and the card were cut off."""
    plan = Builder().build(**inputs(given), dry_run=True)
    blocks = [block.slot for block in plan.blocks]
    first = blocks.index("chatHistory")
    return plan.to_messages()[first:]
