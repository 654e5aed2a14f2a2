from __future__ import annotations

from typing import Any

import pytest

from tavernkit._values import JsonObject
from tavernkit.dialects import Attachment, anthropic_tool_choice, anthropic_tools, convert
from tavernkit.dialects._messages import NO_RESULT
from tavernkit.errors import WarningLog
from tavernkit.prompt import Message

Payload = tuple[Any, tuple[str, ...]]


def strict(*messages: Message, **options: object) -> Payload:
    log = WarningLog()
    return convert(messages, "anthropic", strict_alternation=True, warn=log, **options), tuple(log.messages)


def call(*ids: str, content: str = "", **metadata: object) -> Message:
    calls = [{"id": each, "type": "function", "function": {"name": f"do_{each}", "arguments": "{}"}} for each in ids]
    return Message("assistant", content, metadata={"tool_calls": calls, **metadata})  # pyright: ignore[reportArgumentType]


def result(call_id: str, content: str = "ok") -> Message:
    return Message("tool", content, metadata={"tool_call_id": call_id})


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def use(call_id: str) -> JsonObject:
    return {"type": "tool_use", "id": call_id, "name": f"do_{call_id}", "input": {}}


def answer(call_id: str, content: str = "ok", **more: bool) -> JsonObject:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


@pytest.mark.parametrize("arguments", ["find cats", "[1]", "42", '{"a":', '{"a": NaN}', 7, ["x"], "{" * 100_000])
def test_arguments_that_are_no_object_become_one_and_the_raw_text_is_in_the_warning(arguments: object) -> None:
    log = WarningLog()
    calls = [{"id": "c", "function": {"name": "n", "arguments": arguments}}]
    message = Message("assistant", "", metadata={"tool_calls": calls})  # pyright: ignore[reportArgumentType]
    payload: Any = convert([message], "anthropic", warn=log)
    assert payload["messages"][0]["content"][0]["input"] == {}
    assert str(arguments)[:4] in log.messages[0]


def test_a_call_that_is_no_object_is_left_out_with_a_warning() -> None:
    log = WarningLog()
    message = Message("assistant", "hi", metadata={"tool_calls": ["look", {"id": "c"}]})
    payload = convert([message], "anthropic", warn=log)
    assert payload["messages"] == [
        {"role": "assistant", "content": [text("hi"), {"type": "tool_use", "id": "c", "name": "", "input": {}}]}
    ]
    assert len(log.messages) == 1


def test_neighbours_are_merged_and_empty_text_is_dropped() -> None:
    payload, warnings = strict(
        Message("system", "S"),
        Message("user", "1"),
        Message("user", " \n"),
        Message("developer", "2"),
        Message("assistant", "3"),
        Message("assistant", ""),
        Message("assistant", "4 \n"),
    )
    assert payload == {
        "system": "S",
        "messages": [
            {"role": "user", "content": [text("1"), text("2")]},
            {"role": "assistant", "content": [text("3"), text("4")]},
        ],
    }
    assert warnings == ()


def test_a_conversation_that_begins_with_the_model_gets_a_placeholder() -> None:
    payload, _ = strict(Message("assistant", "Hello"), Message("user", "Hi"))
    assert payload["messages"] == [
        {"role": "user", "content": [text("[Start]")]},
        {"role": "assistant", "content": [text("Hello")]},
        {"role": "user", "content": [text("Hi")]},
    ]
    payload, _ = strict(Message("system", "S"), placeholder="Go on.")
    assert payload["messages"] == [{"role": "user", "content": [text("Go on.")]}]


def test_all_results_of_a_turn_stand_first_in_one_user_message() -> None:
    payload, warnings = strict(
        Message("user", "go"), call("a", "b"), result("b"), Message("user", "meanwhile"), result("a")
    )
    assert payload["messages"] == [
        {"role": "user", "content": [text("go")]},
        {"role": "assistant", "content": [use("a"), use("b")]},
        {"role": "user", "content": [answer("a"), answer("b"), text("meanwhile")]},
    ]
    assert warnings == ()


def test_a_result_that_comes_late_goes_back_to_its_call() -> None:
    payload, _ = strict(Message("user", "go"), call("a"), Message("assistant", "…"), Message("user", "?"), result("a"))
    assert payload["messages"] == [
        {"role": "user", "content": [text("go")]},
        {"role": "assistant", "content": [use("a")]},
        {"role": "user", "content": [answer("a")]},
        {"role": "assistant", "content": [text("…")]},
        {"role": "user", "content": [text("?")]},
    ]


def test_results_without_a_call_are_text_and_calls_without_a_result_say_so() -> None:
    payload, warnings = strict(result("gone", "42"), call("a"), Message("user", "well?"))
    assert payload["messages"] == [
        {"role": "user", "content": [text("42")]},
        {"role": "assistant", "content": [use("a")]},
        {"role": "user", "content": [answer("a", NO_RESULT, is_error=True), text("well?")]},
    ]
    assert len(warnings) == 2


def test_call_ids_that_repeat_are_answered_in_order() -> None:
    payload, warnings = strict(
        Message("user", "go"), call("a"), result("a", "1"), call("a", "a"), result("a", "2"), result("a", "3")
    )
    assert payload["messages"][2:] == [
        {"role": "user", "content": [answer("a", "1")]},
        {"role": "assistant", "content": [use("a"), use("a")]},
        {"role": "user", "content": [answer("a", "2"), answer("a", "3")]},
    ]
    assert warnings == ()


