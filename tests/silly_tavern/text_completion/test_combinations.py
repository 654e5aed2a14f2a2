"""Two settings at once, where each alone has its recordings: how a text-completion prompt is written."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.silly_tavern import ContextTemplate, InstructTemplate, Persona, Settings, SystemPrompt, WorldBook
from tests.silly_tavern.scene import card
from tests.silly_tavern.test_assembly import chat
from tests.silly_tavern.text_completion.scene import build

PLAIN = InstructTemplate(enabled=False)
MARKED = InstructTemplate(
    input_sequence="<u>",
    output_sequence="<b>",
    system_sequence="<s>",
    first_input_sequence="<fu>",
    first_output_sequence="<fb>",
    last_input_sequence="<lu>",
    last_output_sequence="<lb>",
    last_system_sequence="<ls>",
)
NAMED = MARKED.replace(last_system_sequence="<ls {{name}}>", last_output_sequence="<lb {{NAME}}>")
ALWAYS = MARKED.replace(names_behavior="always")
NOTHING = ContextTemplate(story_string="", chat_start="", example_separator="", use_stop_strings=True)
NO_NAME = NOTHING.replace(always_force_name2=False)
BEGUN, TOLD = "<fb>\na\n<lu>\nb\n<b>\nc", "Lyra: a\nMira: b\nLyra: c"
GUIDED = {"cfg_guidance_scale": 2, "cfg_positive_prompt": "P {{user}}", "cfg_negative_prompt": "N"}


def settings(**keys: Any) -> Settings:
    return Settings.from_json({"power_user": {"tokenizer": 0, "token_padding": 0, **keys}})


def written(**changes: Any) -> str:
    plan = build(
        **{
            "instruct": PLAIN,
            "context_template": NOTHING,
            "system_prompt": SystemPrompt(enabled=False),
            "history": chat("a", ">b", "c"),
            "settings": settings(),
            **changes,
        }
    )
    assert plan.warnings == ()
    return plan.prompt


@pytest.mark.parametrize(
    ("given", "prompt"),
    [
        ({"instruct": MARKED, "settings": settings(user_prompt_bias="B")}, f"{BEGUN}\n<s>\nQ\n<ls>\nB\n"),
        ({"instruct": ALWAYS, "quiet_name": "N"}, "<fb>\nLyra: a\n<lu>\nMira: b\n<b>\nLyra: c\n<s>\nQ\n<ls>\n"),
        (
            {"instruct": ALWAYS, "quiet_to_loud": True},
            "<fb>\nLyra: a\n<lu>\nMira: b\n<b>\nLyra: c\n<s>\nQ\n<lb>\nLyra:",
        ),
        ({"instruct": MARKED, "generation_type": "normal"}, f"{BEGUN}<s>\nQ\n\n<lb>\n"),
        ({"instruct": MARKED, "generation_type": "continue"}, "<fb>\na\n<lu>\nb\n<s>\nQ\n<lb>\nc"),
        ({"instruct": NAMED, "quiet_name": "N"}, f"{BEGUN}\n<s>\nQ\n<ls N>\n"),
        ({"instruct": NAMED}, f"{BEGUN}\n<s>\nQ\n<ls System>\n"),
        ({"instruct": NAMED, "quiet_name": "N", "quiet_to_loud": True}, f"{BEGUN}\n<s>\nQ\n<lb Lyra>\n"),
        ({"settings": settings(user_prompt_bias=" B {{user}}")}, f"{TOLD}\nQ B Mira"),
        ({"quiet_to_loud": True}, f"{TOLD}\nQ\nLyra:"),
        ({"generation_type": "impersonate"}, f"{TOLD}\nQ"),
        ({"generation_type": "impersonate", "quiet_to_loud": True}, f"{TOLD}\nQ\nMira:"),
    ],
)
def test_a_quiet_prompt_beside_other_settings(given: dict[str, Any], prompt: str) -> None:
    assert written(**{"generation_type": "quiet", "quiet_prompt": "Q", **given}) == prompt


@pytest.mark.parametrize(
    ("given", "prompt"),
    [
        ({"generation_type": "continue", "message": "Hi {{char}}"}, f"{TOLD}\nMira: Hi Lyra"),
        ({"generation_type": "continue", "instruct": MARKED, "message": "Hi"}, "<fb>\na\n<u>\nb\n<b>\nc\n<lu>\nHi"),
        ({"generation_type": "continue", "history": []}, "\nLyra:"),
        ({"context_template": NO_NAME}, TOLD),
        ({"context_template": NO_NAME, "message": "Hi {{bias 'B'}}", "strict": True}, f"{TOLD}\nMira: Hi\nLyra: B"),
        ({"context_template": NO_NAME, "message": "{{bias 'B'}}"}, f"{TOLD}\nLyra: B"),
        ({"context_template": NO_NAME, "settings": settings(user_prompt_bias="B")}, f"{TOLD} B"),
        ({"instruct": MARKED.replace(wrap=False, input_suffix="</u>")}, "<fb>a<lu>b</u><b>c<lb>"),
    ],
)
def test_the_end_of_a_prompt(given: dict[str, Any], prompt: str) -> None:
    assert written(**given) == prompt


@pytest.mark.parametrize(
    ("kind", "prompt"),
    [
        ("normal", f"<fu>\nGo Lyra\n{BEGUN}\n<lb>\n"),
        ("impersonate", "<fu>\nGo Lyra\n<fb>\na\n<u>\nb\n<b>\nc\n<lu>\n"),
        ("continue", "<fu>\nGo Lyra\n<fb>\na\n<lu>\nb\n<lb>\nc"),
    ],
)
def test_a_chat_that_the_character_begins_is_aligned_in_every_generation(kind: str, prompt: str) -> None:
    assert written(instruct=MARKED.replace(user_alignment_message="Go {{char}}"), generation_type=kind) == prompt


@pytest.mark.parametrize(
    ("depth", "given", "prompt", "negative"),
    [
        (0, {"settings": settings(user_prompt_bias=" B")}, f"{TOLD}\nLyra: P Mira B", f"{TOLD}\nLyra: N B"),
        (
            None,
            {"generation_type": "continue"},
            "Lyra: a\nP Mira\nMira: b\nLyra:Lyra: c",
            "Lyra: a\nN\nMira: b\nLyra:Lyra: c",
        ),
        (9, {}, f"P Mira\n{TOLD}\nLyra:", f"N\n{TOLD}\nLyra:"),
        (9, {"cfg_negative_prompt": ""}, f"P Mira\n{TOLD}\nLyra:", f"{TOLD}\nLyra:"),
    ],
)
def test_guidance_beside_other_settings(depth: int | None, given: dict[str, Any], prompt: str, negative: str) -> None:
    own = {key: given[key] for key in given if key.startswith("cfg")}
    more = {key: given[key] for key in given if not key.startswith("cfg")}
    plan = build(
        instruct=PLAIN,
        context_template=NOTHING,
        system_prompt=SystemPrompt(enabled=False),
        history=chat("a", ">b", "c"),
        chat_metadata={**GUIDED, **own, **({} if depth is None else {"cfg_prompt_insertion_depth": depth})},
        **{"settings": settings(), **more},
    )
    assert (plan.prompt, plan.negative_prompt) == (prompt, negative)


@pytest.mark.parametrize(
    ("story", "given", "prompt"),
    [
        ({"story_string": "S"}, {"instruct": MARKED.replace(wrap=False)}, "S<fb>a<lu>b<b>c<lb>"),
        (
            {"story_string": "S"},
            {"instruct": MARKED.replace(story_string_prefix="{{name}}|", story_string_suffix="|{{name}}", macro=False)},
            f"System|\nS|{{{{name}}}}{BEGUN}\n<lb>\n",
        ),
        (
            {"story_string": "S", "story_string_position": 1, "story_string_depth": 0, "story_string_role": 2},
            {"instruct": MARKED.replace(story_string_prefix="P", story_string_suffix="X")},
            f"{BEGUN}\n<b>\nS\n<lb>\n",
        ),
        (
            {"story_string": "\n S ", "story_string_position": 1, "story_string_depth": 99, "story_string_role": 1},
            {},
            f"Mira: S\n{TOLD}\nLyra:",
        ),
        (
            {"story_string": "[{{anchorBefore}}|{{anchorAfter}}]"},
            {
                "persona": Persona("PER", "bottom_an"),
                "chat_metadata": {"note_prompt": " NOTE ", "note_position": 2},
                "extension_prompts": [
                    {"key": "z", "value": " Z ", "position": 2},
                    {"key": "A", "value": " ", "position": 2},
                    {"key": "y", "value": "{{user}}", "position": 0},
                ],
            },
            f"[NOTE \nPER\n\nZ|Mira]\n{TOLD}\nLyra:",
        ),
        (
            {"story_string": "{{persona}}|"},
            {
                "persona": Persona("PER", "top_an"),
                "chat_metadata": {"note_prompt": "NOTE", "note_position": 1, "note_depth": 0, "note_role": 2},
                "instruct": MARKED,
            },
            f"|\n{BEGUN}\n<b>\nPER\nNOTE\n<lb>\n",
        ),
    ],
)
def test_the_story_string_beside_other_settings(story: dict[str, Any], given: dict[str, Any], prompt: str) -> None:
    assert written(context_template=NOTHING.replace(**story), **given) == prompt


def test_post_history_instructions_are_the_users_last_words() -> None:
    setting = SystemPrompt(post_history=" NOW {{personality}}")
    own = card(personality="PERS", post_history_instructions=" X {{original}} {{original}} {{personality}}|")
    assert written(system_prompt=setting) == f"{TOLD}\n NOW \nLyra:"
    assert written(system_prompt=setting, instruct=MARKED) == "<fb>\na\n<u>\nb\n<b>\nc\n<lu>\n NOW \n<lb>\n"
    assert written(system_prompt=setting, character=own) == f"{TOLD}\nX  NOW {{{{personality}}}}  |\nLyra:"
    off = settings(prefer_character_jailbreak=False)
    assert written(system_prompt=setting, character=own, settings=off) == f"{TOLD}\n NOW \nLyra:"
    assert written(system_prompt=setting.replace(enabled=False), character=own) == f"{TOLD}\nLyra:"


def test_stop_strings_come_in_order_and_once() -> None:
    plan = build(
        instruct=PLAIN,
        context_template=NOTHING.replace(single_line=True, chat_start="{{user}}*", example_separator="-"),
        settings=settings(custom_stopping_strings='["", "{{char}}", "\\n", "-"]'),
        stop_strings=["E", "E", "-"],
    )
    assert plan.stop_strings == ("\n", "\nMira:", "\nMira*", "\n-", "Lyra", "-", "E")


def test_the_story_string_knows_lore_examples_and_names_by_all_their_names() -> None:
    entry = {"uid": 1, "key": [], "constant": True, "content": "LORE", "position": 0}
    after = {"uid": 2, "key": [], "constant": True, "content": "MORE", "position": 1}
    book = WorldBook.from_json({"entries": {"1": entry, "2": after}}, name="Book")
    names = ["user", "char", "wiBefore", "loreBefore", "wiAfter", "loreAfter", "mesExamples", "mesExamplesRaw"]
    story = NOTHING.replace(story_string="|".join(f"{{{{{name}}}}}" for name in names) + "|")
    lyra = card(mes_example="<START>\nMira: hi")
    told = written(
        context_template=story, character=lyra, books=[book], instruct=MARKED, settings=settings(strip_examples=True)
    )
    assert told == f"Mira|Lyra|LORE|LORE|MORE|MORE|<u>\nMira: hi\n|<START>\nMira: hi\n|\n{BEGUN}\n<lb>\n"


def test_an_empty_registered_text_leaves_no_line_but_a_blank_one_does() -> None:
    values = {"a": "A", "b": "", "c": " ", "d": "D"}
    for position, story in ((0, "{{anchorAfter}}"), (2, "{{anchorBefore}}")):
        prompts = [{"key": key, "value": value, "position": position} for key, value in values.items()]
        template = NOTHING.replace(story_string=story)
        assert written(context_template=template, extension_prompts=prompts) == f"A\n\nD\n{TOLD}\nLyra:"
    prompts = [{"key": key, "value": value, "position": 1, "depth": 9, "role": 1} for key, value in values.items()]
    assert written(extension_prompts=prompts) == f"Mira: A\n\nD\n{TOLD}\nLyra:"


@pytest.mark.parametrize(
    ("kind", "reply", "cleaned"),
    [
        ("normal", "x\nMira: y", "B x"),
        ("continue", "Lyra: x\nMira: y", "x"),
        ("impersonate", "Mira: x\nLyra: y", "x"),
        ("quiet", "x\nMira: y", "B x"),
    ],
)
def test_a_reply_is_cleaned_up_as_its_generation_asks(kind: str, reply: str, cleaned: str) -> None:
    plan = build(instruct=PLAIN, settings=settings(user_prompt_bias="B "), generation_type=kind)
    assert plan.clean_up(reply) == cleaned


def test_without_guidance_there_is_no_second_prompt() -> None:
    plan = build(chat_metadata={**GUIDED, "cfg_guidance_scale": 1})
    assert (plan.negative_prompt, plan.guidance_scale) == ("", 1)
    assert "P Mira" not in plan.prompt


@pytest.mark.parametrize(("depth", "shown"), [(10_000, True), (10_001, False), (-1, False), (0.5, False)])
def test_the_deepest_place_in_a_chat_is_ten_thousand(depth: float, shown: bool) -> None:
    prompt = {"key": "k", "value": "INJ", "position": 1, "depth": depth, "role": 0}
    assert ("INJ" in written(extension_prompts=[prompt])) is shown
