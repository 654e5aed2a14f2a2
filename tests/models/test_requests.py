"""What a request is, and what goes over the wire."""

from __future__ import annotations

from typing import Any

import pytest

import tavernkit as tk
from tavernkit._values import thaw
from tavernkit.errors import ConfigError
from tavernkit.models import ServerFields, WireRequest
from tavernkit.models._bodies import request_body
from tests.models.native_server import Wire, sent_json, serve_wire
from tests.models.support import ask, loose

TOOL: dict[str, Any] = {"type": "function", "function": {"name": "roll", "parameters": {"type": "object"}}}


def test_a_request_has_messages_or_a_prompt() -> None:
    with pytest.raises(ConfigError):
        tk.Request()
    with pytest.raises(ConfigError):
        tk.Request(messages=(), prompt="x")


def test_options_with_a_field_of_their_own_move_there() -> None:
    request = ask(options={"model": "m", "stop": "END", "tools": [TOOL], "temperature": 1, "stream": True})
    assert (request.model, request.stop, request.options) == ("m", ("END",), {"temperature": 1})
    assert thaw(request.tools) == [TOOL]
    assert ask(stop=("A",), options={"stop": ["B"]}).stop == ("A",)


def test_a_body_is_read_and_written() -> None:
    body: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stop": ["END"], "vendor": {"a": 1}}
    assert tk.Request.from_body(body).body() == body
    text: Any = {"model": "m", "prompt": "Once", "max_tokens": 5}
    assert tk.Request.from_body(text, dialect="text").body() == text


def test_messages_cannot_be_changed_from_outside() -> None:
    message: Any = {"role": "user", "content": "hi"}
    request = ask(messages=[message])
    message["content"] = "changed"
    assert loose(request.body())["messages"] == [{"role": "user", "content": "hi"}]


def test_messages_of_a_plan_are_written_with_tools_and_attachments() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "roll", "arguments": "{}"}}
    messages = (
        tk.Message("user", "look", attachments=[{"type": "image", "url": "https://x.example/a.png"}]),
        tk.Message("assistant", "", metadata={"tool_calls": [call]}),
        tk.Message("tool", "6", metadata={"tool_call_id": "c"}),
    )
    body = loose(ask(model="m", messages=messages, tools=(TOOL,), tool_choice="auto").body(stream=True))
    assert [part["type"] for part in body["messages"][0]["content"]] == ["text", "image_url"]
    assert body["messages"][1]["tool_calls"] == [call]
    assert body["messages"][2]["tool_call_id"] == "c"
    assert (body["tools"], body["tool_choice"], body["stream"]) == ([TOOL], "auto", True)
    assert body["stream_options"] == {"include_usage": True}


def test_stream_options_can_be_left_out() -> None:
    assert "stream_options" not in ask(options={"stream_options": None}).body(stream=True)


OPTIONS = {
    "temperature": 0.5,
    "top_p": 0.9,
    "max_tokens": 100,
    "seed": 1,
    "frequency_penalty": 0.1,
    "reasoning_effort": "low",
}


