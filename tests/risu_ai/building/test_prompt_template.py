from __future__ import annotations

from typing import Any

import pytest

from tavernkit.dialects import Attachment
from tavernkit.errors import PipelineError
from tavernkit.risu_ai import Inlay, PromptSettings, Settings
from tavernkit.risu_ai._chat.prompt_message import parse_chat_ml
from tavernkit.risu_ai._prompt_template.card_writer import splice
from tavernkit.risu_ai._prompt_template.cards import read_card, read_cards, write_card
from tavernkit.risu_ai._prompt_template.slot_texts import role_split
from tavernkit.risu_ai.errors import PromptTemplateError
from tests.risu_ai.building.scene import CHAT, STANDARD, build, character, contents, lore, omitted, preset

WHOLE_CHAT = {"type": "chat", "rangeStart": 0, "rangeEnd": "end"}


@pytest.mark.parametrize(
    "card",
    [
        *STANDARD,
        {"type": "cot", "type2": "normal", "text": "x", "role": "bot", "name": "n"},
        {"type": "chatML", "text": "<|im_start|>user\nx"},
        {"type": "authornote", "innerFormat": "<{{slot}}>", "defaultText": "d"},
        {"type": "memory", "innerFormat": "<{{slot}}>"},
        {"type": "chat", "rangeStart": -2, "rangeEnd": -1, "chatAsOriginalOnSystem": True},
        {"type": "cache", "depth": 2, "role": "user", "name": "c"},
    ],
)
def test_cards_are_written_as_they_were_read(card: dict[str, Any]):
    assert write_card(read_card(card)) == card


def test_unknown_cards_are_reported_and_kept():
    warnings: list[str] = []
    (card,) = read_cards([{"type": "future", "x": 1}], warnings.append)
    assert "'future'" in warnings[0]
    assert write_card(card) == {"type": "future", "x": 1}
    assert contents(build(preset=preset([{"type": "future"}, WHOLE_CHAT])))[0] == "[Start a new chat]"


def test_a_chat_ml_card_that_is_none_is_left_out_and_raises_in_strict_mode():
    wrong = preset([{"type": "chatML", "text": "hello"}, WHOLE_CHAT])
    assert "im_start" in build(preset=wrong).warnings[0]
    with pytest.raises(PipelineError) as caught:
        build(preset=wrong, strict=True)
    assert isinstance(caught.value.__cause__, PromptTemplateError)


def test_a_greeting_that_does_not_exist_is_left_out_and_raises_in_strict_mode():
    chat = {"message": CHAT, "fmIndex": 4}
    plan = build(history=chat)
    assert "Hello." not in contents(plan)
    assert "greeting" in plan.warnings[0]
    with pytest.raises(PipelineError, match="greeting"):
        build(history=chat, strict=True)


def test_what_no_card_prints_is_reported():
    plan = build(
        preset=preset([WHOLE_CHAT]),
        character=character(
            globalLore=[
                lore("plain", comment="plain"),
                lore("@@position pt_x\npoint", comment="point"),
                lore("@@inject_at main\nin", comment="injected"),
                lore("@@depth -1\ndeep", comment="below"),
            ]
        ),
    )
    found = omitted(plan)
    assert found["description"] == "the prompt template has no description card"
    assert found["plain"] == "active, but the prompt template has no lorebook card"
    assert found["point"] == "active, but no card has {{position::x}}"
    assert found["injected"] == "active, but no card takes what is injected at 'main'"
    assert found["below"] == "active, but there is no depth -1"


def test_what_the_order_leaves_out_is_reported():
    plan = build(preset=preset(formating_order=("main", "chats")))
    assert omitted(plan)["lastChat"] == "formatingOrder does not list lastChat"
    assert "What now?" not in contents(plan)


def test_what_risu_ai_does_not_look_at_is_reported():
    switches = PromptSettings(assistant_prefill="Sure")
    chat = {"message": [{**CHAT[0], "disabled": True}, *CHAT[1:]], "fmIndex": -1, "bindedPersona": "p"}
    settings = Settings.from_json({"personas": [{"id": "p", "name": "Rex", "personaPrompt": "A thief."}]})
    plan = build(
        preset=preset(STANDARD, prompt_settings=switches),
        character=character(systemPrompt="Mine."),
        history=chat,
        settings=settings,
    )
    assert set(omitted(plan)) >= {"system prompt", "assistant prefill", "Rex", "1 message"}
    assert "main prompt" in omitted(build(preset=preset(main_prompt=None)))


