from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tavernkit.errors import FileFormatError, TavernKitError
from tavernkit.silly_tavern import (
    ContextTemplate,
    InstructTemplate,
    ReasoningSettings,
    Settings,
    SystemPrompt,
    TemplateBundle,
    select_for_model,
    template_for_chat_template,
)
from tavernkit.silly_tavern.errors import InvalidContextTemplateError, InvalidInstructError

FILES: list[tuple[Any, dict[str, Any]]] = [
    (InstructTemplate, {"name": "Old", "names": True, "separator_sequence": "x", "own_key": {"a": [1]}}),
    (InstructTemplate, {"name": "New", "input_sequence": "<u>", "wrap": 1, "names_behavior": "always"}),
    (ContextTemplate, {"name": "C", "story_string": "{{system}}", "extra": None}),
    (SystemPrompt, {"name": "S", "content": "Be kind.", "post_history": "Now."}),
    (ReasoningSettings, {"name": "R", "prefix": "<t>", "suffix": "</t>", "separator": "\n\n"}),
]


@pytest.mark.parametrize(("kind", "data"), FILES)
def test_files_are_written_back_as_they_were_read(kind: Any, data: dict[str, Any], tmp_path: Path):
    path = tmp_path / "file.json"
    path.write_text(json.dumps(data))
    template = kind.load(path)
    assert (template.name, template.to_json()) == (data["name"], data)
    template.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == data


@pytest.mark.parametrize(("kind", "data"), FILES)
def test_changes_are_written_beside_what_was_read(kind: Any, data: dict[str, Any]):
    written = kind.from_json(data).replace(name="Other").to_json()
    assert written["name"] == "Other"
    assert kind.from_json(written).replace(name=data["name"], source={}) == kind.from_json(data).replace(source={})


def test_a_changed_old_template_is_written_with_todays_keys():
    written = InstructTemplate.from_json(FILES[0][1]).replace(wrap=False).to_json()
    assert written["names_behavior"] == "always"
    assert (written["output_suffix"], written["wrap"], written["own_key"]) == ("x", False, {"a": [1]})
    assert not {"names", "separator_sequence"} & written.keys()


def test_a_template_of_ones_own_is_written_whole():
    written = SystemPrompt(name="Mine", content="Hi").to_json()
    assert written == {"name": "Mine", "enabled": True, "content": "Hi", "post_history": ""}


def test_wrong_values_are_reported_and_replaced():
    warnings: list[str] = []
    template = InstructTemplate.from_json(
        {"name": "T", "input_sequence": 5, "names_behavior": "sometimes", "wrap": []}, warn=warnings.append
    )
    assert (template.input_sequence, template.names_behavior, template.wrap) == ("### Instruction:", "none", True)
    assert len(warnings) == 3
    assert all("instruct template 'T'" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("kind", "error"), [(InstructTemplate, InvalidInstructError), (ContextTemplate, InvalidContextTemplateError)]
)
def test_files_that_are_no_templates_are_refused(kind: Any, error: type[TavernKitError], tmp_path: Path):
    path = tmp_path / "broken.json"
    path.write_text("[1")
    with pytest.raises(error):
        kind.load(path)
    path.write_text("[1]")
    with pytest.raises(error, match="JSON object"):
        kind.load(path)
    path.write_text('{"name": "x", "wrap": [], "single_line": []}')
    with pytest.raises(error):
        kind.load(path, strict=True)


def test_settings_know_the_templates_in_force():
    settings = Settings.from_json(
        {
            "main_api": "koboldcpp",
            "max_context": 4096,
            "amount_gen": 200,
            "power_user": {
                "instruct": {"enabled": True, "preset": "ChatML", "input_sequence": "<u>"},
                "context": {"preset": "ChatML", "chat_start": "---", "story_string_position": 0},
                "sysprompt": {"enabled": False, "content": "Be."},
                "single_line": True,
                "always_force_name2": False,
            },
        }
    )
    power_user = settings.power_user
    assert (power_user.instruct.name, power_user.instruct.enabled) == ("ChatML", True)
    assert (power_user.context.chat_start, power_user.context.single_line) == ("---", True)
    assert (power_user.context.always_force_name2, power_user.sysprompt.enabled) == (False, False)
    assert (settings.max_context, settings.amount_gen, settings.main_api) == (4096, 200, "koboldcpp")


def test_fresh_settings_have_instruct_mode_off():
    settings = Settings.from_json({})
    assert (settings.power_user.instruct.enabled, settings.power_user.context.use_stop_strings) == (False, True)


def test_a_system_prompt_inside_instruct_settings_is_found():
    settings = Settings.from_json(
        {"power_user": {"instruct": {"enabled": True, "system_prompt": "Old."}, "sysprompt": {"content": "New."}}}
    )
    prompt = settings.power_user.sysprompt
    assert (prompt.content, prompt.post_history, prompt.enabled) == ("Old.", "", True)


INSTRUCT = {"name": "I", "input_sequence": "<u>", "output_sequence": "<b>"}
CONTEXT = {"name": "C", "story_string": "{{system}}"}


