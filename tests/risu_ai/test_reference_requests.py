"""Requests beyond the vectors: pictures, helper requests, formats that were only read, what users add."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.budget import get_tokenizer
from tavernkit.budget._limits import MAX_PART_CHARACTERS
from tavernkit.dialects._attachments import Attachment
from tavernkit.errors import WarningLog
from tavernkit.risu_ai import Builder, RequestRules, RisuRequest, Settings, reference_request
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._requests.messages import around_tool_calls, without_tool_calls
from tavernkit.risu_ai._requests.parameters import schema_of
from tests.risu_ai.building.scene import inputs

PICTURE = Attachment.image(url="data:image/png;base64,AAAA").to_dict()


def said(role: str, content: str, **more: Any) -> PromptMessage:
    return PromptMessage(role=role, content=content, **more)


def request(
    model: str, *messages: PromptMessage, warn: Any = None, mode: str = "model", **database: Any
) -> RisuRequest:
    settings = Settings.from_json({"aiModel": model, **database})
    rules = RequestRules.of(settings.preset, settings)
    given = messages or (said("system", "S"), said("user", "u"))
    options: dict[str, Any] = {"warn": warn or WarningLog(), "mode": mode, "keys": {"openai": "K"}}
    return reference_request(given, rules, max_tokens=100, **options)


def body(model: str, *messages: PromptMessage, **database: Any) -> dict[str, Any]:
    return request(model, *messages, **database).body


def test_wire_names_parameters_and_keys_come_from_the_tables():
    found = request("gpt4o", temperature=50, top_p=-1000)
    assert found.url == "https://api.openai.com/v1/chat/completions"
    assert found.headers["Authorization"] == "Bearer K"
    assert found.body["model"] == "gpt-4o"
    assert found.body["temperature"] == 0.5
    assert "top_p" not in found.body
    assert "K" not in repr(found)


OPENAI_PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}
ANTHROPIC_PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


@pytest.mark.parametrize(
    ("model", "picture"), [("gpt4o", OPENAI_PICTURE), ("claude-3-5-sonnet-20241022", ANTHROPIC_PICTURE)]
)
def test_pictures_stand_before_the_text(model: str, picture: object):
    message = said("user", "u", multimodals=(PICTURE,))
    assert body(model, message)["messages"][-1]["content"] == [picture, {"type": "text", "text": "u"}]


def test_pictures_for_google_are_parts_and_the_quality_is_the_users():
    found = body("gemini-2.5-pro", said("user", "u", multimodals=(PICTURE,)), gptVisionQuality="high")
    assert found["contents"][0]["parts"][1] == {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    assert found["generation_config"]["mediaResolution"] == "MEDIA_RESOLUTION_MEDIUM"
    detail = body("gpt4o", said("user", "u", multimodals=(PICTURE,)), gptVisionQuality="high")
    assert detail["messages"][0]["content"][0]["image_url"]["detail"] == "high"


def test_helper_requests_have_parameters_of_their_own():
    own = {"seperateParametersEnabled": True, "seperateParameters": {"memory": {"temperature": 20}}}
    memory = request("gpt4o", mode="memory", **own).body
    assert memory["temperature"] == 0.2
    assert "top_p" not in memory
    assert request("gpt4o", mode="memory").body["temperature"] == 0.8


@pytest.mark.parametrize(
    ("stored", "thinking"),
    [({}, {}), ({"thinkingTokens": -1000}, None), ({"thinkingTokens": 0}, None)],
)
def test_thinking_that_is_switched_off_leaves_no_trace(stored: dict[str, int], thinking: dict[str, int] | None):
    found = body("claude-sonnet-4-20250514", **stored)
    assert found.get("thinking") == thinking


def test_bedrock_has_no_model_in_the_body_and_no_sampling_while_thinking():
    model = "anthropic.claude-sonnet-4-5-20250929-v1:0"
    found = body(model, thinkingTokens=2000)
    assert found["anthropic_version"] == "bedrock-2023-05-31"
    assert found["temperature"] == 1
    assert not {"model", "stream", "top_k", "top_p"} & set(found)
    assert body(model, thinkingTokens=None).keys() & {"thinking", "top_p"} == {"top_p"}


def test_a_first_system_text_is_googles_instruction_where_the_model_takes_one():
    found = body("gemini-2.0-flash", said("system", "S"), said("user", "u"), said("assistant", "a"))
    assert found["systemInstruction"] == {"parts": [{"text": "S"}]}
    assert [each["role"] for each in found["contents"]] == ["user", "model"]


def test_system_texts_behind_the_user_are_added_to_what_they_follow_for_google_proxies():
    messages = [said("user", "u"), said("system", "A"), said("assistant", "a"), said("system", "B")]
    found = request(
        "reverse_proxy", *messages, customAPIFormat=5, forceReplaceUrl="https://p", customProxyRequestModel="m"
    )
    assert [each["parts"][0]["text"] for each in found.body["contents"]] == ["u\nsystem:A", "a", "system:B"]  # type: ignore[index, call-overload, union-attr]
    assert found.url == "https://p/models/m:generateContent?key=undefined"


@pytest.mark.parametrize(
    ("messages", "message", "history"),
    [
        ([said("system", "S"), said("user", "u")], "u", 0),
        ([said("user", "u"), said("assistant", "a")], "\nuCHATBOT: \na", 0),
        ([said("user", "x"), said("user", "u"), said("assistant", "a")], "\nuCHATBOT: \na", 1),
    ],
)
def test_cohere_gets_the_last_words_of_the_user_apart(messages: list[PromptMessage], message: str, history: int):
    found = request("reverse_proxy", *messages, customAPIFormat=8).body
    # Only a system text before: it takes the place of the message.
    assert found["message"] == ("system: S" if messages[0].role == "system" else message)
    assert len(found["chat_history"]) == history  # type: ignore[arg-type]


def test_an_unfinished_reply_is_marked_for_the_responses_api():
    found = body("gpt-5-response-api", said("user", "u"), said("assistant", "a"))
    assert [item.get("status") for item in found["input"]] == [None, "incomplete"]


@pytest.mark.parametrize(
    ("url", "completed"),
    [
        ("https://p", "https://p/v1/chat/completions"),
        ("https://p/v1", "https://p/v1/chat/completions"),
        ("https://p/v1/", "https://p/v1/chat/completions"),
        ("https://p/x/completions/", "https://p/x/completions/"),
    ],
)
def test_the_address_of_a_proxy_is_completed_unless_that_is_off(url: str, completed: str):
    assert request("reverse_proxy", forceReplaceUrl=url).url == completed
    assert request("reverse_proxy", forceReplaceUrl=url, autofillRequestUrl=False).url == url


def test_what_users_add_is_set_removed_and_nested():
    pairs = [
        *(["a.b", "1.5"], ["a.c", "true"], ["quoted", "'5'"], ["none", "null"], ["text", "x"], ["bad", "json::{"]),
        ["not_json", "json::[NaN]"],
        *(
            ["list", "json::[1]"],
            ["max_tokens", "{{none}}"],
            ["header::X-A", "b"],
            ["header::Authorization", "{{none}}"],
        ),
        *(["", "x"], ["y", ""]),
    ]
    found = request("reverse_proxy", additionalParams=pairs)
    assert found.headers == {"X-A": "b"}
    added = {key: found.body[key] for key in ("a", "quoted", "none", "text", "list")}
    assert added == {"a": {"b": 1.5, "c": True}, "quoted": "5", "none": None, "text": "x", "list": [1]}
    assert not {"max_tokens", "bad", "not_json", "y", ""} & set(found.body)


@pytest.mark.parametrize(
    ("text", "value"), [("0x10", 16), ("1e3", 1000), (" 2 ", 2), ("nan", "nan"), ("1_000", "1_000"), (" ", " ")]
)
def test_numbers_that_users_add_are_javascripts(text: str, value: object):
    assert request("reverse_proxy", additionalParams=[["a", text]]).body["a"] == value


def test_a_model_of_the_users_own_has_its_format_and_lines_of_parameters():
    own = {"id": "xcustom:::1", "internalId": "wire", "format": 2, "flags": [7], "params": "top_k=5\nnote=hello\n=x"}
    found = body("xcustom:::1", customModels=[own])
    assert (found["model"], found["system"], found["note"], found["top_k"]) == ("wire", "S", "hello", 5)


def test_biases_are_expanded_and_those_of_the_character_follow():
    character = {"name": "Mira", "bias": [["[[7]]", 2]]}
    settings = Settings.from_json({"aiModel": "gpt4o", "bias": [["{{char}}", 3], ["\\n", -5]]})
    log = WarningLog()
    plan = Builder(**inputs(character=character, settings=settings, warn=log)).build(message="Hi")
    assert plan.rules.bias == (("Mira", 3), ("\n", -5), ("[[7]]", 2))
    assert plan.to_request(warn=log)["logit_bias"] == {"7": 2, "198": -5, "44": 3, "2633": 3}
    assert not any("bias" in message for message in log.messages)


def test_a_very_long_bias_is_sent_too():
    settings = Settings.from_json({"aiModel": "gpt4o", "bias": [[" ab" * (MAX_PART_CHARACTERS // 3 + 1), 3]]})
    plan = Builder(**inputs(settings=settings, warn=WarningLog())).build(message="Hi")
    (token,) = get_tokenizer("o200k_base").encode(" ab")
    assert plan.to_request(warn=WarningLog())["logit_bias"] == {str(token): 3}


def test_a_bias_may_be_a_text_if_tokens_are_known():
    settings = Settings.from_json({"aiModel": "gpt4o", "bias": [["ab", 3], ["[[7]]", 1], ["x", -101], ["y", "z"]]})
    rules = RequestRules.of(settings.preset, settings)
    log = WarningLog()
    known = reference_request(
        [said("user", "u")], rules, max_tokens=1, encode=lambda text: [ord(each) for each in text], warn=log
    )
    assert known.body["logit_bias"] == {"7": 1, "97": 3, "98": 3}
    assert len(log.messages) == 2
    unknown = reference_request([said("user", "u")], rules, max_tokens=1, warn=log)
    assert unknown.body["logit_bias"] == {"7": 1}
    assert "its tokens are not known" in log.messages[2]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("interface A { name: string }", []),
        ("interface A {\n name: string;\n x: Other\n n: number[][]\n}", ["name", "n"]),
    ],
)
def test_an_interface_becomes_a_schema(text: str, keys: list[str]):
    schema = schema_of(text)
    assert schema["required"] == keys
    assert list(schema["properties"]) == keys  # type: ignore[arg-type]


def test_marks_of_tool_calls_are_cut_out():
    text = "a <tool_call>x</tool_call> b <tool_call>y"
    assert without_tool_calls(text) == "a  b <tool_call>y"
    assert around_tool_calls(text, {}) == ["a", "b <tool_call>y"]
    assert around_tool_calls(" plain ", {}) == [" plain "]
    assert without_tool_calls("<tool_call>" * 50_000) == "<tool_call>" * 50_000


def test_a_format_that_was_never_recorded_is_written_as_openais_with_a_warning():
    log = WarningLog()
    found = request("novelai_kayra", warn=log)
    assert "messages" in found.body
    assert (found.url, dict(found.headers)) == ("", {})  # no key goes to where it does not belong
    assert "not known here" in log.messages[0]


def test_a_message_that_is_shown_twice_stays_one_when_roles_are_joined():
    twice = said("user", "A")
    found = body("gemini-2.5-pro", twice, said("system", "S"), twice)
    assert found["contents"][0]["parts"][0]["text"] == "A\nsystem: S\nA\nsystem: S"


def test_a_send_hands_over_the_request_of_the_provider():
    seen: list[RisuRequest] = []

    def model(asked: Any) -> str:
        seen.append(asked.reference_request(keys={"openai": "K"}))
        return "Ok."

    Builder().send(model, **inputs(message="Hello"))
    assert seen[0].body["model"] == "gpt-4o"
    assert seen[0].headers["Authorization"] == "Bearer K"


CALL = {"id": "c1", "type": "function", "function": {"name": "dice", "arguments": '{"sides": 6}'}}
CALLS: dict[str, Any] = {
    "m1": {"call": CALL, "result": "four"},
    "m2": {"call": {**CALL, "id": "c2", "function": {"name": "dice", "arguments": "{"}}, "result": None},
    "m3": {"call": 5},
}


def with_calls(model: str, *messages: PromptMessage) -> dict[str, Any]:
    settings = Settings.from_json({"aiModel": model})
    rules = RequestRules.of(settings.preset, settings, tool_calls=CALLS)
    return reference_request(messages, rules, max_tokens=100, keys={}, warn=WarningLog()).body


def test_anthropic_gets_known_calls_in_front_of_the_text():
    text = "A <tool_call>m1</tool_call>six <tool_call>gone</tool_call><tool_call>m3</tool_call>!"
    found = with_calls("claude-3-5-sonnet-20241022", said("user", "Roll."), said("assistant", text))
    assert found["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Roll."}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "dice", "input": {"sides": 6}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "four"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "A six !"}]},
    ]


def test_anthropic_gets_no_empty_text_behind_calls():
    found = with_calls("claude-3-5-sonnet-20241022", said("user", "u"), said("assistant", "<tool_call>m2</tool_call>"))
    assert found["messages"][1:] == [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c2", "name": "dice", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c2", "content": ""}]},
    ]


def test_google_gets_known_calls_between_the_texts():
    text = "Let me roll. <tool_call>m1</tool_call> A four. <tool_call>gone</tool_call>"
    found = with_calls("gemini-1.5-pro-002", said("user", "Roll."), said("assistant", text), said("user", "Again."))
    assert found["contents"] == [
        {"role": "user", "parts": [{"text": "Roll."}]},
        {
            "role": "model",
            "parts": [{"text": "Let me roll."}, {"functionCall": {"name": "dice", "args": {"sides": 6}}}],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "dice", "response": {"result": "four"}}}]},
        {"role": "model", "parts": [{"text": "A four."}]},
        {"role": "user", "parts": [{"text": "Again."}]},
    ]


def test_system_texts_do_not_go_into_a_tools_result_for_google():
    messages = (said("user", "u"), said("assistant", "<tool_call>m1</tool_call>"), said("system", "S"))
    found = with_calls("gemini-1.5-pro-002", *messages)
    last = found["contents"][-1]
    assert last["role"] == "user"
    assert "text" not in last["parts"][0]
