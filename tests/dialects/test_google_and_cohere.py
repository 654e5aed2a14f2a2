from __future__ import annotations

import pytest

from tavernkit.dialects import Attachment, convert, google_tool_config, google_tools
from tavernkit.errors import WarningLog
from tavernkit.prompt import Message


def calls(*names: str, signature: str | None = None) -> Message:
    made = [{"id": "c", "function": {"name": name, "arguments": '{"q":1}'}} for name in names]
    if signature:
        made[0]["signature"] = signature
    return Message("assistant", "", metadata={"tool_calls": made})  # pyright: ignore[reportArgumentType]


def result(content: str) -> Message:
    return Message("tool", content, metadata={"tool_call_id": "c"})


CONVERSATION = [
    Message("system", "S"),
    Message("system", ""),
    Message("assistant", "Hello"),
    Message("user", "go"),
    Message("user", ""),
    calls("look", "wait", signature="sig"),
    result('{"ok": true}'),
    result("done"),
]


def test_google_gets_function_parts_in_turns_that_alternate() -> None:
    log = WarningLog()
    assert convert(CONVERSATION, "google", strict_alternation=True, placeholder="Go.", warn=log) == {
        "system_instruction": {"parts": [{"text": "S"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Go."}]},
            {"role": "model", "parts": [{"text": "Hello"}]},
            {"role": "user", "parts": [{"text": "go"}]},
            {
                "role": "model",
                "parts": [
                    {"function_call": {"name": "look", "args": {"q": 1}}, "thought_signature": "sig"},
                    {"function_call": {"name": "wait", "args": {"q": 1}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"function_response": {"name": "look", "response": {"ok": True}}},
                    {"function_response": {"name": "wait", "response": {"result": "done"}}},
                ],
            },
        ],
    }
    assert log.messages == ()


def test_google_without_anything_still_has_a_user_turn() -> None:
    assert convert([], "google", strict_alternation=True) == {
        "contents": [{"role": "user", "parts": [{"text": "[Start]"}]}]
    }
    assert convert([], "google") == {"contents": []}


def test_google_takes_attachments_as_data() -> None:
    log = WarningLog()
    message = Message(
        "user",
        "look",
        attachments=[
            Attachment.image(data=b"png", media_type="image/png").to_dict(),
            Attachment.make("video", url="https://e.x/v.mp4").to_dict(),
            {"x": 1},
        ],
    )
    assert convert([message], "google", attachments=True, warn=log)["contents"] == [
        {
            "role": "user",
            "parts": [
                {"inline_data": {"mime_type": "image/png", "data": "cG5n"}},
                {"file_data": {"mime_type": "video/mp4", "file_uri": "https://e.x/v.mp4"}},
                {"text": "look"},
            ],
        }
    ]
    assert len(log.messages) == 1


def test_google_tools_are_one_list_of_declarations() -> None:
    schema = {"type": "object", "properties": {}}
    tools = [
        {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": schema}},
        {"type": "function", "function": {"name": "wait"}},
        {"google_search": {}},
    ]
    payload = convert([Message("user", "go")], "google", tools=tools, tool_choice="required")
    assert payload["tools"] == [
        {
            "function_declarations": [
                {"name": "look", "description": "Look.", "parameters_json_schema": schema},
                {"name": "wait"},
            ]
        },
        {"google_search": {}},
    ]
    assert payload["tool_config"] == {"function_calling_config": {"mode": "ANY"}}
    assert google_tools([{"google_search": {}}]) == [{"google_search": {}}]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        (None, None),
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ({"type": "function", "function": {"name": "look"}}, {"mode": "ANY", "allowed_function_names": ["look"]}),
    ],
)
def test_google_tool_choice_is_translated(choice: object, config: object) -> None:
    expected = None if config is None else {"function_calling_config": config}
    assert google_tool_config(choice) == expected


def test_cohere_keeps_tools_and_the_system_when_strict() -> None:
    log = WarningLog()
    payload = convert(CONVERSATION, "cohere", strict_alternation=True, warn=log)
    look = {"name": "look", "parameters": {"q": 1}}
    wait = {"name": "wait", "parameters": {"q": 1}}
    assert payload == {
        "chat_history": [
            {"role": "SYSTEM", "message": "S"},
            {"role": "SYSTEM", "message": ""},
            {"role": "CHATBOT", "message": "Hello"},
            {"role": "USER", "message": "go"},
            {"role": "USER", "message": ""},
            {"role": "CHATBOT", "message": "", "tool_calls": [look, wait]},
            {"role": "TOOL", "tool_results": [{"call": look, "outputs": [{"ok": True}]}]},
            {"role": "TOOL", "tool_results": [{"call": wait, "outputs": [{"result": "done"}]}]},
        ]
    }
    assert log.messages == ()
