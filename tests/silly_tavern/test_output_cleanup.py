from __future__ import annotations

import dataclasses
from itertools import product
from typing import Any

import pytest

from tavernkit.cards import Character, User
from tavernkit.errors import WarningLog
from tavernkit.prompt._inputs import GenerationType
from tavernkit.silly_tavern import (
    Builder,
    ChatMessage,
    CleanUp,
    InstructTemplate,
    PowerUser,
    SillyTavernInputs,
    clean_up,
)
from tavernkit.silly_tavern._chat.core_chat import Turn
from tavernkit.silly_tavern._chat.output_cleanup import trim_to_sentence
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._reply_clean_up import plain_clean_up, reply_clean_up, reply_stop_strings


def cleaned(text: str, power_user: PowerUser | None = None, **options: object) -> str:
    given = CleanUp(user_name="Mira", character_name="Lyra", power_user=power_user or PowerUser())
    for name, value in options.items():
        object.__setattr__(given, name, value)
    return clean_up(text, given)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes. And", "Yes."),
        ("Yes . And", "Yes"),
        (". And", "."),
        (". And ", "."),
        (" . And", ""),
        ("Hm\u3000。 And", "Hm"),
        ("Hm ❤\ufe0f and 7", "Hm ❤"),
        ("no mark  ", "no mark"),
        ("Yay 🎉 and", "Yay 🎉"),
        ("日本。そ", "日本。"),
        ("1 2 3", "1 2 3"),
        ("", ""),
    ],
)
def test_the_last_whole_sentence_stays(text: str, expected: str):
    assert trim_to_sentence(text) == expected


def test_a_begun_stop_string_goes_once():
    assert cleaned("Done<a><b>", stop_strings=["<a>", "<b>"]) == "Done<a>"
    assert cleaned("Done <|im_", stop_strings=["<|im_end|>"]) == "Done"
    assert cleaned("aab", stop_strings=["aba"]) == "a"


@pytest.mark.parametrize("stop", ["aab", "aba", "abaab", "aaa", "b"])
def test_the_longest_begun_stop_string_goes(stop: str):
    for letters in product("ab", repeat=6):
        text = "x" + "".join(letters)
        begun = max(length for length in range(len(stop) + 1) if text.endswith(stop[:length]))
        assert cleaned(text, stop_strings=[stop]) == text[: len(text) - begun]


@pytest.mark.parametrize(
    ("text", "switches", "options", "expected"),
    [
        (" Mira: x", {"trim_spaces": False}, {"impersonate": True}, "x"),
        (" Mira: x", {"trim_spaces": False, "allow_name1_display": True}, {"impersonate": True}, "Mira: x"),
        (" Mira: x", {"trim_spaces": False}, {"impersonate": True, "trim_names": False}, "Mira: x"),
        ("x\nLyra: y", {}, {"impersonate": True}, "x"),
        ("x\nLyra: y", {}, {"impersonate": True, "trim_wrong_names": False}, "x\ny"),
        ("x\nMira: y", {"allow_name1_display": True}, {}, "x\nMira: y"),
        ("x\nMira:y\n Mira: z", {}, {"trim_wrong_names": False}, "x\nMira:y\n Mira: z"),
        ("x\n Mira: y\nMira y", {}, {}, "x\n Mira: y\nMira y"),
        ("Lyra: x\nLyra: y", {"allow_name2_display": True}, {"members": ("Lyra", "Bram")}, "Lyra: x\nLyra: y"),
        ("x\nBram: y", {"disable_group_trimming": True}, {"members": ("Lyra", "Bram")}, "x\nBram: y"),
        ("Bram: y", {}, {"members": ("Lyra", "Bram"), "impersonate": True}, ""),
        ("x<|endoftext|>\nMira: y", {}, {}, "x"),
        ("a\n \n\nb", {"collapse_newlines": True}, {}, "a\n\nb"),
        (" x ", {"trim_spaces": False}, {}, " x"),
        ("x", {"user_prompt_bias": "B "}, {}, "B x"),
        ("x", {"user_prompt_bias": "B "}, {"include_user_prompt_bias": False}, "x"),
        ("", {"user_prompt_bias": "B "}, {}, ""),
        ("One. Two", {}, {"trim_sentences": True}, "One."),
        ("One. Two", {}, {"trim_sentences": True, "display_incomplete_sentences": True}, "One. Two"),
        ("* one\n* two", {}, {}, "*one\n* two"),
        ("* one *", {"auto_fix_generated_markdown": False}, {}, "* one *"),
        ("_\u00a0a_ * b", {}, {}, "_a_ * b"),
    ],
)
def test_each_switch_and_flag(text: str, switches: dict[str, object], options: dict[str, Any], expected: str):
    assert cleaned(text, PowerUser.from_json(switches, warn=WarningLog()), **options) == expected