@pytest.mark.parametrize(
    ("model", "expected", "named"),
    [
        ("gpt-4o", OPTIONS, ""),
        ("my-own-model", OPTIONS, ""),
        ("openai/o3", OPTIONS, ""),
        ("o3-mini", {"max_completion_tokens": 100, "seed": 1, "reasoning_effort": "low"}, "stop, temperature, top_p"),
        ("gpt-5-mini", {"max_completion_tokens": 100, "seed": 1, "reasoning_effort": "low"}, "stop, temperature"),
        (
            "gpt-5.1",
            {"temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 100, "seed": 1, "reasoning_effort": "low"},
            "frequency_penalty, stop",
        ),
        ("gpt-5.5", {"max_completion_tokens": 100, "seed": 1, "reasoning_effort": "low"}, "stop, temperature, top_p"),
        (
            "gpt-6-astra",
            {"max_completion_tokens": 100, "seed": 1, "frequency_penalty": 0.1, "reasoning_effort": "low"},
            "temperature, top_p",
        ),
    ],
)
def test_the_model_that_is_asked_decides_which_options_are_sent(
    model: str, expected: dict[str, Any], named: str
) -> None:
    warnings: list[str] = []
    body = ask(model=model, options=OPTIONS, stop=("END",)).body(warn=warnings.append)
    sent = {name: value for name, value in body.items() if name not in ("model", "messages", "stop")}
    assert sent == expected
    assert ("stop" in body) == ("stop" not in named)
    assert bool(warnings) == bool(named)
    assert all(model in warning and named in warning for warning in warnings)


def test_openai_refuses_samplers_of_open_models() -> None:
    warnings: list[str] = []
    samplers = {"top_k": 40, "min_p": 0.1, "temperature": 1}
    assert "top_k" not in ask(model="gpt-4o", options=samplers).body(warn=warnings.append)
    assert warnings == ["gpt-4o does not take min_p, top_k: left out of the request"]
    assert ask(model="my-own-model", options=samplers).body()["min_p"] == 0.1


def test_a_server_may_say_what_it_takes() -> None:
    warnings: list[str] = []
    fields = ServerFields(
        taken={"max_tokens", "temperature", "min_p", "stop"}, always={"chat_template_kwargs": {"thinking": False}}
    )
    options = {"max_completion_tokens": 9, "temperature": 0.5, "min_p": 0.1, "top_p": 0.9, "dry_base": 2}
    request = ask(model="o3", options=options, stop=("a", "b", "c", "d", "e"))
    body = request_body(request, warn=warnings.append, fields=fields)
    del body["messages"]
    assert body == {
        "model": "o3",
        "max_tokens": 9,
        "temperature": 0.5,
        "min_p": 0.1,
        "stop": ["a", "b", "c", "d", "e"],
        "chat_template_kwargs": {"thinking": False},
    }
    assert warnings == ["the server does not take dry_base, top_p: left out of the request"]


def test_a_server_without_stop_strings_gets_none() -> None:
    warnings: list[str] = []
    body = request_body(ask(stop=("END",)), warn=warnings.append, fields=ServerFields(taken=set()))
    assert "stop" not in body
    assert "stop" in warnings[0]


async def test_a_model_sends_what_its_server_takes() -> None:
    fields = ServerFields(taken={"n_predict"}, renamed={"max_tokens": "n_predict"}, always={"cache_prompt": True})
    async with serve_wire(Wire({"choices": [{"message": {"content": "hi"}}]})) as server:
        model = tk.model("openai:m", base_url=server.url, fields=fields)
        async with model:
            await model.send(ask(options={"max_tokens": 7}))
    sent = sent_json(server)
    assert (sent["n_predict"], sent["cache_prompt"]) == (7, True)


def test_too_many_stop_strings_are_named() -> None:
    warnings: list[str] = []
    body = ask(model="gpt-4o", stop=("a", "b", "c", "d", "e")).body(warn=warnings.append)
    assert body["stop"] == ["a", "b", "c", "d"]
    assert len(warnings) == 1
    assert "'e'" in warnings[0]


def test_anthropic_gets_its_own_names() -> None:
    warnings: list[str] = []
    request = ask(model="claude-sonnet-4-5", dialect="anthropic", options=OPTIONS, stop=("END", "\n"))
    body = request.body(warn=warnings.append)
    assert body == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "temperature": 0.5,
        "stop_sequences": ["END"],
    }
    assert sorted(warnings) == [
        "Anthropic does not take frequency_penalty, reasoning_effort, seed: left out of the request",
        "claude-sonnet-4-5 does not take top_p: left out of the request",
    ]


@pytest.mark.parametrize(
    ("model", "samplers"),
    [
        ("claude-3-7-sonnet-20250219", {"temperature", "top_p", "top_k"}),
        ("claude-opus-4-20250514", {"temperature", "top_p", "top_k"}),
        ("claude-opus-4-1-20250805", {"temperature", "top_k"}),
        ("claude-opus-4-6", {"temperature", "top_k"}),
        ("claude-sonnet-4-6", {"temperature", "top_k"}),
        ("claude-opus-4-7", set[str]()),
        ("claude-opus-4-8-20260401", set[str]()),
        ("claude-sonnet-5", set[str]()),
        ("claude-fable-5-1", set[str]()),
    ],
)
def test_a_claude_model_gets_the_samplers_that_it_accepts(model: str, samplers: set[str]) -> None:
    warnings: list[str] = []
    options = {"temperature": 0.5, "top_p": 0.9, "top_k": 40}
    body = ask(model=model, dialect="anthropic", options=options).body(warn=warnings.append)
    assert body.keys() & options.keys() == samplers
    assert len(warnings) == (len(samplers) < len(options))


@pytest.mark.parametrize(
    ("dialect", "model", "role"),
    [
        ("anthropic", "claude-sonnet-4-5", "assistant"),
        ("anthropic", "claude-sonnet-4-6", "user"),
        ("anthropic", "claude-opus-4-8", "user"),
        ("anthropic", "claude-opus-5", "user"),
        ("google", "gemini-3-pro", "model"),
        ("google", "models/gemini-3.6-flash-preview", "user"),
        ("google", "gemini-3.5-flash-lite", "user"),
    ],
)
def test_a_model_that_does_not_continue_replies_gets_them_as_the_users(dialect: str, model: str, role: str) -> None:
    warnings: list[str] = []
    messages = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Once upon"}]
    body: Any = ask(messages=messages, model=model, dialect=dialect).body(warn=warnings.append)
    last = body["messages" if dialect == "anthropic" else "contents"][-1]
    assert (last["role"], "Once upon" in str(last)) == (role, True)
    assert len(warnings) == (role == "user")


