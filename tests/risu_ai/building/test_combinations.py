"""Rules of prompt assembly that meet in one prompt."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.risu_ai import Settings
from tavernkit.risu_ai._prompt_template.cards import PromptSettings
from tests.risu_ai.building.scene import build, character, contents, lore, preset

WHOLE = {"type": "chat", "rangeStart": 0, "rangeEnd": "end"}
LOREBOOK = {"type": "lorebook"}
NEW = "[Start a new chat]"
SAID = ["Hello.", "Hi.", "Welcome.", "What now?"]
OTHER = "mistral-large-latest"


def plain(text: str, role: str = "system", type2: str = "normal") -> dict[str, Any]:
    return {"type": "plain", "type2": type2, "text": text, "role": role}


def entries(*texts: str) -> dict[str, Any]:
    """Lore that comes in this order: of equal entries the last is first."""
    return {"globalLore": [lore(text, comment=text) for text in reversed(texts)]}


def printed(template: list[dict[str, Any]], owner: dict[str, Any], model: str = "gpt4o", **switches: Any) -> list[str]:
    used = preset(template, ai_model=model, prompt_settings=PromptSettings(**switches))
    return contents(build(character=character(**owner), preset=used))


@pytest.mark.parametrize(
    ("template", "joined", "apart"),
    [
        ([LOREBOOK, LOREBOOK], ["A\n\nB\n\nA\n\nB\n\nB"], ["A", "B", "A", "B"]),
        ([LOREBOOK, plain("u", "user"), LOREBOOK], ["A\n\nB\n\nB", "u", "A\n\nB\n\nB"], ["A", "B", "u", "A", "B"]),
    ],
)
def test_a_slot_that_is_printed_twice_shows_what_was_joined_in_both_places(
    template: list[dict[str, Any]], joined: list[str], apart: list[str]
):
    assert printed(template, entries("A", "B")) == joined
    assert printed(template, entries("A", "B"), OTHER) == apart


def test_a_utility_bot_has_its_own_cards_and_the_switches_of_the_template_it_replaces():
    owner = {"utilityBot": True, "replaceGlobalNote": "Own {{original}}note", **entries("Lore")}
    found = printed([plain("gone"), WHOLE], owner, send_name=True, post_end_inner_format="End")
    wrapped = [f"<Mira's Message>\n{text}\n</Mira's Message>" for text in SAID[1:]]
    assert found == ["A smith.\n\nLore", NEW, "Mira: Hello.", *wrapped, "Own note\n\nEnd"]


def test_lore_goes_into_inner_formats_before_the_text_does():
    owner = entries(
        "@@position pt_here\nPoint of {{char}}", "@@inject_at description\nBehind", "@@inject_at authornote\nNowhere"
    )
    card = {"type": "description", "innerFormat": "[{{position::here}}|{{slot}}|{{slot}}]"}
    assert printed([card, {"type": "authornote"}], owner) == ["[Point of Mira|A smith.|{{slot}}] Behind"]


def test_a_note_that_expands_to_nothing_gives_way_to_the_default_as_it_is_written():
    cards = [{"type": "authornote"}, {"type": "authornote", "defaultText": "For {{char}}", "innerFormat": "<{{slot}}>"}]
    chat = {"message": [], "fmIndex": -1, "note": "{{comment::x}}"}
    assert contents(build(preset=preset(cards), history=chat)) == ["<For {{char}}>"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            ("@@reverse_depth 2\nc", "@@reverse_depth 1\nb", "@@reverse_depth 1\na"),
            [NEW, *SAID[:2], "c", "Welcome.", "b", "a", "What now?"],
        ),
        (("@@depth 1\na", "@@depth 1\nb"), [NEW, "b", "a", *SAID]),
        (("@@depth 2\n{{comment::x}}", "@@depth 3\na"), [NEW, "Hello.", "a", *SAID[1:]]),
        (("@@depth 99\na", "@@reverse_depth 0\nb"), [NEW, *SAID, "a", "b"]),
    ],
)
def test_each_entry_finds_the_chat_as_those_before_left_it(texts: tuple[str, ...], expected: list[str]):
    assert printed([WHOLE], entries(*texts), OTHER) == expected


@pytest.mark.parametrize(
    ("depth", "place"),
    [({}, 0), ({"depth": None}, 5), ({"depth": 0}, 5), ({"depth": "2"}, 3), ({"depth": -3}, 5), ({"depth": 7}, 3)],
)
def test_the_depth_prompt_is_put_where_javascript_would(depth: dict[str, Any], place: int):
    found = printed([WHOLE], {"depth_prompt": {"prompt": " Deep {{char}} ", **depth}}, OTHER)
    assert found.index(" Deep Mira ") == place
    assert len(found) == 6


def test_names_are_put_around_what_was_said_once_and_patterns_act():
    used = preset(
        [WHOLE], prompt_settings=PromptSettings(send_name=True), group_template="{{char}}/{{role}}:{{slot}}{{slot}}"
    )
    chat = {"message": [{"role": "user", "data": "$$ and $&"}], "fmIndex": -1}
    assert contents(build(preset=used, history=chat)) == [NEW, "Mira: Hello.", "Mira/null:$ and {{slot}}{{slot}}"]


def test_automatic_cache_points_count_cards_before_the_chat_and_not_those_behind():
    cards = [plain("before", "user"), WHOLE, plain("behind", "user")]
    plan = build(preset=preset(cards), settings=Settings.from_json({"automaticCachePoint": True}))
    marked = [block.content for block in plan.blocks if block.metadata.get("cache_point")]
    assert marked == ["before", "Hi.", "What now?"]
