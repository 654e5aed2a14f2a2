from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import InvalidPresetError
from tavernkit.silly_tavern import Preset
from tavernkit.silly_tavern._files.preset_prompts import export_prompts, import_prompts
from tests.silly_tavern.scene import order


def preset(*prompts: dict[str, Any], **keys: Any) -> Preset:
    names = [prompt["identifier"] for prompt in prompts]
    return Preset.from_json({"prompts": list(prompts), "prompt_order": order("main", *names), **keys})


def test_the_default_preset_has_no_problems():
    assert Preset.default().problems() == []


@pytest.mark.parametrize(
    ("prompt", "part"),
    [
        ({"identifier": "a"}, "system_prompt must be false"),
        ({"identifier": "a", "system_prompt": False, "injection_position": 1, "role": "user"}, "depth None"),
        ({"identifier": "a", "system_prompt": False, "injection_position": 1, "injection_depth": 1}, "role None"),
        ({"identifier": "bias", "system_prompt": False}, "its text is replaced"),
        ({"identifier": "a", "system_prompt": False, "injection_trigger": ["loud"]}, "loud"),
    ],
)
def test_prompts_that_will_not_do_what_they_seem_to_are_named(prompt: dict[str, Any], part: str):
    assert any(part in problem for problem in preset(prompt).problems())


def test_orders_and_budgets_that_lead_nowhere_are_named():
    problems = Preset.from_json(
        {
            "prompt_order": order("main", "main", "gone"),
            "openai_max_context": 100,
            "openai_max_tokens": 100,
        }
    ).problems()
    assert [part in "\n".join(problems) for part in ("2 times", "'gone'", "leaves nothing")] == [True, True, True]
    dead = {"character_id": 100000, "order": [{"identifier": "main", "enabled": True}]}
    assert "100001" in Preset.from_json({"prompt_order": [dead]}).problems()[0]


def test_duplicate_and_nameless_prompts_are_named():
    problems = Preset.from_json({"prompts": [{"identifier": "a"}, {"identifier": "a"}, {"content": "x"}]}).problems()
    assert "2 prompts are called 'a'" in problems[0]
    assert "no identifier" in problems[1]


def test_a_prompt_export_carries_texts_and_order():
    exported = export_prompts(preset({"identifier": "c", "content": "C", "system_prompt": False}))
    data: Any = exported["data"]
    assert (exported["version"], exported["type"]) == (1, "full")
    assert [entry["identifier"] for entry in data["prompt_order"]] == ["main", "c"]
    assert "chatHistory" not in [prompt["identifier"] for prompt in data["prompts"]]


def test_an_imported_prompt_wins_and_the_order_is_laid_over_by_place():
    export = {
        "version": 1,
        "type": "full",
        "data": {
            "prompts": [{"identifier": "main", "content": "imported"}, {"identifier": "x", "content": "X"}],
            "prompt_order": [{"identifier": "x", "enabled": False}],
        },
    }
    merged = import_prompts(preset({"identifier": "c", "content": "C", "system_prompt": False}), export)
    assert next(prompt for prompt in merged.prompts if prompt.identifier == "main").content == "imported"
    assert [(entry.identifier, entry.enabled) for entry in merged.effective_order] == [("x", False), ("c", True)]
    assert Preset.from_json(merged.to_json()).effective_order == merged.effective_order


def test_what_is_no_prompt_export_is_refused():
    with pytest.raises(InvalidPresetError, match=r"data\.prompts"):
        import_prompts(Preset.default(), {"data": {}})
    with pytest.raises(InvalidPresetError, match="full, character"):
        export_prompts(Preset.default(), "some")
