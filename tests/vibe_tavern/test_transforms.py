"""Named transforms, one by one, and user input."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.stores._variables import InMemoryVariablesStore
from tavernkit.vibe_tavern import preprocess_user_input
from tavernkit.vibe_tavern._output_tags import OutputTagsConfig
from tavernkit.vibe_tavern._runner_config import SHARED
from tavernkit.vibe_tavern.errors import LiquidError
from tests.vibe_tavern.support import loose

TAGS = OutputTagsConfig()


def with_calls(**fields: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": " ",
        "tool_calls": [{"id": "1"}, {"id": "2", "signature": "s"}, "odd"],
        **fields,
    }


def message_transform(name: str, messages: Any) -> Any:
    (transform,) = SHARED.message_transforms.resolve([name], strict=True)
    transform(messages)
    return messages


def response_transform(name: str, message: Any) -> Any:
    (transform,) = SHARED.response_transforms.resolve([name], strict=True)
    transform(message, TAGS)
    return message


def test_message_transforms_touch_only_messages_with_tool_calls() -> None:
    plain = {"role": "assistant", "content": ""}
    changed = message_transform("assistant_tool_calls_content_null_if_blank", [with_calls(), dict(plain)])
    assert (changed[0]["content"], changed[1]) == (None, plain)
    changed = message_transform("Assistant-Tool-Calls-Reasoning-Content-Empty-If-Missing", [with_calls(), dict(plain)])
    assert (changed[0]["reasoning_content"], changed[1]) == ("", plain)
    kept = message_transform(
        "assistant_tool_calls_reasoning_content_empty_if_missing", [with_calls(reasoning_content="hm")]
    )
    assert kept[0]["reasoning_content"] == "hm"
    signed = message_transform("assistant_tool_calls_signature_skip_validator_if_missing", [with_calls(), dict(plain)])
    assert [call["signature"] for call in signed[0]["tool_calls"][:2]] == ["skip_thought_signature_validator", "s"]


@pytest.mark.parametrize("message", [{}, {"function_call": {"name": " "}}, {"function_call": "x"}])
def test_legacy_function_call_needs_a_name(message: dict[str, Any]) -> None:
    assert response_transform("assistant_function_call_to_tool_calls", dict(message)) == message


def test_tool_calls_win_over_a_legacy_function_call() -> None:
    message = {"tool_calls": [{"id": "1"}], "function_call": {"name": "f"}}
    assert response_transform("assistant_function_call_to_tool_calls", dict(message)) == message


@pytest.mark.parametrize(
    ("content", "names", "text"),
    [
        ('a <tool_call>{"function": {"name": "f", "arguments": "{}"}}</tool_call> b', ["f"], "a  b"),
        ('<tool_call>{"name": "f", "args": [1]}</tool_call><tool_call>g</tool_call>', ["f", "g"], ""),
        ("<tool_call>{broken</tool_call> <tool_call>g</tool_call>", ["g"], "<tool_call>{broken</tool_call>"),
        ("<tool_call>[1]</tool_call>", [], "<tool_call>[1]</tool_call>"),
        ('<tool_call>{"name": 5}</tool_call>', [], '<tool_call>{"name": 5}</tool_call>'),
        ("<tool_call>never closed", [], "<tool_call>never closed"),
        ("no tags", [], "no tags"),
    ],
)
def test_calls_written_as_text_are_read(content: str, names: list[str], text: str) -> None:
    message = response_transform("assistant_content_tool_call_tags_to_tool_calls", {"content": content})
    assert [call["function"]["name"] for call in message.get("tool_calls", [])] == names
    assert message["content"] == text


def test_args_count_where_arguments_are_nothing() -> None:
    content = '<tool_call>{"name": "f", "arguments": null, "args": {"a": 1}}</tool_call>'
    message = response_transform("assistant_content_tool_call_tags_to_tool_calls", {"content": content})
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a":1}'


def test_text_is_left_alone_beside_real_calls() -> None:
    message = {"content": "<tool_call>f</tool_call>", "tool_calls": [{"id": "1"}]}
    assert response_transform("assistant_content_tool_call_tags_to_tool_calls", dict(message)) == message


def test_descriptions_and_empty_parts_are_left_out() -> None:
    (strip,) = SHARED.tool_transforms.resolve(["openai_tools_strip_function_descriptions"])
    tools: list[Any] = [{"function": {"name": "f", "description": "d"}}, {"type": "other"}]
    strip(tools)
    assert tools == [{"function": {"name": "f"}}, {"type": "other"}]
    (compact,) = SHARED.tool_result_transforms.resolve(["tool_result_compact_envelope"])
    envelope = {"ok": False, "tool_name": "f", "data": {}, "warnings": [], "errors": [1]}
    assert compact(envelope, tool_name="f", tool_call_id="1") == {"ok": False, "tool_name": "f", "errors": [1]}


def test_registering_needs_a_name_and_a_callable() -> None:
    mine = SHARED.tool_transforms.copy()
    for name, transform in ((" ", print), ("x", "not callable")):
        with pytest.raises(ConfigError):
            mine.register(name, loose(transform))


def test_user_input_is_expanded_only_when_wanted() -> None:
    store = InMemoryVariablesStore({"local": {"n": 1}})
    text = "{% incvar n %}{{ var.n }}"
    assert preprocess_user_input(text, variables=store) == text
    toggles = {"toggles": {"expand_user_input_macros": True}}
    assert preprocess_user_input(text, variables=store, context=toggles) == "2"
    assert preprocess_user_input(text, variables=store, context=toggles, enabled=False) == text
    assert preprocess_user_input(text, variables=store, context={"toggles": "odd"}) == text
    with pytest.raises(LiquidError):
        preprocess_user_input("{% nope %}", variables=store, enabled=True, strict=True)
