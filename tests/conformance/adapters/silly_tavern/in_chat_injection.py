"""Prompts in the chat at a depth, in chat completion and in text completion."""

from __future__ import annotations

from typing import Any

from tavernkit.silly_tavern._builder import build
from tavernkit.silly_tavern._chat_completion.prompt_collection import CHAT_HISTORY
from tavernkit.silly_tavern._templates.templates import ContextTemplate
from tests.conformance.adapters.silly_tavern.build_chat import inputs, result
from tests.conformance.runner import Case

NOTHING_BUT_THE_CHAT = ContextTemplate(story_string="", chat_start="", example_separator="")


def run(case: Case) -> object:
    given = case.input
    if given["mode"] == "text":
        return {"lines": text_lines(given)}
    return {"messages": result(build(**inputs(as_build(given))))["messages"]}


def text_lines(given: Any) -> list[dict[str, object]]:
    built = inputs(as_build(given))
    changed: dict[str, Any] = {
        **built,
        "dialect": "text",
        "context_template": NOTHING_BUT_THE_CHAT,
        "context_length": 1_000_000,
        "dry_run": True,
    }
    plan = build(**changed)
    lines: list[dict[str, object]] = []
    for block in plan.blocks:
        if block.slot == CHAT_HISTORY:
            lines.append({"text": block.content, "injected": block.id.startswith("injection")})
        else:
            lines[-1]["text"] = f"{lines[-1]['text']}{block.content}"
    return lines[:-1] if given["type"] == "continue" and len(lines) > 1 else lines


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
