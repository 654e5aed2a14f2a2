"""What a prompt object and an order entry of a preset file do, key by key."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.silly_tavern import Preset
from tavernkit.silly_tavern._files.preset_prompts import export_prompts, import_prompts
from tests.silly_tavern.scene import build, order, preset

OFF = ("-main", "-charDescription", "-jailbreak")
HISTORY = [{"name": "Lyra", "mes": "a"}]
SENT_FIRST, IN_CHAT, NOT_SENT = ["system P", "assistant a"], ["assistant a", "system P"], ["assistant a"]


def said(prompt: dict[str, Any], kind: str = "normal") -> list[str]:
    keys = {"prompts": [{"identifier": "p", "content": "P", **prompt}], "new_chat_prompt": ""}
    plan = build(
        history=HISTORY,
        preset=preset(**keys, prompt_order=order("p", "chatHistory", *OFF)),
        generation_type=kind,
        quiet_prompt="",
    )
    messages: Any = plan.to_request()["messages"]
    return [f"{each['role']} {each['content']}" for each in messages]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ({}, SENT_FIRST),
        ({"enabled": False}, SENT_FIRST),
        ({"injection_position": 0, "injection_depth": 0}, SENT_FIRST),
        ({"injection_position": "1", "injection_depth": 0}, SENT_FIRST),
        ({"role": None}, SENT_FIRST),
        ({"role": ""}, SENT_FIRST),
        ({"role": "user"}, ["user P", "assistant a"]),
        ({"content": ""}, NOT_SENT),
        ({"system_prompt": True}, NOT_SENT),
        ({"system_prompt": None}, NOT_SENT),
        ({"system_prompt": 0}, NOT_SENT),
        ({"system_prompt": "false"}, NOT_SENT),
        ({"injection_position": 1, "injection_depth": 0}, IN_CHAT),
        ({"injection_position": 1, "injection_depth": 0.0, "system_prompt": True}, IN_CHAT),
        ({"injection_position": 1, "injection_depth": 0, "injection_order": "7"}, IN_CHAT),
        ({"injection_position": 1}, NOT_SENT),
        ({"injection_position": 1, "injection_depth": "0"}, NOT_SENT),
        ({"injection_position": 1, "injection_depth": 0.5}, NOT_SENT),
        ({"injection_position": 1, "injection_depth": -1}, NOT_SENT),
        ({"injection_position": 1, "injection_depth": 10_001}, NOT_SENT),
        ({"injection_position": 1, "injection_depth": 10_000}, SENT_FIRST),
        ({"injection_position": 1, "injection_depth": 0, "role": ""}, NOT_SENT),
        ({"injection_position": 1, "injection_depth": 0, "role": None}, NOT_SENT),
        ({"injection_position": 1, "injection_depth": 0, "role": "tool"}, NOT_SENT),
    ],
)
def test_a_prompt_is_sent_by_its_own_keys(prompt: dict[str, Any], expected: list[str]) -> None:
    assert said({"role": "system", "system_prompt": False, **prompt}) == expected


@pytest.mark.parametrize(
    ("trigger", "kinds"),
    [
        ([], {"normal", "quiet"}),
        (None, {"normal", "quiet"}),
        ("quiet", {"normal", "quiet"}),
        ({"quiet": True}, {"normal", "quiet"}),
        (["normal"], {"normal"}),
        (["quiet", "swipe"], {"quiet"}),
        (["Normal"], set()),
        ([5], set()),
        ([None, "quiet"], {"quiet"}),
    ],
)
def test_a_trigger_is_a_list_that_names_the_generation(trigger: object, kinds: set[str]) -> None:
    prompt = {"role": "system", "system_prompt": False, "injection_trigger": trigger}
    assert {kind for kind in ("normal", "quiet") if said(prompt, kind) == SENT_FIRST} == kinds


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"names_in_completion": False}, {}),
        ({"video_inlining": True}, {"media_inlining": True}),
        ({"audio_inlining": False, "image_inlining": True}, {"media_inlining": True}),
        ({"use_makersuite_sysprompt": True, "claude_use_sysprompt": False}, {"use_sysprompt": True}),
        ({"claude_use_sysprompt": False}, {}),
        ({"openrouter_sort_models": "a", "openrouter_group_models": True}, {"sort_models": "a", "group_models": True}),
    ],
)
def test_old_keys_go_when_their_values_have_moved(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert Preset.from_json(old, name="old").to_json() == new


def test_the_default_preset_keeps_its_very_old_texts_where_they_are() -> None:
    default = Preset.from_json({"main_prompt": "Old"}, name="Default")
    assert default.get("main_prompt") == "Old"
    assert default.effective_prompts == Preset.default().effective_prompts


def test_a_preset_without_extensions_has_none_whatever_is_in_force() -> None:
    live = Preset.from_json({"extensions": {"regex_scripts": [1]}, "wi_format": "[{0}]"})
    chosen = Preset.from_json({"n": 2}, base=live)
    assert (chosen.extensions, chosen.wi_format, chosen.n) == ({}, "[{0}]", 2)


def test_an_imported_order_is_laid_over_the_old_one_by_place() -> None:
    mine = Preset.from_json(
        {"prompts": [{"identifier": "a", "content": "old"}], "prompt_order": order("a", "main", "-nsfw")}
    )
    data = {"prompts": [{"identifier": "a", "content": "new"}], "prompt_order": order("-chatHistory")[0]["order"]}
    merged = import_prompts(mine, {"version": 1, "type": "character", "data": data})
    assert [(each.identifier, each.enabled) for each in merged.effective_order] == [
        ("chatHistory", False),
        ("main", True),
        ("nsfw", False),
    ]
    assert next(each.content for each in merged.prompts if each.identifier == "a") == "new"
    exported = export_prompts(merged, "character")
    assert (exported["version"], exported["type"]) == (1, "character")
    assert import_prompts(merged, exported).effective_order == merged.effective_order
