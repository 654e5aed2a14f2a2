"""Prompts in the chat at a depth, in chat completion and in text completion."""

from __future__ import annotations

from typing import Any

from tavernkit.silly_tavern.builder import Builder, build
from tavernkit.silly_tavern.plain_history import Speakers, history_lines, inject_texts, text_messages
from tests.conformance.adapters.silly_tavern.build_chat import inputs, result
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    if given["mode"] == "text":
        return {"lines": text_lines(given)}
    return {"messages": result(build(**inputs(as_build(given))))["messages"]}


def text_lines(given: Any) -> list[object]:
    builder = Builder()
    context = builder.make_context(**inputs(as_build(given)))
    state = builder.make_state(context)
    builder.pipeline["lore"].before(state)
    continuing = given["type"] == "continue"
    speakers = Speakers(given["user_name"], given["char_name"])
    messages = inject_texts(
        text_messages(state.core), state.extensions.in_chat(), speakers, state.macros, continuing=continuing
    )
    lines = history_lines(
        messages, speakers, continuing=continuing, stored_messages=len(state.turn.chat), name_reply=True
    )
    return [{"text": text, "injected": message.injected} for text, message in lines]


def as_build(given: Any) -> Any:
    order = ["chatHistory", *(prompt["identifier"] for prompt in given["prompts"])]
    extensions = {"depth_prompt": given["depth_prompt"]} if "depth_prompt" in given else {}
    data = {"name": given["char_name"], "extensions": extensions}
    return {
        "user_name": given["user_name"],
        "card": {"spec": "chara_card_v2", "spec_version": "2.0", "data": data},
        "chat": given["chat"],
        "type": given["type"],
        "chat_metadata": given.get("chat_metadata", {}),
        "persona": given.get("persona", {}),
        "extension_prompts": given["extension_prompts"],
        "preset": {
            "openai_max_context": 1_000_000,
            "new_chat_prompt": "",
            "continue_prefill": given.get("continue_prefill", False),
            "prompts": [{**prompt, "injection_position": 1, "system_prompt": False} for prompt in given["prompts"]],
            "prompt_order": [
                {"character_id": 100001, "order": [{"identifier": each, "enabled": True} for each in order]}
            ],
        },
    }
