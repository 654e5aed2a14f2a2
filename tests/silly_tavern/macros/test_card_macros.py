"""Card fields, groups and example dialogue."""

from __future__ import annotations

import pytest

from tavernkit.cards import Character
from tavernkit.silly_tavern._group import Group, GroupChat
from tavernkit.silly_tavern._macros import (
    MacroEngine,
    MacroEnvironment,
    MacroMemory,
)
from tavernkit.silly_tavern._templates.templates import ContextTemplate, InstructTemplate, NamesBehavior

ENGINE = MacroEngine()


def test_without_a_character_only_the_persona_is_there() -> None:
    environment = MacroEnvironment(persona=" I am {{user}} ", user_name="Ann", scenario_override="here")
    assert ENGINE.expand("[{{persona}}][{{scenario}}][{{charPrompt}}]", environment) == "[I am Ann][][]"


def test_joined_cards_keep_templates_of_values_that_expand_to_nothing() -> None:
    cards = {
        "ada.png": Character(name="Ada", description="{{noop}}", mes_example="Ada: hi"),
        "bo.png": Character(name="Bo", description="Bo <fieldname>\r"),
        "cy.png": Character(name="Cy", description="  "),
    }
    group = Group(
        members=tuple(cards),
        disabled_members=("bo.png",),
        generation_mode="append_disabled",
        join_prefix="<{{char}}|",
        join_suffix=">",
    )
    chat = GroupChat.of(group, cards, "ada.png")
    environment = MacroEnvironment(character_name="Ada", character=cards["ada.png"], group=chat)
    assert ENGINE.expand("{{description}}", environment) == "<Ada|>\n<Bo|Bo Description>"
    assert ENGINE.expand("{{mesExamplesRaw}}", environment) == "<Ada|<START>\nAda: hi>"
    plain = Group(members=tuple(cards), disabled_members=("bo.png",), generation_mode="append")
    alone = environment.replace(group=GroupChat.of(plain, cards, "ada.png"))
    assert ENGINE.expand("{{description}}", alone) == ""


def test_the_speaker_is_heard_even_when_a_muted_member_has_the_same_name() -> None:
    cards = {
        "one.png": Character(name="Ada", description="the first"),
        "two.png": Character(name="Ada", description="the second"),
    }
    group = Group(members=tuple(cards), disabled_members=tuple(cards), generation_mode="append")
    chat = GroupChat.of(group, cards, "two.png")
    environment = MacroEnvironment(character_name="Ada", character=cards["two.png"], group=chat)
    assert ENGINE.expand("{{description}}", environment) == "the second"


@pytest.mark.parametrize(
    ("prompts", "expected"), [({"positive": "tall"}, "tall|"), ("odd", "|"), ({"positive": 3}, "|")]
)
def test_image_prefixes_of_a_wrong_type_count_as_missing(prompts: object, expected: str) -> None:
    card = Character.from_card(
        {"spec": "chara_card_v2", "data": {"name": "A", "extensions": {"sd_character_prompt": prompts}}}
    )
    assert ENGINE.expand("{{charPrefix}}|{{charNegativePrefix}}", MacroEnvironment(character=card)) == expected


def instruct_environment(behavior: NamesBehavior, examples: str, **changes: object) -> MacroEnvironment:
    instruct = InstructTemplate(
        enabled=True,
        input_sequence="<u {{name}}>",
        output_sequence="<b {{name}}>",
        wrap=True,
        names_behavior=behavior,
    )
    return MacroEnvironment(
        user_name="Tomas",
        character_name="Vesna",
        character=Character(name="", mes_example=examples),
        main_api="textgenerationwebui",
        instruct=instruct,
        context=ContextTemplate(example_separator="***"),
    ).replace(**changes)


@pytest.mark.parametrize(
    ("behavior", "expected"),
    [
        ("none", "***\n<u Tomas>\nHi\n<b Vesna>\nYo\n"),
        ("force", "***\n<u Tomas>\nTomas: Hi\n<b Vesna>\nYo\n"),
        ("always", "***\n<u Tomas>\nTomas: Hi\n<b Vesna>\nVesna: Yo\n"),
    ],
)
def test_examples_in_instruct_mode(behavior: NamesBehavior, expected: str) -> None:
    warnings: list[str] = []
    environment = instruct_environment(behavior, "Tomas: Hi\nVesna: Yo")
    assert ENGINE.expand("{{mesExamples}}", environment, warn=warnings.append) == expected
    assert warnings == []


def test_examples_of_a_group_keep_the_name_read_last() -> None:
    cards = {"v.png": Character(name="Vesna"), "o.png": Character(name="Orrin")}
    group = GroupChat.of(Group(members=tuple(cards)), cards)
    environment = instruct_environment("force", "Tomas: q\nOrrin: a\nTomas: r\nVesna: b", group=group)
    text = ENGINE.expand("{{mesExamples}}", environment)
    assert text == ("***\n<u Tomas>\nTomas: q\n<b Vesna>\nOrrin: a\n<u Tomas>\nTomas: r\n<b Vesna>\nOrrin: Vesna: b\n")


def test_examples_without_speakers_stay_as_they_are() -> None:
    assert ENGINE.expand("{{mesExamples}}", instruct_environment("force", "just prose")) == "***\njust prose\n"


def test_dollars_in_a_name_mean_what_they_mean_in_javascript() -> None:
    environment = instruct_environment("none", "A$&: Hi", user_name="A$&")
    assert ENGINE.expand("{{mesExamples}}", environment) == "***\n<u A{{name}}>\nHi\n"


def test_a_sequence_that_asks_for_the_examples_comes_to_an_end() -> None:
    environment = instruct_environment("none", "Tomas: Hi", instruct=InstructTemplate(
        enabled=True, input_sequence="{{mesExamples}}"
    ))  # fmt: skip
    warnings: list[str] = []
    assert "{{mesExamples}}" in ENGINE.expand("{{mesExamples}}", environment, warn=warnings.append)
    assert len(warnings) == 1


def test_the_memory_knows_the_last_generation() -> None:
    memory = MacroMemory()
    environment = MacroEnvironment(memory=memory)
    memory.generation_started("swipe")
    memory.generation_started("continue", dry_run=True)
    assert ENGINE.expand("{{lastGenerationType}}", environment) == "swipe"
    memory.generation_started()
    assert ENGINE.expand("{{lastGenerationType}}", environment) == "normal"
    memory.chat_changed()
    assert ENGINE.expand("{{lastGenerationType}}", environment) == ""
