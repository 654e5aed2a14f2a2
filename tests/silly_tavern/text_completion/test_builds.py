from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import ConfigError, PipelineError, StrictModeError
from tavernkit.prompt._inputs import HookRegistry
from tavernkit.silly_tavern import (
    Builder,
    ContextTemplate,
    InstructTemplate,
    Persona,
    RegexScripts,
    Settings,
    TextPlan,
    WorldBook,
)
from tavernkit.silly_tavern._chat.extension_prompts import IN_CHAT
from tavernkit.silly_tavern._scripts.regex_scripts import read_scripts
from tavernkit.silly_tavern.errors import InvalidContextTemplateError
from tests.silly_tavern.scene import card
from tests.silly_tavern.text_completion.scene import CONTEXT, build, inputs

STORY = "Be Lyra.\nLyra keeps the lamp.\n***\n"
CHAT = "<b>\nYou are late, Mira.</s>\n<u>\nI lost my boat.</s>\n<b>\nSit down.</s>\n<u>\nIs {{char}} alone?</s>"


def book(content: str, **fields: Any) -> WorldBook:
    entry = {"uid": 1, "key": ["alone"], "comment": "Boats", "content": content, "position": 0, **fields}
    return WorldBook.from_json({"entries": {"1": entry}}, name="Book")


def test_a_whole_prompt():
    plan = build()
    assert plan.prompt == f"{STORY}{CHAT}\n<b>\n"
    assert plan.stop_strings == ("\nMira:", "\n<u>", "\n<b>", "\n<sys>")
    request = plan.to_request()
    assert (request["prompt"], request["max_new_tokens"], request["truncation_length"]) == (plan.prompt, 350, 8192)
    assert plan.to_messages("text") == {"prompt": plan.prompt, "stop_sequences": list(plan.stop_strings)}


def test_every_character_belongs_to_a_block():
    plan = build(books=[book("Boats leak.")], settings=Settings.from_json({"power_user": {"collapse_newlines": True}}))
    assert plan.rendered is not None
    spans = plan.rendered.spans
    blocks = {block.id: block for block in plan.blocks}
    assert [span.start for span in spans] == [0, *(span.end for span in spans[:-1])]
    assert spans[-1].end == len(plan.prompt)
    assert all(plan.prompt[span.start : span.end] == blocks[span.block_id].content for span in spans)
    assert [block.id for block in plan.blocks] == [
        "main",
        "worldInfoBefore",
        "charDescription",
        "chatStart",
        *(f"chatHistory-{index}" for index in range(4)),
        "replyLine",
    ]


def test_the_explanation_names_lore_and_its_cause():
    rows = {row.block_id: row for row in build(books=[book("Boats leak.")]).explain().blocks}
    assert (rows["worldInfoBefore"].source, rows["worldInfoBefore"].reason) == (
        "World Info before the character",
        "Boats (key 'alone') in Book",
    )
    assert rows["chatHistory-1"].role == "user"
    assert "replyLine" in rows


def test_what_the_story_string_does_not_ask_for_is_told():
    template = ContextTemplate.from_json({"story_string": "{{description}}"})
    plan = build(books=[book("Boats leak.")], context_template=template, persona=Persona("I sail."))
    assert "Boats leak." not in plan.prompt
    told = {omission.name: omission.reason for omission in plan.omissions}
    for title in ("World Info before the character", "Persona Description"):
        assert told[title] == "the story string does not ask for it"
    assert "the character's description" not in told


def test_without_instruct_mode_names_are_written():
    plan = build(instruct=InstructTemplate(enabled=False), message="Hello.")
    assert plan.prompt.endswith("Lyra: Sit down.\nMira: Is {{char}} alone?\nMira: Hello.\nLyra:")
    assert plan.chat[-1].mes == "Hello."


