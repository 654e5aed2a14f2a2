from __future__ import annotations

import pytest

from tavernkit.cards import Character, Module
from tavernkit.cards._bundle import Bundle
from tavernkit.errors import ConfigError
from tavernkit.risu_ai import Preset, Settings
from tavernkit.risu_ai._files.card_import import character_from_card, risu_character


def test_the_database_holds_the_preset_in_force_under_its_own_names():
    settings = Settings.from_json({"presetRegex": [{"in": "a"}], "regex": [{"in": "b"}], "mainPrompt": "M"})
    assert settings.preset.regex == ({"in": "a"},)
    assert settings.preset.main_prompt == "M"


def test_missing_keys_have_risu_ais_defaults():
    settings = Settings.from_json({})
    assert (settings.lorebook_depth, settings.lorebook_tokens, settings.request_retries) == (5, 800, 2)
    assert settings.new_openai_handle


def test_wrong_values_are_reported():
    warnings: list[str] = []
    settings = Settings.from_json(
        {"username": 7, "modules": {}, "fallbackModels": {"model": ["a", "", 3]}}, warn=warnings.append
    )
    assert settings.username == "User"
    assert settings.fallback_models == ("a",)
    assert len(warnings) == 2


def test_custom_flags_count_only_when_they_are_switched_on():
    assert Settings.from_json({"customFlags": [6]}).custom_flags is None
    assert Settings.from_json({"customFlags": [6], "enableCustomFlags": True}).flags_of("gpt4o") == {
        "hasFullSystemPrompt"
    }


def test_texts_see_settings_and_preset_together():
    seen = Settings(username="x", jailbreak_toggle=True).for_texts(
        Preset(main_prompt="M", ai_model="gpt4o", module_integration=" a, ,\ufeffb ")
    )
    assert (seen.main_prompt, seen.model, seen.jailbreak_toggle) == ("M", "gpt4o", True)
    assert seen.integrated_modules == ("a", "b")


def test_the_active_preset_has_the_name_of_its_stored_copy_and_no_keys_of_the_user() -> None:
    database = {"openAIKey": "secret", "username": "Ann", "mainPrompt": "live", "minP": 1, "botPresetsId": 1}
    stored = {"name": "two", "mainPrompt": "old", "minP": 0}
    preset = Settings.from_json({**database, "botPresets": [{"name": "one"}, stored]}).preset
    assert (preset.name, preset.main_prompt, preset.raw["minP"]) == ("two", "live", 1)
    assert not preset.to_json().keys() & {"openAIKey", "username", "botPresets"}
    assert Settings.from_json(database).preset.name == "Default"


def test_switching_presets_stores_the_active_values_and_nothing_else_of_the_database() -> None:
    database = {
        "username": "Ann",
        "openAIKey": "secret",
        "botPresetsId": 0,
        "mainPrompt": "live",
        "presetRegex": [{"in": "a"}],
        "botPresets": [{"name": "one", "mainPrompt": "old", "image": "p"}, {"name": "two", "mainPrompt": "Two."}],
    }
    settings = Settings.from_json(database).switch_preset(1)
    stored = settings.presets[0].to_json()
    assert (stored["name"], stored["mainPrompt"], stored["image"]) == ("one", "live", "p")
    assert stored["regex"] == [{"in": "a"}]
    assert not stored.keys() & {"openAIKey", "username", "botPresets", "presetRegex"}
    assert (settings.preset.main_prompt, settings.raw["mainPrompt"], settings.raw["presetRegex"]) == (
        "Two.",
        "Two.",
        (),
    )
    back = settings.replace(preset=settings.preset.replace(temperature=10)).switch_preset(0)
    assert (back.preset.main_prompt, back.presets[1].temperature) == ("live", 10)


@pytest.mark.parametrize("index", [2, -1])
def test_there_is_no_switch_to_a_preset_that_does_not_exist(index: int) -> None:
    settings = Settings.from_json({"botPresets": [{"name": "one"}, {"name": "two"}], "botPresetsId": 0})
    with pytest.raises(ConfigError, match="there are 2"):
        settings.switch_preset(index)


def card() -> Character:
    return Character.from_card(
        {
            "spec": "chara_card_v3",
            "spec_version": "3.0",
            "data": {
                "name": "Mira",
                "description": "D",
                "post_history_instructions": "P",
                "character_book": {"entries": [{"keys": ["sea"], "content": "Salt.", "insertion_order": 5}]},
                "extensions": {
                    "depth_prompt": {"depth": 2, "prompt": "deep"},
                    "risuai": {
                        "customScripts": [{"in": "a", "out": "b", "type": "editprocess"}],
                        "additionalAssets": [["pic", "__asset:1", "png"]],
                    },
                },
                "assets": [
                    {"type": "icon", "uri": "embeded://a.png", "name": "main", "ext": "png"},
                    {"type": "emotion", "uri": "embeded://b.png", "name": "joy", "ext": "png"},
                    {"type": "x-risu-asset", "uri": "embeded://c.png", "name": "map", "ext": "png"},
                ],
            },
        }
    )


def test_a_card_brings_its_lore_scripts_and_assets_without_their_bytes():
    character = character_from_card(card())
    assert character.raw["replaceGlobalNote"] == "P"
    assert character.raw["depth_prompt"] == {"depth": 2, "prompt": "deep"}
    assert character.lore is not None
    assert character.lore[0]["content"] == "Salt."
    assert character.image == "embeded://a.png"
    assert [asset.name for asset in character.emotions or ()] == ["joy"]
    assert [asset.name for asset in character.assets or ()] == ["map"]
    assert character.id == character_from_card(card()).id, "the same card is the same character"


def test_the_module_beside_a_card_stands_in_for_its_lore_and_scripts():
    module = Module.from_json({"name": "m", "lorebook": [{"key": "x"}], "regex": [], "trigger": [{"type": "start"}]})
    character = risu_character(Bundle(card=card(), module=module))
    assert character is not None
    assert character.lore == ({"key": "x", "content": "", "bookVersion": 2},), (
        "brought up to date, as when it is opened"
    )
    assert character.raw["customscript"] == ()
    assert character.raw["triggerscript"] == ({"type": "start"},)


def test_a_card_of_the_first_version_has_texts_only():
    old = Character.from_card({"name": "Old", "description": "D", "first_mes": "F"})
    assert character_from_card(old).first_message == "F"


def test_a_fresh_database_leaves_more_room_for_the_reply_than_a_fresh_preset() -> None:
    assert Settings.from_json({}).preset.max_response == 500
    assert Settings.from_json({"maxResponse": 200}).preset.max_response == 200
    assert Preset.from_json({}).max_response == 300
