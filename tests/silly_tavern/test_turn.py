from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import WarningLog
from tavernkit.silly_tavern import ChatMessage
from tavernkit.silly_tavern._chat.core_chat import Turn, TurnInput, begin_turn, inline_bias


def lines(*texts: str, **extra: Any) -> list[ChatMessage]:
    return [ChatMessage(name="Lyra", mes=text.lstrip(">"), is_user=text.startswith(">"), extra=extra) for text in texts]


def begin(chat: list[ChatMessage], kind: str = "normal", message: str = "", **changes: Any) -> Turn:
    turn = TurnInput(
        **{
            "generation_type": kind,
            "message": message,
            "send_if_empty": "",
            "user_name": "Mira",
            "user_prompt_bias": "",
            **changes,
        }
    )
    return begin_turn(
        chat,
        turn,
        expand=lambda text: text.replace("{{user}}", "Mira"),
        user_input_scripts=lambda text: text.replace("cat", "dog"),
        warn=WarningLog(),
    )


def texts(turn: Turn) -> list[str]:
    return [line.mes for line in turn.chat]


def test_a_typed_message_is_sent_through_scripts_and_macros():
    turn = begin(lines("hi"), message="{{user}} has a cat")
    assert texts(turn) == ["hi", "Mira has a dog"]
    assert turn.sent is not None
    assert turn.sent.is_user


@pytest.mark.parametrize("kind", ["swipe", "regenerate", "impersonate", "quiet"])
def test_other_types_leave_the_input_box_alone(kind: str):
    assert begin(lines(">hi"), kind, message="typed").sent is None


def test_continue_sends_the_message_first():
    assert texts(begin(lines("hi"), "continue", message="more")) == ["hi", "more"]


def test_an_empty_box_sends_the_replacement_trimmed():
    assert texts(begin(lines(">hi"), send_if_empty="  nods ")) == ["hi", "nods"]


def test_regenerate_removes_the_last_reply_but_no_user_message():
    assert texts(begin(lines(">a", "b"), "regenerate")) == ["a"]
    assert texts(begin(lines("a", ">b"), "regenerate")) == ["a", "b"]


def test_regenerate_in_a_group_removes_the_whole_round():
    chat = [*lines(">a"), *lines("b", "c", gen_id=7)]
    assert texts(begin(chat, "regenerate", in_group=True)) == ["a"]
    assert texts(begin(chat, "regenerate")) == ["a", "b"]


def test_a_tool_follow_up_changes_nothing():
    turn = begin(lines("a"), "normal", message="typed", send_if_empty="nods", untouched=True)
    assert texts(turn) == ["a"]


def test_a_slash_command_is_not_sent_and_that_is_said():
    log = WarningLog()
    turn = begin_turn(
        [],
        TurnInput("normal", " /hide 3", "", "Mira", ""),
        expand=str,
        user_input_scripts=str,
        warn=log,
    )
    assert turn.sent is None
    assert "slash command" in log.messages[0]


def test_inline_bias_is_taken_out_of_the_message():
    turn = begin(lines("a"), message="Go {{bias \"Well,\"}} {{bias 'then'}} on")
    assert turn.bias == " Well, then"
    assert turn.sent is not None
    assert turn.sent.mes == "Go   on"
    assert turn.sent.extra["bias"] == " Well, then"


def test_a_message_that_is_only_bias_is_hidden():
    turn = begin(lines("a"), message='{{bias "Arr"}}')
    assert turn.sent is not None
    assert turn.sent.is_system


def test_stored_bias_counts_when_nothing_is_typed():
    chat = [*lines("a"), *lines(">b", bias=" Hmm"), *lines("c")]
    assert begin(chat, user_prompt_bias="As ever").bias == " Hmm"
    assert begin(chat, message="typed", user_prompt_bias="As {{user}}").bias == "As Mira"


def test_only_the_newest_message_that_may_hold_bias_is_asked():
    chat = [*lines(">a", bias=" Hmm"), *lines(">b")]
    assert begin(chat, user_prompt_bias="Default").bias == "Default"


def test_a_swipe_skips_the_last_messages_own_bias():
    chat = [*lines(">a", bias=" old"), *lines(">b", bias=" own")]
    assert begin(chat, "swipe").bias == " old"


@pytest.mark.parametrize("kind", ["continue", "impersonate"])
def test_some_types_have_no_bias(kind: str):
    assert begin(lines("a"), kind, user_prompt_bias="B").bias == ""


def test_quotes_inside_a_bias_may_be_escaped():
    assert inline_bias(r'{{bias "say \"hi\""}}', WarningLog()) == ' say "hi"'


@pytest.mark.parametrize(
    ("message", "bias"),
    [
        ("{{{bias 'a'}}}{{~bias \"b\" 'c'~}}", " a b"),
        ("{{#if 1}}{{bias 2}}{{/if}}{{#if 0}}{{bias 3}}{{/if}}", " 2"),
        ("{{user}} {{roll:1d6}} {{bias 'a'}}", " a"),
        ("{{bias nobody}}{{bias 'a'}}", "  a"),
        ("{{bias}}", " [object Object]"),
        (r"\{{bias 'a'}} the bias", ""),
    ],
)
def test_bias_is_read_as_handlebars_reads_it(message: str, bias: str):
    assert inline_bias(message, WarningLog()) == bias


@pytest.mark.parametrize("message", ["{{bias 'a'}} {{// b}}", "{{bias 'a'}} {{random::a,b}}", "{{roll 6}}{{bias 'a'}}"])
def test_bias_beside_a_malformed_tag_does_not_count_and_that_is_told(message: str):
    warnings = WarningLog()
    assert inline_bias(message, warnings) == ""
    assert "malformed" in warnings.messages[0]


@pytest.mark.parametrize(
    ("message", "setting", "expected"),
    [
        ("", "", ("", False)),
        ("", "{{user}} says", ("Mira says", False)),
        ("Go {{bias 'Well,'}}", "{{user}} says", (" Well,", True)),
        ("{{bias 'Well,'}}", " Well,", (" Well,", False)),
    ],
)
def test_a_message_asks_for_its_own_bias_and_the_settings_for_theirs(message: str, setting: str, expected: object):
    turn = begin(lines("a"), message=message, user_prompt_bias=setting)
    assert (turn.bias, turn.bias_of_message) == expected
