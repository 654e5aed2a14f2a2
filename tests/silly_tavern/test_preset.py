from __future__ import annotations

import json
from pathlib import Path

import pytest

from tavernkit.errors import InvalidPresetError, WarningLog
from tavernkit.silly_tavern import Preset
from tavernkit.silly_tavern._files.preset_prompts import import_prompts


def test_the_built_in_default_has_the_twelve_prompts_in_their_order():
    preset = Preset.default()
    assert len(preset.effective_prompts) == 12
    assert [entry.identifier for entry in preset.effective_order][:3] == [
        "main",
        "worldInfoBefore",
        "personaDescription",
    ]
    assert preset.max_prompt_tokens == 4095 - 300


def test_what_was_read_is_written_back_without_loss():
    data = {
        "temperature": 0.7,
        "openai_max_context": "8192",
        "unknown_key": {"deep": [1, {"x": None}]},
        "prompts": [{"identifier": "main", "content": "M", "someday": True}],
        "prompt_order": [{"character_id": 100000, "order": [{"identifier": "main", "enabled": True, "note": 1}]}],
        "extensions": {"regex_scripts": []},
    }
    assert Preset.from_json(data).to_json() == data


def test_only_what_was_changed_differs_when_written_back():
    data = {"temperature": 0.7, "unknown_key": 1, "prompts": [{"identifier": "main", "content": "M", "someday": True}]}
    preset = Preset.from_json(data)
    changed = preset.replace(temperature=1, prompts=(preset.prompts[0].replace(content="N"),))
    assert changed.to_json() == {
        "temperature": 1,
        "unknown_key": 1,
        "prompts": [{"identifier": "main", "content": "N", "someday": True}],
    }


def test_missing_keys_keep_the_value_in_force():
    base = Preset.from_json({"names_behavior": 2, "extensions": {"a": 1}})
    preset = Preset.from_json({"openai_max_tokens": 77}, base=base)
    assert (preset.names_behavior, preset.openai_max_tokens) == (2, 77)
    assert preset.extensions == {}, "extensions are the exception: missing means none"


def test_settings_that_do_not_bind_presets_to_connections_keep_their_own():
    settings = {"chat_completion_source": "claude", "claude_model": "opus", "custom_prompt_post_processing": "strict"}
    data = {"chat_completion_source": "openai", "claude_model": "haiku", "custom_prompt_post_processing": "", "n": 2}
    bound = Preset.from_json(data, base=Preset.from_settings(settings))
    assert (bound.chat_completion_source, bound.custom_prompt_post_processing) == ("openai", "")
    base = Preset.from_settings({**settings, "bind_preset_to_connection": False})
    kept = Preset.from_json(data, base=base)
    assert (kept.chat_completion_source, kept.model, kept.custom_prompt_post_processing) == ("claude", "opus", "strict")
    assert kept.n == 2
    assert kept.to_json() == data
    assert kept.with_model("sonnet").model == "sonnet"
    assert kept.with_model("sonnet").to_json() == data


def test_numbers_written_as_text_count_as_numbers():
    assert Preset.from_json({"openai_max_context": "512"}).openai_max_context == 512


def test_a_wrong_value_is_reported_by_its_key_and_the_default_is_used():
    log = WarningLog()
    preset = Preset.from_json({"openai_max_context": ["many"], "wi_format": 3}, name="odd", warn=log)
    assert preset.openai_max_context == 4095
    assert preset.wi_format == "{0}"
    assert ["openai_max_context" in log.messages[0], "wi_format" in log.messages[1]] == [True, True]
    assert all(text.startswith("preset 'odd'") for text in log.messages)


def test_a_preset_must_be_an_object():
    with pytest.raises(InvalidPresetError, match="JSON object"):
        Preset.from_json([])