@pytest.mark.parametrize(
    ("instruct", "options", "text", "expected"),
    [
        ({"input_sequence": " "}, {}, "a b", "a b"),
        ({"input_sequence": "<u>\n<v>"}, {}, "a<u>b<u>\n<v>c", "a<u>b"),
        ({"stop_sequence": " "}, {}, "a b", "a"),
        ({"input_sequence": "<u>", "sequences_as_stop_strings": False}, {"impersonate": True}, "a<u>b", "a"),
        ({"output_sequence": "<b>\n<c>", "last_output_sequence": "<d>"}, {}, "<d>a<c>b<b>", "ab"),
        ({"output_sequence": "<b>", "sequences_as_stop_strings": False}, {}, "a<b>", "a<b>"),
        ({"output_sequence": "{{char}}>"}, {}, "Lyra>a{{char}}>", "Lyra>a"),
        ({"stop_sequence": "<b>", "enabled": False}, {}, "a<b>b", "a<b>b"),
    ],
)
def test_sequences_of_a_template(instruct: dict[str, Any], options: dict[str, Any], text: str, expected: str):
    template = InstructTemplate.off().replace(**{"enabled": True, **instruct})
    assert cleaned(text, instruct=template, **options) == expected


def test_sequences_are_cut_and_removed():
    instruct = InstructTemplate(input_sequence="<u>", output_sequence="<b>", stop_sequence="</s>")
    assert cleaned("<b>Hi<b> there</s> more", instruct=instruct) == "Hi there"
    assert cleaned("Hi<u> there", instruct=instruct) == "Hi"
    assert cleaned("a<b>", instruct=instruct, impersonate=True) == "a<b>"


def test_other_speakers_end_the_reply():
    assert cleaned("Hi\nMira: no") == "Hi"
    assert cleaned("Mira: no") == ""
    assert cleaned("Hi\nOrrin: no", members=["Lyra", "Orrin"]) == "Hi"
    assert cleaned("Lyra: Hi\nLyra:\n\nyes") == "Hi\nyes"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a \t\nb \r\nc ", "a\nb\r\nc"),
        ("a  \u2028b", "a\u2028b"),
        ("a \u2029 \u2028 b", "a\u2028 b"),
        ("a \u2028 \nb", "a\nb"),
    ],
)
def test_lines_lose_the_blanks_at_their_end(text: str, expected: str):
    assert cleaned(text) == expected


def test_emphasis_marks_hug_their_text():
    assert cleaned("* she waves * and ** runs **") == "*she waves* and **runs**"


def test_long_runs_of_blanks_cost_little():
    for text in (" " * 200_000 + "x", "*" + " " * 200_000 + "x*", ("* " * 50_000) + "x", "a" + "\n " * 50_000 + "x"):
        assert cleaned(text)


CHAT = (ChatMessage(name="Bel", mes="Hello"), ChatMessage(name="Ann", mes="Hi", is_user=True))
INPUTS: SillyTavernInputs = {
    "character": Character(name="Bel"),
    "user": User(name="Ann"),
    "stop_strings": ["STOP", "\n###"],
}


@pytest.mark.parametrize("kind", ["normal", "continue", "impersonate", "swipe", "regenerate"])
def test_the_options_are_those_of_a_workspace(kind: GenerationType) -> None:
    builder = Builder(**INPUTS)
    state = builder.make_state(builder.make_context(generation_type=kind, history=CHAT))
    state.turn = Turn(CHAT, "")
    wanted = reply_clean_up(state, reply_stop_strings(state))
    found = plain_clean_up(builder.own_context, kind, CHAT)
    assert found is not None
    plain = {"expand": str, "scripts": str}
    assert found == dataclasses.replace(wanted, stop_strings=list(wanted.stop_strings), **plain)


@pytest.mark.parametrize(
    "power_user",
    [
        PowerUser(user_prompt_bias="{{char}} says"),
        PowerUser(custom_stopping_strings='["{{user}}!"]'),
        PowerUser(experimental_macro_engine=False),
    ],
)
def test_texts_that_may_be_expanded_need_a_workspace(power_user: PowerUser) -> None:
    builder = Builder(**INPUTS).replace(settings=Settings(power_user=power_user))
    assert plain_clean_up(builder.own_context, "normal", CHAT) is None