@pytest.mark.parametrize(
    ("data", "filled"),
    [
        (INSTRUCT, {"instruct"}),
        (CONTEXT, {"context"}),
        ({"name": "S", "content": "x"}, {"system_prompt"}),
        ({"temp": 1, "top_k": 0, "top_p": 1, "rep_pen": 1}, {"preset"}),
        ({"name": "R", "prefix": "a", "suffix": "b", "separator": "c"}, {"reasoning"}),
        ({"instruct": INSTRUCT, "context": CONTEXT, "later": {"a": 1}}, {"instruct", "context"}),
        ({**INSTRUCT, "system_prompt": "Old."}, {"instruct", "system_prompt"}),
        ({"srw": {"value": "Sure", "show": True}}, {"start_reply_with"}),
    ],
)
def test_template_files_are_told_apart_by_their_keys(data: dict[str, Any], filled: set[str]):
    bundle = TemplateBundle.from_json(data)
    names = ("instruct", "context", "system_prompt", "reasoning", "preset", "start_reply_with")
    assert {name for name in names if getattr(bundle, name) is not None} == filled
    assert bundle.to_json() == data
    assert json.loads(bundle.dumps()) == data


def test_bad_sections_of_a_master_file_are_reported(tmp_path: Path):
    warnings: list[str] = []
    path = tmp_path / "master.json"
    path.write_text(json.dumps({"instruct": {"name": "x"}, "context": CONTEXT}))
    bundle = TemplateBundle.load(path, warn=warnings.append)
    assert (bundle.instruct, bundle.context is not None, len(warnings)) == (None, True, 1)
    for nothing in ({}, {"a": 1}, []):
        with pytest.raises(FileFormatError):
            TemplateBundle.from_json(nothing)


def preset(name: str, regex: str = "") -> InstructTemplate:
    return InstructTemplate.from_json({"name": name, "input_sequence": name, "activation_regex": regex})


def test_the_first_regex_that_matches_the_model_counts():
    warnings: list[str] = []
    presets = [preset("broken", "/(/"), preset("A", "/llama-?3/i"), preset("B", "Llama")]
    chosen = select_for_model("Llama-3-8B", InstructTemplate(stop_sequence="X"), presets, warn=warnings.append)
    assert (chosen.found, chosen.instruct.name, chosen.instruct.stop_sequence) == (True, "A", "X")
    assert (chosen.context, len(warnings)) == (None, 1)


def test_binding_to_the_context_template_is_the_last_resort():
    live = InstructTemplate(bind_to_context=True)
    chosen = select_for_model("gpt", live, [preset("A"), preset("B")], context_name="B")
    assert (chosen.found, chosen.instruct.name, chosen.context) == (True, "B", "B")
    assert not select_for_model("gpt", live, [preset("A")], context_name="B").found


def test_a_mapping_of_the_users_wins():
    live = InstructTemplate(enabled=False)
    mappings = {"gpt": {"instruct": "B", "context": "C"}, "other": {}}
    chosen = select_for_model("gpt", live, [preset("A", "gpt"), preset("B")], mappings=mappings)
    assert (chosen.instruct.name, chosen.instruct.enabled, chosen.context) == ("B", True, "C")
    nothing = select_for_model("other", live, [], mappings=mappings)
    assert (nothing.found, nothing.instruct) == (True, live)


@pytest.mark.parametrize(
    ("mapping", "bound", "instruct", "context"),
    [
        ({"instruct": "B"}, False, "B", None),
        ({"instruct": "B"}, True, "B", "B"),
        ({"context": "B"}, False, "live", "B"),
        ({"context": "B"}, True, "B", "B"),
        ({"context": "C"}, True, "live", "C"),
        ({"instruct": "A", "context": "B"}, True, "A", "B"),
    ],
)
def test_templates_that_are_bound_come_together(
    mapping: dict[str, str], bound: bool, instruct: str, context: str | None
):
    live = InstructTemplate(name="live", enabled=False, bind_to_context=bound)
    chosen = select_for_model("gpt", live, [preset("A"), preset("B")], mappings={"gpt": mapping})
    assert (chosen.instruct.name, chosen.context) == (instruct, context)
    assert chosen.instruct.enabled is (instruct != "live")


@pytest.mark.parametrize(
    ("template", "sha256", "name"),
    [
        (" ", "e10ca381" + "0" * 56, None),
        ("x", "e10ca381" + "0" * 56, "Llama 3 Instruct"),
        ("<|im_start|>user <|im_start|>assistant <|im_end|>", None, "ChatML"),
        ("<|im_start|>user <|im_end|>", None, None),
        ("<|start|>user<|message|><|start|>assistant<|channel|>final<|message|><|end|>", None, "OpenAI Harmony"),
    ],
)
def test_a_chat_template_tells_which_templates_suit_a_model(template: str, sha256: str | None, name: str | None):
    assert template_for_chat_template(template, sha256) == name