def test_files_are_loaded_and_saved(tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_text('{"n": 2, "extra": "é"}', encoding="utf-8")
    preset = Preset.load(path)
    assert (preset.name, preset.n) == ("mine", 2)
    preset.replace(n=3).save(path)
    assert json.loads(path.read_text(encoding="utf-8")) == {"n": 3, "extra": "é"}


def test_a_file_that_is_no_json_is_refused(tmp_path: Path):
    path = tmp_path / "bad.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InvalidPresetError, match=r"bad\.json"):
        Preset.load(path)


def test_strict_loading_refuses_wrong_values(tmp_path: Path):
    path = tmp_path / "bad.json"
    path.write_text('{"openai_max_context": []}', encoding="utf-8")
    with pytest.raises(InvalidPresetError, match="openai_max_context"):
        Preset.load(path, strict=True)


@pytest.mark.parametrize(
    ("old", "key", "value"),
    [
        ({"names_in_completion": True}, "names_behavior", 1),
        ({"chat_completion_source": "palm"}, "chat_completion_source", "makersuite"),
        ({"custom_prompt_post_processing": "claude"}, "custom_prompt_post_processing", "merge"),
        ({"image_inlining": False}, "media_inlining", False),
        ({"claude_use_sysprompt": True}, "use_sysprompt", True),
    ],
)
def test_old_keys_are_brought_up_to_date(old: dict[str, object], key: str, value: object):
    preset = Preset.from_json(old, name="old")
    assert getattr(preset, key) == value
    assert key in preset.to_json()


def test_very_old_prompt_texts_move_into_their_prompts():
    preset = Preset.from_json({"main_prompt": "Old main", "nsfw_prompt": ""}, name="old")
    texts = {prompt.identifier: prompt.content for prompt in preset.prompts}
    assert texts["main"] == "Old main"
    assert len(preset.prompts) == 12
    assert "main_prompt" not in preset.to_json()


def test_a_very_old_text_whose_prompt_is_not_in_the_list_brings_it_along():
    preset = Preset.from_json({"main_prompt": "Old main", "prompts": [{"identifier": "mine"}]}, name="old")
    assert [prompt.identifier for prompt in preset.prompts] == ["mine", "main"]
    assert preset.prompts[1].content == "Old main"


def test_of_two_prompts_with_one_identifier_the_first_counts_after_an_import_too():
    twins = [{"identifier": "a", "content": "first"}, {"identifier": "a", "content": "second"}]
    data = {"data": {"prompts": [{"identifier": "b", "content": "new"}], "prompt_order": []}}
    merged = import_prompts(Preset.from_json({"prompts": twins}), data)
    texts = {prompt.identifier: prompt.content for prompt in merged.prompts}
    assert (texts["a"], texts["b"]) == ("first", "new")


def test_settings_keys_are_read_under_their_own_names():
    preset = Preset.from_settings({"temp_openai": 0.5, "top_k_openai": 7, "preset_settings_openai": "Mine"})
    assert (preset.temperature, preset.top_k, preset.name) == (0.5, 7, "Mine")


def test_the_model_is_that_of_the_source():
    preset = Preset.from_json({"chat_completion_source": "makersuite", "google_model": "gemini-9"})
    assert preset.model == "gemini-9"
    assert Preset.from_json({"chat_completion_source": "claude"}).model == "claude-sonnet-5"


def test_secrets_are_left_out_on_request():
    preset = Preset.from_json({"custom_url": "http://secret", "reverse_proxy": "x", "n": 2})
    assert preset.without_secrets().to_json() == {"n": 2}


def test_missing_built_in_prompts_are_added_and_duplicates_keep_the_first():
    preset = Preset.from_json(
        {"prompts": [{"identifier": "main", "content": "A"}, {"identifier": "main", "content": "B"}]}
    )
    mains = [prompt.content for prompt in preset.effective_prompts if prompt.identifier == "main"]
    assert mains == ["A", "B"]
    assert len(preset.effective_prompts) == 13


@pytest.mark.parametrize("lists", [[], [{"character_id": 100000, "order": [{"identifier": "main", "enabled": True}]}]])
def test_without_a_global_order_the_default_one_counts(lists: list[object]):
    assert len(Preset.from_json({"prompt_order": lists}).effective_order) == 12


@pytest.mark.parametrize("written", ["100001", 100001, 100001.0])
def test_the_global_order_may_write_its_id_in_any_way(written: object):
    lists = [{"character_id": written, "order": [{"identifier": "main", "enabled": True}]}]
    assert [entry.identifier for entry in Preset.from_json({"prompt_order": lists}).effective_order] == ["main"]


@pytest.mark.parametrize("value", [10**400, float("inf"), "Infinity", "1e999", True, [4], "much"])
def test_what_is_no_number_is_named_and_the_default_is_used(value: object):
    log = WarningLog()
    preset = Preset.from_json({"openai_max_context": value, "temperature": value}, warn=log)
    default = Preset.from_json({}, warn=log)
    assert (preset.openai_max_context, preset.temperature) == (default.openai_max_context, default.temperature)
    assert sum("openai_max_context should be" in message for message in log.messages) == 1


@pytest.mark.parametrize(("source", "key"), [("openai", "openai_model"), ("makersuite", "google_model")])
def test_another_model_is_that_of_the_source_in_use(source: str, key: str) -> None:
    preset = Preset.default().replace(chat_completion_source=source)
    changed = preset.with_model("another-model")
    assert (changed.model, changed.to_json()[key]) == ("another-model", "another-model")
    assert preset.model != "another-model"