def test_the_settings_bring_the_templates():
    settings = Settings.from_json(
        {
            "power_user": {
                "instruct": {"enabled": True, "input_sequence": "USER", "output_sequence": "BOT", "wrap": True},
                "context": {"story_string": "{{description}}", "chat_start": "", "story_string_position": 0},
                "sysprompt": {"enabled": False},
            }
        }
    )
    plan = build(settings=settings, instruct=None, context_template=None, system_prompt=None, history=[])
    assert plan.prompt == "Lyra keeps the lamp.\n\nBOT\n"


def test_the_story_string_may_stand_in_the_chat():
    template = CONTEXT.replace(story_string_position=1, story_string_depth=1, story_string_role=0, chat_start="")
    plan = build(context_template=template)
    assert plan.prompt.index("Lyra keeps the lamp.") > plan.prompt.index("Sit down.")
    assert "<sys>\nBe Lyra.\nLyra keeps the lamp.</s>\n" in plan.prompt
    block = next(block for block in plan.blocks if block.id == "injection-1-system")
    assert block.source["id"] == "__STORY_STRING__"  # type: ignore[index]


def test_what_does_not_fit_is_named():
    plan = build(
        context_length=120,
        response_length=10,
        settings=Settings.from_json({"power_user": {"tokenizer": 0, "token_padding": 0}}),
    )
    kept = [block.id for block in plan.blocks if block.slot == "chatHistory"]
    assert plan.warnings == ()
    assert kept == [f"chatHistory-{index}" for index in range(4)]
    plan = build(
        context_length=45,
        response_length=10,
        settings=Settings.from_json({"power_user": {"tokenizer": 0, "token_padding": 0}}),
    )
    assert [block.id for block in plan.blocks if block.slot == "chatHistory"] == ["chatHistory-2", "chatHistory-3"]
    assert [(row.what, row.reason) for row in plan.explain().left_out] == [
        ("history 2 messages", "does not fit the token budget")
    ]
    assert plan.trim_report is not None
    assert [record.block_id for record in plan.trim_report.evictions] == ["chatHistory-1", "chatHistory-0"]
    assert plan.trim_report.fits
    assert plan.trim_report.evictions[:1][0].token_count > 0


def test_a_prompt_without_room_for_the_chat_is_built_with_a_warning():
    plan = build(context_length=60, response_length=50)
    assert plan.prompt == STORY
    assert plan.warnings == ("the prompt has no room for the chat: all messages and the reply line are left out",)
    with pytest.raises((StrictModeError, PipelineError)):
        build(context_length=60, response_length=50, strict=True)


def test_an_injection_that_is_too_long_blocks_the_chat_and_says_so():
    big = {"key": "big", "value": "x " * 15_000, "position": IN_CHAT, "depth": 4, "role": 0}
    plan = build(extension_prompts=[big])
    assert plan.prompt == STORY
    assert plan.warnings[0] == "no room for texts inside the chat: extension big left out"


def test_a_newest_message_that_is_too_long_is_told():
    small = {"key": "k", "value": "Note.", "position": IN_CHAT, "depth": 0, "role": 0}
    plan = build(message="x " * 15_000, extension_prompts=[small])
    assert "Note." in plan.prompt
    assert plan.warnings == (
        "the newest message ('x x x x x x x x x x x x x x x x x x x x) does not fit and is left out",
    )


def test_a_malformed_story_string_is_a_warning_with_its_place():
    template = CONTEXT.replace(name="Mine", story_string="Hi.\n{{#if system}}{{description}}")
    plan = build(context_template=template)
    assert plan.prompt.startswith("Hi.\n{{#if system}}Lyra keeps the lamp.")
    assert plan.warnings[0].startswith("context template 'Mine': the story string is malformed: line 2, column 1: ")
    with pytest.raises(PipelineError) as error:
        build(context_template=template, strict=True)
    assert isinstance(error.value.__cause__, InvalidContextTemplateError)


