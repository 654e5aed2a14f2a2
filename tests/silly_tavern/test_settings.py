from __future__ import annotations

import json
from pathlib import Path

import pytest

from tavernkit.errors import FileFormatError, WarningLog
from tavernkit.silly_tavern import Settings

DATA = {
    "username": "Mira",
    "user_avatar": "mira.png",
    "oai_settings": {"temp_openai": 0.4, "openai_max_context": 9000},
    "power_user": {
        "pin_examples": True,
        "persona_description": "A sailor.",
        "persona_description_position": 1,
        "persona_description_lorebook": "Sea",
        "persona_descriptions": {"mira.png": {"lorebook": "Not this one"}},
        "reasoning": {"prefix": "<r>", "add_to_prompts": True},
    },
    "extension_settings": {
        "note": {"default": "N", "defaultDepth": 2, "chara": [{"name": "Lyra", "prompt": "P", "useChara": True}]},
        "variables": {"global": {"gold": 3}},
    },
    "world_info_settings": {"world_info_depth": 5, "world_info": {"globalSelect": ["big"]}},
}


def test_everything_that_shapes_a_prompt_is_read():
    settings = Settings.from_json(DATA)
    assert settings.preset.temperature == 0.4
    assert settings.power_user.pin_examples is True
    assert (settings.power_user.reasoning.prefix, settings.power_user.reasoning.suffix) == ("<r>", "</think>")
    assert settings.note.characters[0].prompt == "P"
    assert settings.world_info.global_select == ("big",)
    assert settings.global_variables == {"gold": 3}


def test_a_missing_size_of_the_context_is_not_that_of_a_fresh_installation():
    missing, fresh = Settings.from_json({}), Settings.fresh()
    assert (missing.max_context, missing.amount_gen) == (2048, 80)
    assert (fresh.max_context, fresh.amount_gen) == (8192, 350)


def test_the_deprecated_persona_position_counts_as_in_prompt():
    persona = Settings.from_json(DATA).persona
    assert (persona.description, persona.place, persona.lorebook) == ("A sailor.", 0, "Sea")


def test_a_wrong_part_is_reported_and_has_its_default():
    log = WarningLog()
    settings = Settings.from_json({"power_user": {"reasoning": {"max_additions": "three"}}, "username": ""}, warn=log)
    assert settings.power_user.reasoning.max_additions == 1
    assert settings.username == "User"
    assert "max_additions" in log.messages[0]


def test_files_are_loaded(tmp_path: Path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(DATA), encoding="utf-8")
    assert Settings.load(path).username == "Mira"


@pytest.mark.parametrize("text", ["[]", "{"])
def test_a_file_that_is_no_object_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "settings.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"settings\.json"):
        Settings.load(path)