@pytest.mark.parametrize(
    ("kind", "samplers"),
    [("enabled", set[str]()), ("adaptive", {"temperature", "top_p"}), ("disabled", {"temperature", "top_p", "top_k"})],
)
def test_claude_gets_no_samplers_while_it_thinks(kind: str, samplers: set[str]) -> None:
    options = {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "thinking": {"type": kind}}
    warnings: list[str] = []
    body = ask(model="claude-3-7-sonnet", dialect="anthropic", options=options).body(warn=warnings.append)
    assert body["thinking"] == {"type": kind}
    assert body.keys() & {"temperature", "top_p", "top_k"} == samplers
    assert len(warnings) == (kind != "disabled")


def test_of_two_samplers_that_exclude_each_other_the_one_with_an_effect_is_sent() -> None:
    warnings: list[str] = []
    options = {"temperature": 1, "top_p": 0.9}
    body = ask(model="claude-sonnet-4-5", dialect="anthropic", options=options).body(warn=warnings.append)
    assert body["top_p"] == 0.9
    assert "temperature" not in body
    assert warnings == []


def test_cohere_cannot_be_asked_for_one_function() -> None:
    warnings: list[str] = []
    choice = {"type": "function", "function": {"name": "roll"}}
    body = ask(model="m", dialect="cohere_v2", tools=(TOOL,), tool_choice=choice).body(warn=warnings.append)
    assert "tool_choice" not in body
    assert warnings == ["Cohere does not take a tool_choice that names a function: left out of the request"]


def test_google_gets_its_own_names() -> None:
    body = loose(
        ask(
            model="gemini",
            dialect="google",
            options={"max_tokens": 5, "top_p": 0.5, "safety_settings": [{"category": "X"}]},
            stop=("END",),
            tools=(TOOL,),
            response_format={"type": "json_object"},
        ).body()
    )
    assert body["generationConfig"] == {
        "maxOutputTokens": 5,
        "topP": 0.5,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
    }
    assert body["safetySettings"] == [{"category": "X"}]
    assert body["tools"] == [{"functionDeclarations": [{"name": "roll", "parametersJsonSchema": {"type": "object"}}]}]
    assert "model" not in body


def test_a_prompt_is_for_text_completion_only() -> None:
    request = tk.Request(model="m", prompt="Once", dialect="text", options={"min_p": 0.1}, stop=("\n",))
    assert request.body() == {"model": "m", "prompt": "Once", "min_p": 0.1, "stop": ["\n"]}
    with pytest.raises(ConfigError, match="text"):
        request.replace(dialect="openai").body()


def test_a_chat_for_text_completion_is_its_contents() -> None:
    request = ask(messages=[tk.Message("system", "Be brief."), tk.Message("user", "hi")], dialect="text")
    assert request.body()["prompt"] == "Be brief.\nhi"


def test_other_dialects_are_sent_with_their_messages() -> None:
    messages = [tk.Message("user", "hi", name="Ann")]
    assert ask(messages=messages, model="m", dialect="mistral").body() == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert "chat_history" in ask(messages=messages, dialect="cohere").body()
    with pytest.raises(ConfigError):
        ask(dialect="opnai").body()


def test_tool_choice_without_tools_is_left_out_and_said() -> None:
    warnings: list[str] = []
    for dialect in ("openai", "anthropic", "google"):
        assert "tool_choice" not in ask(tool_choice="required", dialect=dialect).body(warn=warnings.append)
    assert len(warnings) == 3


def test_the_wire_of_another_program_is_its_body() -> None:
    wire = WireRequest(method="POST", url="/x", headers={}, body={"odd": [1]})
    assert ask(wire=wire).body(stream=True) == {"odd": [1]}


@pytest.mark.parametrize("value", [float("nan"), object(), 10**5000], ids=["NaN", "object", "digits"])
async def test_what_json_cannot_represent_is_a_mistake_of_the_caller(value: object) -> None:
    async with tk.model("openai:m", base_url="http://127.0.0.1:9", max_retries=0) as model:
        with pytest.raises(ConfigError, match="the request cannot be written as JSON"):
            await model.send(ask(options={"temperature": value}))


async def test_half_characters_are_replaced_unless_the_request_must_be_exact() -> None:
    said = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    async with serve_wire(Wire(said), Wire(said)) as server, tk.model("openai:m", base_url=server.url) as model:
        await model.send(ask(messages=({"role": "user", "content": "a\ud83d"},)))
        assert sent_json(server)["messages"][0]["content"] == "a?"
        await model.send(ask(wire=WireRequest(method="POST", url="/x", headers={}, body={"text": "a\ud83d"})))
        assert sent_json(server) == {"text": "a\ud83d"}