@pytest.mark.parametrize("strategy", ["group_order", "priority"])
def test_the_generic_trimmer_gives_a_text_of_what_it_kept(strategy: str):
    plan = build(strategy=strategy, context_length=45, response_length=10)
    assert plan.trim_report is not None
    assert plan.trim_report.eviction_count > 0
    assert plan.prompt == "".join(block.content for block in plan.enabled_blocks)
    assert plan.prompt.endswith("<b>\n")
    assert "boat" not in plan.prompt


def test_the_generic_trimmer_warns_when_nothing_can_go():
    plan = build(strategy="group_order", context_length=20, response_length=10)
    assert "tokens" in plan.warnings[-1]


def test_changed_blocks_change_the_text():
    hooks = HookRegistry()

    @hooks.after_build
    def shout(state: Any) -> None:
        plan = state.plan
        state.plan = plan.with_blocks(block.replace(content=block.content.upper()) for block in plan.blocks)

    assert build(hooks=hooks).prompt == build().prompt.upper()


def test_equal_prompts_have_equal_fingerprints():
    assert build().fingerprint() == build().fingerprint() != build(message="More").fingerprint()


def test_example_dialogue_goes_piece_by_piece():
    lyra = card(mes_example="<START>\nMira: Hi\nLyra: Yes\n<START>\nLyra: No")
    plan = build(character=lyra)
    examples = [block.content for block in plan.blocks if block.slot == "dialogueExamples"]
    assert examples == ["---\n", "<u>\nMira: Hi</s>\n", "<b>\nYes</s>\n", "---\n", "<b>\nNo</s>\n"]
    stripped = Settings.from_json({"power_user": {"strip_examples": True}})
    assert "Hi" not in build(character=lyra, settings=stripped).prompt


def test_guidance_makes_a_second_prompt():
    metadata = {"cfg_guidance_scale": 1.5, "cfg_negative_prompt": "Boring {{char}}.", "cfg_positive_prompt": "Bright."}
    plan = build(chat_metadata=metadata)
    assert plan.guidance_scale == 1.5
    assert "Bright.\n<u>\nIs" in plan.prompt
    assert plan.negative_prompt == plan.prompt.replace("Bright.", "Boring Lyra.")


def test_a_reply_is_cleaned_up_with_what_the_build_knows():
    settings = Settings.from_json({"power_user": {"custom_stopping_strings": '["[END]"]'}})
    scripts = RegexScripts(
        global_=read_scripts(
            [{"scriptName": "s", "findRegex": "/cat/g", "replaceString": "dog", "placement": [2]}], "scripts"
        )
    )
    plan = build(settings=settings, regex_scripts=scripts)
    assert plan.clean_up("Lyra: A cat.\nMira: no [EN") == "A dog."
    assert plan.clean_up("Yes [EN") == "Yes"
    assert plan.clean_up("") == ""


def test_bad_stop_strings_in_the_settings_are_reported():
    for value, warned in (("{", "is not JSON"), ("{}", "is not a JSON list"), ('["a", 5]', "1 items are not texts")):
        plan = build(settings=Settings.from_json({"power_user": {"custom_stopping_strings": value}}))
        assert warned in plan.warnings[0]


def test_the_applications_tokenizer_counts():
    class Words:
        def estimate(self, text: str, model_hint: str | None = None) -> int:
            return len(text.split())

    plan = build(
        token_estimator=Words(), settings=Settings.from_json({"power_user": {"tokenizer": 0, "token_padding": 0}})
    )
    assert plan.trim_report is not None
    assert plan.trim_report.final_tokens == len(plan.prompt.split())


def test_wrong_templates_are_refused_at_once():
    for name in ("instruct", "context_template", "system_prompt"):
        with pytest.raises(ConfigError, match=name):
            Builder(**inputs(**{name: {}}))


def test_one_builder_builds_both_kinds():
    builder = Builder(**inputs(dialect=None))
    assert not isinstance(builder.build(), TextPlan)
    assert isinstance(builder.build(dialect="text"), TextPlan)
