"""Two settings at once, where each alone has its recordings: who stands where in a chat-completion prompt."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.silly_tavern import ChatPlan
from tests.silly_tavern.scene import build, order, preset
from tests.silly_tavern.test_assembly import chat
from tests.silly_tavern.test_group_builds import builder

OFF = ("-charDescription", "-charPersonality", "-scenario")
MAIN = {"identifier": "main", "content": "MAIN", "role": "system", "system_prompt": True}
LAST = {"identifier": "jailbreak", "content": "JB", "role": "system", "system_prompt": True}
SMALL: dict[str, Any] = {
    "prompts": [MAIN, LAST],
    "prompt_order": order("main", "chatHistory", "jailbreak", *OFF),
    "new_chat_prompt": "[new]",
    "new_group_chat_prompt": "[new group]",
    "group_nudge_prompt": "[only {{char}}]",
    "continue_nudge_prompt": "[go on: {{lastChatMessage}}]",
}
CHAT = (">u {{user}}", "a", "b {{char}}")
IN_CHAT_MAIN = {**MAIN, "role": "user", "injection_position": 1, "injection_depth": 1, "injection_order": 5}
IN_CHAT_LAST = {**LAST, "role": "assistant", "injection_position": 1, "injection_depth": 0, "injection_order": 101}


def injected(depth: int, role: int) -> dict[str, Any]:
    return {"key": "k", "value": "INJ", "position": 1, "depth": depth, "role": role}


def said(plan: ChatPlan) -> list[str]:
    messages: Any = plan.to_request()["messages"]
    return [f"{each['role']} {each.get('name', '-')} {each['content']}" for each in messages]


@pytest.mark.parametrize(
    ("keys", "given", "expected"),
    [
        pytest.param(
            {"names_behavior": 2},
            {"generation_type": "continue"},
            [
                "user - Mira: u Mira",
                "assistant - Lyra: a",
                "system - JB",
                "assistant - Lyra: b Lyra",
                "system - [go on: b Lyra]",
            ],
            id="the nudge quotes the continued text without the name before it",
        ),
        pytest.param(
            {"names_behavior": 2, "continue_prefill": True},
            {"generation_type": "continue"},
            ["user - Mira: u Mira", "assistant - Lyra: a", "system - JB", "assistant - Lyra: b {{char}}"],
            id="a prefill keeps the name before it",
        ),
        pytest.param(
            {"names_behavior": 1, "continue_prefill": True},
            {"generation_type": "continue"},
            ["user Mira u Mira", "assistant Lyra a", "system - JB", "assistant Lyra b {{char}}"],
            id="a prefill keeps the name it is sent under",
        ),
        pytest.param(
            {"send_if_empty": " {{user}}? "},
            {"generation_type": "continue"},
            [
                "user - u Mira",
                "assistant - a",
                "user -  {{user}}? ",
                "system - JB",
                "assistant - b Lyra",
                "system - [go on: b Lyra]",
            ],
            id="words for an empty box follow what is left when the continued message is gone",
        ),
        pytest.param(
            {"send_if_empty": "go"},
            {"extension_prompts": [injected(0, 2)], "message": "hi"},
            [
                "user - u Mira",
                "assistant - a",
                "assistant - b Lyra",
                "user - hi",
                "assistant - INJ",
                "user - go",
                "system - JB",
            ],
            id="words for an empty box answer an injection too",
        ),
        pytest.param(
            {"continue_prefill": True},
            {"generation_type": "continue", "extension_prompts": [injected(1, 0)], "quiet_prompt": "Q"},
            ["user - u Mira", "system - INJ", "assistant - a", "system - JB", "system - Q", "assistant - b {{char}}"],
            id="depths do not count a prefill, which comes after a quiet prompt",
        ),
        pytest.param(
            {"impersonation_prompt": "I {{user}}"},
            {"generation_type": "impersonate", "quiet_prompt": "Q"},
            ["user - u Mira", "assistant - a", "assistant - b Lyra", "system - JB", "system - I Mira", "system - Q"],
            id="a quiet prompt comes after the one to impersonate",
        ),
        pytest.param(
            {"prompts": [MAIN, IN_CHAT_LAST], "squash_system_messages": True},
            {"extension_prompts": [injected(0, 0), {**injected(0, 2), "key": "l"}]},
            [
                "user - u Mira",
                "assistant - a",
                "assistant - b Lyra",
                "assistant - INJ",
                "system - INJ",
                "assistant - JB",
            ],
            id="registered prompts join the order value 100 only",
        ),
    ],
)
def test_two_settings_of_a_chat(keys: dict[str, Any], given: dict[str, Any], expected: list[str]) -> None:
    plan = build(history=chat(*CHAT), preset=preset(**{**SMALL, **keys}), **given)
    assert said(plan) == ["system - MAIN", "system - [new]", *expected]


@pytest.mark.parametrize(
    ("main", "sent"),
    [
        (
            MAIN,
            [
                "system - SUM",
                "system - MAIN",
                "assistant - NOTE",
                "user - u Mira",
                "assistant - a",
                "assistant - b Lyra",
            ],
        ),
        (IN_CHAT_MAIN, ["user - u Mira", "assistant - a", "user - SUM\nMAIN\nNOTE", "assistant - b Lyra"]),
        (
            {**IN_CHAT_MAIN, "injection_trigger": ["quiet"]},
            ["user - u Mira", "assistant - a", "user - SUM\nNOTE", "assistant - b Lyra"],
        ),
        ({**IN_CHAT_MAIN, "role": ""}, ["user - u Mira", "assistant - a", "assistant - b Lyra"]),
    ],
)
def test_what_stands_beside_the_main_prompt_goes_where_it_goes(main: dict[str, Any], sent: list[str]) -> None:
    keys = {"prompts": [main], "prompt_order": order("main", "chatHistory", "-jailbreak", *OFF), "new_chat_prompt": ""}
    plan = build(
        history=chat(*CHAT),
        preset=preset(**keys),
        chat_metadata={"note_prompt": "NOTE", "note_position": 0, "note_role": 2},
        extension_prompts=[{"key": "1_memory", "value": "SUM", "position": 2, "role": 0}],
    )
    assert said(plan) == sent


def test_a_marker_may_stand_in_the_chat_with_the_role_of_its_place() -> None:
    marker = {"identifier": "charDescription", "marker": True, "role": "user", "injection_position": 1}
    keys = {**SMALL, "prompts": [MAIN, LAST, {**marker, "injection_depth": 0}]}
    keys["prompt_order"] = order("main", "chatHistory", "jailbreak", "charDescription")
    assert said(build(history=chat("a"), preset=preset(**keys)))[2:] == [
        "assistant - a",
        "user - Lyra keeps the lamp.",
        "system - JB",
    ]


def test_the_prompt_that_enhances_definitions_stands_where_the_order_has_it() -> None:
    keys = {**SMALL, "prompt_order": order("enhanceDefinitions", "main", "chatHistory", *OFF)}
    first, second, *_ = said(build(preset=preset(**keys)))
    assert first.startswith("system - If you have more knowledge of Lyra")
    assert second == "system - MAIN"


def test_a_group_ends_its_history_with_the_nudge_and_continues_behind_everything() -> None:
    assert said(builder(preset=preset(**SMALL)).build(speaker="Bram", generation_type="continue")) == [
        "system - MAIN",
        "system - [new group]",
        "system - [only Bram]",
        "system - JB",
        "assistant - Bram: Oi.",
        "system - [go on: Oi.]",
    ]


@pytest.mark.parametrize(("model", "role"), [("gpt-4", "system"), ("o1-mini", "user")])
def test_separators_and_the_groups_nudge_stay_messages_of_their_own(model: str, role: str) -> None:
    first = {"identifier": "first", "content": "F", "role": "system", "system_prompt": False}
    keys = {
        **SMALL,
        "prompts": [first, MAIN, LAST, {**LAST, "identifier": "last", "content": "L", "system_prompt": False}],
    }
    keys["prompt_order"] = order("first", "main", "chatHistory", "jailbreak", "last", *OFF)
    plan = builder(preset=preset(**keys, openai_model=model, squash_system_messages=True)).build(speaker="Bram")
    assert said(plan) == [
        f"{role} - F\nMAIN",
        f"{role} - [new group]",
        "assistant - Bram: Oi.",
        f"{role} - [only Bram]",
        f"{role} - JB\nL",
    ]


def test_a_bias_in_a_message_is_no_unknown_macro() -> None:
    plan = build(history=[], message="Hi {{char}} {{bias 'Well,'}}", preset=preset(**SMALL), strict=True)
    assert said(plan)[2:] == ["user - Hi Lyra", "system - JB", "assistant -  Well,"]