@pytest.mark.parametrize(
    ("content", "is_error"),
    [
        ('{"ok": false, "errors": []}', True),
        ('{"ok": true}', False),
        ('{"ok": 0}', False),
        ("failed", False),
        ("[]", False),
    ],
)
def test_a_failed_envelope_is_an_error(content: str, is_error: bool) -> None:
    payload, _ = strict(Message("user", "go"), call("a"), result("a", content))
    block = payload["messages"][2]["content"][0]
    assert block.get("is_error", False) is is_error


def test_cache_hints_go_to_the_last_block() -> None:
    hint = {"type": "ephemeral"}
    cached = {"cache_control": hint}
    payload, _ = strict(
        Message("system", "A", metadata=cached), Message("system", "B"), Message("user", "U", metadata=cached)
    )
    assert payload == {
        "system": [{**text("A"), "cache_control": hint}, text("B")],
        "messages": [{"role": "user", "content": [{**text("U"), "cache_control": hint}]}],
    }


def test_signed_thinking_comes_first_and_unsigned_thinking_is_not_sent() -> None:
    payload, _ = strict(Message("user", "go"), call("a", content="so", thinking="hm", signature="sig"), result("a"))
    assert payload["messages"][1] == {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "sig"}, text("so"), use("a")],
    }
    blocks = [{"type": "redacted_thinking", "data": "x"}]
    payload, _ = strict(Message("user", "go"), Message("assistant", "so", metadata={"thinking": blocks}))
    assert payload["messages"][1]["content"] == [*blocks, text("so")]
    payload, _ = strict(Message("user", "go"), Message("assistant", "so", metadata={"thinking": "hm"}))
    assert payload["messages"][1]["content"] == [text("so")]


def test_attachments_become_image_and_document_blocks() -> None:
    message = Message(
        "user",
        "look",
        attachments=[
            Attachment.image(url="https://e.x/i.png").to_dict(),
            Attachment.image(data=b"png", media_type="image/png").to_dict(),
            Attachment.file(data=b"%PDF", name="a.pdf").to_dict(),
            Attachment.file(data=b"plain", media_type="text/plain").to_dict(),
            {"type": "file", "file_id": "f1"},
            Attachment.audio(data=b"x").to_dict(),
        ],
    )
    payload, warnings = strict(message)
    assert payload["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "url", "url": "https://e.x/i.png"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
                    "title": "a.pdf",
                },
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
                {"type": "document", "source": {"type": "file", "file_id": "f1"}},
                text("look"),
            ],
        }
    ]
    assert len(warnings) == 1
    plain = convert([message], "anthropic", attachments=False, strict_alternation=True, warn=WarningLog())
    assert plain["messages"] == [{"role": "user", "content": [text("look")]}]


def test_a_tool_may_show_an_image_but_the_assistant_may_not() -> None:
    image = Attachment.image(url="u").to_dict()
    payload, warnings = strict(
        Message("user", "go"),
        call("a").replace(attachments=[image]),
        result("a", "seen").replace(attachments=[image]),
    )
    block = {"type": "image", "source": {"type": "url", "url": "u"}}
    assert payload["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": [block, text("seen")]}
    ]
    assert len(warnings) == 1


def test_calls_of_custom_tools_have_their_text_as_input() -> None:
    custom = {"id": "a", "type": "custom", "custom": {"name": "code", "input": "print(1)"}}
    payload, warnings = strict(
        Message("user", "go"), Message("assistant", "", metadata={"tool_calls": [custom]}), result("a", "1")
    )
    used = payload["messages"][1]["content"]
    assert used == [{"type": "tool_use", "id": "a", "name": "code", "input": {"input": "print(1)"}}]
    assert not warnings


def test_tools_are_translated_from_openais_shape() -> None:
    parameters = {"type": "object", "properties": {"q": {"type": "string"}}}
    tools = [
        {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": parameters}},
        {"type": "function", "function": {"name": "wait"}, "cache_control": {"type": "ephemeral"}},
        {"type": "web_search_20250305", "name": "web_search"},
    ]
    payload, _ = strict(Message("user", "go"), tools=tools, tool_choice="required", parallel_tool_calls=False)
    assert payload["tools"] == [
        {"name": "look", "description": "Look.", "input_schema": parameters},
        {"name": "wait", "input_schema": {"type": "object", "properties": {}}, "cache_control": {"type": "ephemeral"}},
        {"type": "web_search_20250305", "name": "web_search"},
    ]
    assert payload["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert anthropic_tools([]) == []
    assert "tools" not in strict(Message("user", "go"), tools=[], tool_choice="auto")[0]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ({"type": "function", "function": {"name": "look"}}, {"type": "tool", "name": "look"}),
        ({"type": "tool", "name": "look"}, {"type": "tool", "name": "look"}),
    ],
)
def test_tool_choice_is_translated(choice: object, expected: object) -> None:
    assert anthropic_tool_choice(choice) == expected


def test_parallel_calls_are_only_forbidden_where_calls_are_allowed() -> None:
    assert anthropic_tool_choice(None, parallel_tool_calls=False) == {
        "type": "auto",
        "disable_parallel_tool_use": True,
    }
    assert anthropic_tool_choice("none", parallel_tool_calls=False) == {"type": "none"}
    assert anthropic_tool_choice(None, parallel_tool_calls=True) is None
