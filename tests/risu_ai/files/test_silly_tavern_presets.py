from __future__ import annotations

import math
from typing import Any

import pytest

from tavernkit.errors import InvalidPresetError
from tavernkit.risu_ai import Preset, read_st_files, to_chat_preset
from tavernkit.risu_ai._files.silly_tavern_preset import (
    StFile,
    preset_from_chat_preset,
    preset_from_files,
    template_from_chat_preset,
)
from tavernkit.risu_ai._prompt_template.cards import ChatCard, PlainCard, SlotCard, read_cards
from tavernkit.risu_ai.errors import PromptTemplateError


def st(*identifiers: str, **fields: Any) -> dict[str, Any]:
    prompts = [{"identifier": each, "content": each.upper(), "role": "system"} for each in identifiers]
    order = [{"identifier": each, "enabled": True} for each in identifiers]
    return {"prompts": prompts, "prompt_order": [{"order": order}], **fields}


def test_a_template_goes_to_silly_tavern_and_back():
    template = (
        PlainCard(type2="main", text="M"),
        SlotCard(type="description"),
        SlotCard(type="persona"),
        SlotCard(type="lorebook"),
        ChatCard(),
        PlainCard(type="jailbreak", text="J"),
        PlainCard(text="own", role="user"),
    )
    preset = Preset(prompt_template=template, temperature=90, max_context=5000)
    written = to_chat_preset(preset)
    assert (written["temperature"], written["openai_max_context"]) == (0.9, 5000)
    assert template_from_chat_preset(written) == template


def test_a_preset_without_a_template_is_written_in_its_order():
    written = to_chat_preset(Preset(main_prompt="M", jailbreak="J", global_note="G"))
    assert [type(card).__name__ for card in template_from_chat_preset(written)] == [
        *("PlainCard", "SlotCard", "SlotCard", "ChatCard", "PlainCard", "SlotCard", "PlainCard")
    ]


def test_what_silly_tavern_has_no_place_for_is_reported():
    warnings: list[str] = []
    cards = read_cards(
        [
            {"type": "authornote"},
            {"type": "chat", "rangeStart": -2, "rangeEnd": "end"},
            {"type": "persona", "innerFormat": "<{{slot}}>"},
            {"type": "persona"},
            {"type": "cot", "type2": "normal", "text": "think", "role": "bot"},
        ]
    )
    to_chat_preset(Preset(prompt_template=cards), warn=warnings.append)
    assert len(warnings) == 5


def test_a_second_main_prompt_gets_a_name_of_its_own():
    written = to_chat_preset(Preset(prompt_template=(PlainCard(type2="main"), PlainCard(type2="main", text="two"))))
    assert [each["identifier"] for each in written["prompts"]] == ["main", "risu-2"]  # type: ignore[union-attr, index, call-overload]


def test_an_order_without_prompts_is_reported_and_raised_in_strict_mode():
    preset = {"prompt_order": [{"order": [{"identifier": "main", "enabled": True}]}]}
    warnings: list[str] = []
    assert template_from_chat_preset(preset, warn=warnings.append) == ()
    assert "no prompts" in warnings[0]
    with pytest.raises(PromptTemplateError):
        template_from_chat_preset(preset, strict=True)


def test_a_prefill_becomes_a_last_card_of_the_bot():
    cards = template_from_chat_preset(st("main", assistant_prefill="Sure"))
    assert cards[-1] == PlainCard(type2="main", text="{{#if {{prefill_supported}}}}Sure{{/if}}", role="bot")


def test_an_import_has_the_odd_numbers_of_risu_ai():
    preset = preset_from_chat_preset(st("main"))
    assert preset.temperature == 8000
    assert math.isnan(preset.presence_penalty)


def test_files_are_recognised_by_their_content():
    preset = read_st_files(
        [
            {
                "story_string": "{{system_prompt}}: {{user}}{{char}} {{#if x}}gone{{/if}}\n\n\n\n{{other}}",
                "chat_start": "*",
            },
            {"input_sequence": "<u>", "output_sequence": "<a>", "name": "I", "system_prompt": "S"},
            "no object",
        ],
        warn=lambda _: None,
    )
    assert preset.jinja_template.startswith("S:  \n\n*{% for message in messages %}")
    assert preset.name == "I"
    assert preset.use_instruct_prompt


def test_samplers_of_a_chat_preset_are_taken_over():
    preset = preset_from_files([StFile("STCHAT", st("main", temperature=0.5, top_p=0.3, name="N"))])
    assert (preset.temperature, preset.top_p, preset.name) == (50, 0.3, "N")
    assert preset.prompt_template == (PlainCard(type2="main", text="MAIN"),)


def test_instruct_and_chat_files_do_not_go_together():
    with pytest.raises(InvalidPresetError):
        preset_from_files([StFile("STINST", {}), StFile("STCHAT", st("main"))])
