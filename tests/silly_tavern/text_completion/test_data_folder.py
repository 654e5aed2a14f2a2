from __future__ import annotations

import json
from pathlib import Path

from tavernkit.silly_tavern import DataFolder, TextPlan


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def folder(tmp_path: Path, main_api: str) -> DataFolder:
    card = {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Lyra", "description": "A keeper."}}
    write(tmp_path / "characters" / "Lyra.json", card)
    write(tmp_path / "instruct" / "ChatML.json", {"name": "ChatML", "input_sequence": "<u>", "output_sequence": "<b>"})
    write(tmp_path / "context" / "ChatML.json", {"name": "ChatML", "story_string": "{{description}}"})
    write(tmp_path / "sysprompt" / "Roleplay.json", {"name": "Roleplay", "content": "Be."})
    write(tmp_path / "settings.json", {"main_api": main_api, "username": "Mira"})
    return DataFolder(tmp_path)


def test_the_api_of_the_settings_decides_what_is_built(tmp_path: Path):
    plan = folder(tmp_path, "textgenerationwebui").builder("Lyra").build(message="Hi")
    assert isinstance(plan, TextPlan)
    assert plan.prompt == "A keeper.\n***\nMira: Hi\nLyra:"
    assert not isinstance(folder(tmp_path, "openai").builder("Lyra").build(message="Hi"), TextPlan)


def test_templates_are_found_by_name(tmp_path: Path):
    data = folder(tmp_path, "textgenerationwebui")
    assert (data.instruct_templates(), data.context_templates(), data.system_prompts()) == (
        ["ChatML"],
        ["ChatML"],
        ["Roleplay"],
    )
    plan = (
        data.builder("Lyra")
        .replace(
            instruct=data.instruct_template("ChatML"),
            context_template=data.context_template("ChatML"),
            system_prompt=data.system_prompt("Roleplay"),
        )
        .build(message="Hi")
    )
    assert isinstance(plan, TextPlan)
    assert plan.prompt == "A keeper.\n***\n<u>\nHi\n<b>\n"