def test_lore_that_did_not_fire_is_reported_with_its_reason():
    plan = build(character=character(globalLore=[lore("@@probability 0\nx", comment="never")]), random=lambda: 0.9)
    assert "probability" in omitted(plan)["never"]


def test_the_explanation_names_every_part_of_a_joined_message():
    plan = build(preset=preset(STANDARD), character=character(globalLore=[lore("Old.", comment="forge")]))
    first = plan.explain().blocks[0]
    assert first.source == "main prompt + description + lore forge"
    assert "joined" in first.reason
    assert [part["kind"] for part in plan.blocks[0].metadata["parts"]] == ["main prompt", "description", "lore"]  # type: ignore[union-attr, index, call-overload]


def test_models_that_do_not_join_keep_messages_apart():
    plan = build(preset=preset(STANDARD, ai_model="mistral-large-latest"))
    assert contents(plan)[:2] == ["Main.", "A smith."]


def test_the_persona_stands_in_its_inner_format():
    cards = [{"type": "persona", "innerFormat": "[{{slot}}|{{slot}}|{{char}}]"}, WHOLE_CHAT]
    plan = build(preset=preset(cards), settings=Settings(persona_prompt="A $& knight."))
    assert contents(plan)[0] == "[A {{slot}} knight.|{{slot}}|Mira]"


def test_thoughts_are_kept_aside():
    chat = [{"role": "char", "data": "<Thoughts>hm</Thoughts>Yes."}]
    plan = build(history=chat)
    last = plan.prompt_messages()[-1]
    assert (last.content, last.thoughts) == ("Yes.", ("hm",))


def test_pictures_of_messages_are_attached():
    chat = [
        {"role": "user", "data": "Look {{inlay::a}}{{inlayed::gone}}"},
        {"role": "char", "data": "{{inlay::a}}Nice"},
    ]
    inlays = {"a": Inlay(Attachment.image(url="https://example.invalid/a.png"), caption="a boat")}
    plan = build(history=chat, inlays=inlays)
    user, reply = plan.prompt_messages()[-2:]
    assert [part["url"] for part in user.multimodals] == ["https://example.invalid/a.png"]  # type: ignore[index, call-overload]
    assert (reply.content, reply.multimodals) == ("Nice", ())
    assert any("'gone'" in warning for warning in plan.warnings)
    parts = plan.to_messages()[-2]["content"]
    assert isinstance(parts, list)


def test_a_model_that_sees_nothing_gets_the_caption():
    inlays = {"a": Inlay(Attachment.image(url="https://example.invalid/a.png"), caption="a boat")}
    plan = build(
        history=[{"role": "user", "data": "Look {{inlay::a}}"}], inlays=inlays, preset=preset(ai_model="nobody")
    )
    assert contents(plan)[-1] == "Look [a boat]"


def test_asset_prompts_attach_the_characters_pictures():
    inlays = {"assets/map.png": Inlay(Attachment.image(data=b"x"))}
    owner = character(additionalAssets=[["map", "assets/map.png", "png"]], image="assets/me.png")
    plan = build(character=owner, inlays=inlays, history=[{"role": "user", "data": "{{asset_prompt::map}}Where?"}])
    last = plan.prompt_messages()[-1]
    assert last.content == "Where?"
    assert len(last.multimodals) == 1


def test_switches_act_only_with_a_template():
    switches = PromptSettings(send_name=True, post_end_inner_format="END")
    assert "END" not in contents(build(preset=preset(prompt_settings=switches)))
    assert contents(build(preset=preset([WHOLE_CHAT], prompt_settings=switches)))[-1] == "END"


@pytest.mark.parametrize(
    ("index", "place"), [(0, 0), (2, 2), (9, 3), (-1, 2), (-3, 0), (-9, 0), (float("nan"), 0), (1.9, 1)]
)
def test_messages_are_inserted_as_javascript_splices(index: float, place: int):
    items = ["a", "b", "c"]
    splice(items, index, "x")
    assert items.index("x") == place


def test_a_prompt_of_several_roles_is_split():
    found = role_split("one\n@@user\ntwo\n@@@assistant\nthree", {})
    assert [(each.role, each.content) for each in found] == [("system", "one"), ("user", "two"), ("assistant", "three")]
    assert role_split("@@note\nlost", {}) == []


def test_chat_ml_is_read():
    found = parse_chat_ml("<|im_start|>system\nS<|im_end|><|im_start|>assistant<|im_sep|>A<|im_start|>odd")
    assert found is not None
    assert [(each.role, each.content) for each in found] == [("system", "S"), ("assistant", "A"), ("user", "odd")]
    assert parse_chat_ml("plain") is None
