"""What JavaScript makes of content that is not text, of names that are not known and of keys that are not there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tavernkit._values import Json, JsonObject
from tavernkit.silly_tavern.providers._chat.claude import convert_claude
from tavernkit.silly_tavern.providers._chat.google import convert_google
from tavernkit.silly_tavern.providers._chat.message_forms import convert_claude_text, post_process, to_text_prompt
from tavernkit.silly_tavern.providers._chat.messages import (
    MessageConversionError,
    Messages,
    PromptNames,
    ToolArgumentsError,
)
from tavernkit.silly_tavern.providers._chat.own import convert_ai21, convert_cohere, convert_mistral, convert_xai

NAMES = PromptNames(char_name="Vesna", user_name="Tomas")
NOBODY = PromptNames()
PARTS: list[Json] = [{"type": "text", "text": "x"}]
IMAGE: JsonObject = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
EXAMPLE: JsonObject = {"role": "system", "name": "example_user", "content": PARTS}
HELLO: JsonObject = {"role": "user", "content": "hello"}

Convert = Callable[[Messages, PromptNames], object]
CONVERTERS: dict[str, Convert] = {
    "claude": lambda messages, names: convert_claude(messages, names=names),
    "google": lambda messages, names: convert_google(messages, model="gemini", use_system_prompt=True, names=names),
    "cohere": lambda messages, names: convert_cohere(messages, names=names),
    "ai21": lambda messages, names: convert_ai21(messages, names=names),
    "mistral": lambda messages, names: convert_mistral(messages, names=names),
    "xai": lambda messages, names: convert_xai(messages, names=names),
}


@pytest.mark.parametrize("convert", CONVERTERS.values(), ids=CONVERTERS)
def test_an_example_of_parts_fails_only_where_a_known_name_must_be_written_into_it(convert: Convert) -> None:
    convert([EXAMPLE, HELLO], NOBODY)
    convert([{**EXAMPLE, "name": "Narrator"}, HELLO], NAMES)
    with pytest.raises(MessageConversionError, match="example_user"):
        convert([EXAMPLE, HELLO], NAMES)


def test_an_example_of_parts_without_known_names_stays_as_it_is() -> None:
    assert convert_claude([EXAMPLE, HELLO], names=NOBODY).system_prompt == [{"type": "text", "text": PARTS}]
    assert convert_xai([EXAMPLE], names=NOBODY) == [{"role": "system", "content": PARTS}]
    assert convert_cohere([EXAMPLE], names=NOBODY) == [{"role": "system", "content": PARTS}]


@pytest.mark.parametrize("convert", [convert_ai21, convert_mistral, convert_cohere])
def test_a_name_cannot_be_written_into_parts(convert: Callable[..., object]) -> None:
    with pytest.raises(MessageConversionError, match="must be text"):
        convert([{"role": "user", "name": "Ann", "content": PARTS}], names=NAMES)


@pytest.mark.parametrize("arguments", ["", "{'a': 1}", "NaN", '{"a":1,}'])
def test_claude_refuses_tool_arguments_that_are_no_json(arguments: str) -> None:
    call: JsonObject = {"id": "c", "function": {"name": "wx", "arguments": arguments}}
    message: JsonObject = {"role": "assistant", "content": "", "tool_calls": [call]}
    with pytest.raises(ToolArgumentsError, match="wx"):
        convert_claude([message], names=NAMES)


def test_google_passes_tool_arguments_that_are_no_json() -> None:
    calls: list[Json] = [{"id": "c", "function": {"name": "wx", "arguments": "Infinity"}}]
    message: JsonObject = {"role": "assistant", "content": None, "tool_calls": calls}
    prompt = convert_google([message], model="gemini-2.5-pro", use_system_prompt=False, names=NAMES)
    assert prompt.contents == [
        {"role": "model", "parts": [{"functionCall": {"name": "wx", "args": "Infinity"}}]},
    ]


def test_claude_leaves_keys_away_that_were_not_given() -> None:
    turns: Messages = [
        {"role": "assistant", "tool_calls": [{"function": {"name": "wx", "arguments": {"a": 1}}}]},
        {"role": "tool", "content": None},
    ]
    prompt = convert_claude(turns, names=NAMES)
    assert prompt.messages == [
        {"role": "assistant", "content": [{"type": "tool_use", "name": "wx", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "content": None}]},
    ]


def test_claude_takes_empty_content_until_it_must_be_joined() -> None:
    empty: JsonObject = {"role": "user", "content": None}
    assert convert_claude([empty], names=NAMES).messages == [empty]
    with pytest.raises(MessageConversionError, match="user message must be text or a list of parts"):
        convert_claude([HELLO, empty], names=NAMES)
    with pytest.raises(MessageConversionError):
        convert_claude([empty], use_tools=False, names=NAMES)


def test_a_signed_text_after_a_turn_without_text_is_pushed_for_its_text_and_for_its_signature() -> None:
    turns: Messages = [
        {"role": "assistant", "content": [IMAGE]},
        {"role": "assistant", "content": "drawn", "signature": "S"},
    ]
    prompt = convert_google(turns, model="gemini-2.5-flash", use_system_prompt=False, names=NAMES)
    signed = {"text": "drawn", "thoughtSignature": "S"}
    assert prompt.contents[0]["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "QUJD"}}, signed, signed]


def test_an_example_that_starts_with_a_picture_keeps_it() -> None:
    message: JsonObject = {"role": "system", "name": "example_user", "content": [IMAGE]}
    (merged,) = post_process([message], "merge", NAMES)
    assert merged["content"] == [{"type": "text", "text": "Tomas: "}, IMAGE]


def test_a_picture_after_an_empty_message_keeps_the_empty_paragraph() -> None:
    turns: Messages = [{"role": "user", "content": ""}, {"role": "user", "content": [IMAGE]}]
    (merged,) = post_process(turns, "merge", NAMES)
    assert merged["content"] == [{"type": "text", "text": ""}, IMAGE]


def test_names_that_are_numbers_are_written_as_javascript_does() -> None:
    (merged,) = post_process([{"role": "user", "name": 7.0, "content": "hi"}], "merge", NAMES)
    assert merged["content"] == "7: hi"


def test_ai21_and_text_lines_write_missing_content_out() -> None:
    assert convert_ai21([{"role": "system", "content": None}, HELLO], names=NAMES)[0]["content"] == "null"
    assert convert_ai21([HELLO, {"role": "user"}], names=NAMES) == [{"role": "user", "content": "hello\n\nundefined"}]
    assert to_text_prompt([{"role": "user"}, {"content": None}]) == "user: undefined\nundefined: null\nassistant:"


def test_mistral_folds_into_a_user_message_of_parts_even_if_it_is_empty() -> None:
    turns: Messages = [{"role": "user", "content": []}, {"role": "tool", "tool_call_id": "c", "content": "r"}, HELLO]
    assert convert_mistral(turns, names=NAMES)[0] == {"role": "user", "content": "\n\nhello"}


def test_the_old_claude_text_counts_tool_calls_only_where_there_are_some() -> None:
    turns: Messages = [{"role": "user", "content": "a", "tool_calls": None}, {"role": "user", "tool_calls": []}]
    assert convert_claude_text(turns, use_system_prompt=True, with_system_prompt_support=True) == "a\n\nHuman: []"


def test_cohere_takes_over_the_absence_of_content_too() -> None:
    call: JsonObject = {"role": "assistant", "content": "x", "tool_calls": [{"function": {}}]}
    assert convert_cohere([{"role": "assistant"}, call], names=NAMES) == [
        {"role": "assistant", "tool_calls": [{"function": {}}]}
    ]
    (alone,) = convert_cohere([call], names=NAMES)
    assert alone["content"] == "I'm going to call a tool for that: "


def test_a_tool_result_without_content_is_empty_for_google() -> None:
    result: JsonObject = {"role": "tool", "tool_call_id": "c", "content": None}
    prompt = convert_google([result], model="gemini-2.5-pro", use_system_prompt=False, names=NAMES)
    response = {"name": "unknown", "response": {"name": "unknown", "content": ""}}
    assert prompt.contents == [{"role": "user", "parts": [{"functionResponse": response}]}]
