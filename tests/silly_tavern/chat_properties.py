"""What holds for every preset, chat and build, whatever is in it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tavernkit.cards import Character, User
from tavernkit.errors import WarningLog
from tavernkit.silly_tavern import ChatFile, Preset, build
from tavernkit.silly_tavern._chat.card_fields import START, parse_block, split_examples
from tavernkit.silly_tavern._files.preset_migrations import migrate

PIECES = [
    *"ab {}<>:/\n\r\\|-_.é\u2028🙂",
    "\ud83d",
    "{{user}}",
    "{{char}}",
    "Mira:",
    "<START>",
    "{{",
    "}}",
    "<|endoftext|>",
]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=20)
scalars = st.none() | st.booleans() | st.integers(-5, 300) | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)

PRESET_KEYS = [*Preset.default().source, "names_in_completion", "main_prompt", "image_inlining", "claude_use_sysprompt"]
presets = st.dictionaries(st.sampled_from(PRESET_KEYS) | texts, values, max_size=8)

identifiers = st.sampled_from(
    ["main", "chatHistory", "dialogueExamples", "nsfw", "jailbreak", "charDescription", "c1", "c2", "bias"]
)
prompts = st.fixed_dictionaries(
    {"identifier": identifiers, "content": texts},
    optional={
        "role": st.sampled_from(["system", "user", "assistant", "", None, "tool"]),
        "system_prompt": st.booleans(),
        "injection_position": st.sampled_from([0, 1, "1", None]),
        "injection_depth": st.sampled_from([0, 1, 4, -1, 1.5, "2", 99999]),
        "injection_order": st.sampled_from([0, 100, 200, "50", None]),
        "injection_trigger": st.lists(st.sampled_from(["normal", "swipe", "continue", 3]), max_size=2),
        "forbid_overrides": st.booleans(),
    },
)
orders = st.lists(st.fixed_dictionaries({"identifier": identifiers, "enabled": st.booleans()}), max_size=8)
extras = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["narrator", "comment"]),
        "reasoning": texts,
        "bias": texts,
        "files": st.lists(st.fixed_dictionaries({"text": texts}), max_size=2),
        "tool_invocations": st.lists(
            st.fixed_dictionaries({"id": texts, "name": texts, "parameters": texts, "result": texts}), max_size=2
        ),
    },
)
lines = st.fixed_dictionaries(
    {"name": st.sampled_from(["Mira", "Lyra", "Zoë 🙂", ""]), "mes": texts, "is_user": st.booleans()},
    optional={"is_system": st.booleans(), "force_avatar": st.booleans(), "extra": extras},
)


@st.composite
def scenes(draw: st.DrawFn) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "openai_model": "gpt-4",
        "prompts": draw(st.lists(prompts, max_size=5)),
        "openai_max_context": draw(st.integers(0, 400)),
        "openai_max_tokens": draw(st.integers(0, 60)),
        "names_behavior": draw(st.sampled_from([-1, 0, 1, 2])),
        "send_if_empty": draw(texts),
        "squash_system_messages": draw(st.booleans()),
        "continue_prefill": draw(st.booleans()),
        "function_calling": draw(st.booleans()),
    }
    if draw(st.booleans()):
        keys["prompt_order"] = [{"character_id": 100001, "order": draw(orders)}]
    return {
        "character": Character(
            name="Lyra",
            description=draw(texts),
            mes_example=draw(texts),
            system_prompt=draw(texts),
            post_history_instructions=draw(texts),
        ),
        "user": User(name="Mira", persona=draw(texts)),
        "preset": Preset.from_json(keys, warn=WarningLog()),
        "history": draw(st.lists(lines, max_size=6)),
        "message": draw(texts),
        "quiet_prompt": draw(texts),
        "generation_type": draw(st.sampled_from(["normal", "continue", "swipe", "regenerate", "impersonate", "quiet"])),
        "chat_metadata": {
            "note_prompt": draw(texts),
            "note_position": draw(st.sampled_from([0, 1, 2])),
            "note_depth": 1,
        },
        "strategy": draw(st.sampled_from(["reference", "reference", "group_order", "priority"])),
        "on_overflow": "return",
        "seed": 1,
        "warn": None,
    }


def check_preset_round_trip(data: dict[str, Any]) -> None:
    preset = Preset.from_json(data, name="p", warn=WarningLog())
    expected = migrate(data, "p", default_prompts=Preset.default().get("prompts"))
    assert preset.to_json() == expected
    assert Preset.from_json(json.loads(preset.dumps()), name="p", warn=WarningLog()).to_json() == json.loads(
        json.dumps(expected)
    )


def check_any_text_is_a_chat(text: str) -> None:
    chat = ChatFile.loads(text, warn=WarningLog())
    again = ChatFile.loads(chat.dumps(), warn=WarningLog())
    assert [line.to_json() for line in again.messages] == [line.to_json() for line in chat.messages]


def check_examples(text: str, user: str, character: str, group: list[str]) -> None:
    for block in split_examples(text):
        assert block.startswith(f"{START}\n")
        for message in parse_block(block, user_name=user, character_name=character, group_names=group):
            assert message.name in ("example_user", "example_assistant")
            assert "\r" not in message.content


def check_build(scene: dict[str, Any]) -> None:
    plan = build(**scene)
    preset, report = scene["preset"], plan.trim_report
    assert report is not None
    budget = preset.openai_max_context - preset.openai_max_tokens
    if scene["strategy"] == "reference":
        assert report.final_tokens <= max(budget - 3, 0), "what is placed fits the budget, whatever happens"
        assert len(report.evictions) == report.eviction_count == len(list(report.evictions))
    assert all(block.source for block in plan.blocks)
    assert plan.fingerprint() == build(**scene).fingerprint()
    json.dumps(plan.to_request())
    str(plan.explain())
