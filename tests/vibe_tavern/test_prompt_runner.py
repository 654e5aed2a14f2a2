"""The request boundary: building, sending, streaming, prompts that are built already."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tavernkit._values import freeze
from tavernkit.errors import ConfigError
from tavernkit.models import Endpoint, OpenAIModel, ProviderError, Request
from tavernkit.prompt._block import Block
from tavernkit.prompt._plan import Plan
from tavernkit.stores._variables import InMemoryVariablesStore
from tavernkit.testing import Answer, Body, Hang, ScriptedModel, answer, calls, serve, streamed, tool_call, usage
from tavernkit.vibe_tavern import PreflightError, PromptRunner
from tests.vibe_tavern.support import config, loose, scripted, sent


def test_options_merge_deeply_over_the_defaults() -> None:
    runner, _ = scripted()
    built = config(llm_options_defaults={"temperature": 1, "provider": {"sort": "price"}})
    request = runner.build_request(
        built, message="hi", llm_options={"provider": {"only": ["a"]}, "model": "evil", "messages": []}
    )
    assert request.request == {
        "model": "test-model",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 1,
        "provider": {"sort": "price", "only": ["a"]},
    }
    assert request.plan is not None
    assert loose(request.plan.llm_options)["provider"]["only"] == ("a",)


@pytest.mark.parametrize("key", ["stream", "stream_options"])
def test_streaming_is_not_an_option(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scripted()[0].build_request(config(), llm_options={key: True})
    assert caught.value.code == "STREAM_IN_LLM_OPTIONS"


def test_preflight_runs_before_anything_is_sent() -> None:
    options = {"tools": [{"type": "function"}], "response_format": {"type": "json_object"}}
    with pytest.raises(PreflightError) as caught:
        scripted()[0].build_request(config(), llm_options=options)
    assert caught.value.code == "TOOLS_WITH_RESPONSE_FORMAT"


def test_dialects_that_give_no_list_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        scripted()[0].build_request(config(), message="x", dialect="cohere")
    assert caught.value.code == "DIALECT_NOT_A_MESSAGE_LIST"
    assert scripted()[0].build_request(config(), message="x", dialect="mistral").messages[0]["content"] == "x"


def test_attachments_are_sent() -> None:
    history = [
        {"role": "user", "content": "look", "attachments": [{"type": "image", "url": "https://x.example/a.png"}]}
    ]
    request = scripted()[0].build_request(config(), history=history)
    parts = loose(request.messages[0]["content"])
    assert parts[1] == {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}


def test_native_dialects_keep_what_their_transport_can_use() -> None:
    history = [
        {
            "role": "assistant",
            "content": "x",
            "metadata": {"thinking": [{"type": "thinking"}], "cache_control": {"type": "ephemeral"}},
            "attachments": [{"type": "image", "url": "https://x.example/a.png"}],
        }
    ]
    request = scripted()[0].build_request(config("anthropic", "claude"), history=history, dialect="anthropic")
    message = loose(request.messages[0])
    assert message["thinking"] == [{"type": "thinking"}]
    assert message["cache_control"] == {"type": "ephemeral"}
    assert message["attachments"][0]["type"] == "image"


async def test_variables_are_written_when_the_answer_is_there() -> None:
    store = InMemoryVariablesStore()
    built = config(context={"system_template": "{% incvar n %}{{ var.n }}"})
    runner = scripted("Hello.")[0]
    request = runner.build_request(built, variables=store)
    assert request.messages[0]["content"] == "1"
    assert store.get("n") is None
    await runner.perform(request)
    assert store.get("n") == 1


async def test_answer_is_read_and_the_body_kept() -> None:
    body: Any = {
        "choices": [
            {
                "message": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "refusal": "no"},
                "finish_reason": "stop",
                "logprobs": {"content": []},
            }
        ],
        "usage": usage(1, 2),
    }
    runner, _ = scripted(Body(body), answer("x", reasoning="why"))
    request = runner.build_request(config(), message="hi")
    result = await runner.perform(request)
    assert (result.text, result.refusal, result.finish_reason) == ("ab", "no", "stop")
    assert result.usage == usage(1, 2)
    assert result.logprobs == {"content": ()}
    assert result.reply.raw == freeze(body)
    assert (await runner.perform(request)).reasoning == "why"


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [None]}, {"choices": "x"}, {"choices": [{}]}])
async def test_a_body_without_a_reply_is_an_error(body: Any) -> None:
    runner, _ = scripted(Body(body))
    with pytest.raises(ProviderError):
        await runner.perform(runner.build_request(config(), message="hi"))


async def test_text_completions_are_taken_as_answers() -> None:
    runner, _ = scripted(Body({"choices": [{"text": "plain"}]}))
    assert (await runner.perform(runner.build_request(config(), message="hi"))).text == "plain"


async def test_response_transforms_leave_the_body_alone() -> None:
    call = {"name": "f", "arguments": {"a": 1}}
    body: Any = {"choices": [{"message": {"content": "", "function_call": call}}]}
    runner, _ = scripted(Body(body))
    names = ["assistant_function_call_to_tool_calls", "assistant_tool_calls_arguments_json_string_if_hash"]
    result = await runner.perform(runner.build_request(config(), message="hi", response_transforms=names))
    assert loose(result.assistant_message)["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert result.reply.raw == freeze(body)


async def test_stream_hands_out_deltas_and_the_whole() -> None:
    runner, model = scripted(streamed("a", "b", usage=usage(1, 2)))
    deltas: list[str] = []
    result = await runner.perform_stream(runner.build_request(config(), message="hi"), on_delta=deltas.append)
    assert deltas == ["a", "b"]
    assert (result.text, result.finish_reason, result.usage) == ("ab", "stop", usage(1, 2))
    assert sent(model)["stream_options"] == {"include_usage": True}


async def test_stream_puts_tool_calls_together() -> None:
    runner, _ = scripted(calls(tool_call("roll", {"sides": 6}, id="c1"), tool_call("wait", id="c2")))
    result = await runner.perform_stream(runner.build_request(config(), message="hi"))
    assert result.assistant_message["tool_calls"] == [
        tool_call("roll", {"sides": 6}, id="c1"),
        tool_call("wait", id="c2"),
    ]
    assert result.finish_reason == "tool_calls"


async def test_stream_can_be_iterated_and_left_early() -> None:
    runner, _ = scripted(Hang(after=["a", "b"]))
    async with runner.stream(runner.build_request(config(), message="hi")) as stream:
        async for chunk in stream:
            if chunk.text:
                break
    with pytest.raises(ConfigError) as caught:
        _ = stream.result
    assert caught.value.code == "STREAM_NOT_ENDED"


async def test_a_stream_may_be_read_in_several_loops() -> None:
    runner, _ = scripted(streamed("a", "b", "c"))
    store = InMemoryVariablesStore()
    built = config(context={"system_template": "{% incvar n %}", "variables": store})
    async with runner.stream(runner.build_request(built, message="hi")) as stream:
        async for piece in stream:
            if piece.text:
                break
        for _ in range(2):
            async for _piece in stream:
                pass
    assert (stream.result.text, store.get("n")) == ("abc", 1)


async def test_usage_can_be_left_out_of_a_stream() -> None:
    runner, model = scripted(streamed("a", usage=usage(1, 2)))
    result = await runner.perform_stream(runner.build_request(config(), message="hi"), include_usage=False)
    assert result.usage is None
    assert "stream_options" not in sent(model)


@pytest.mark.parametrize(
    ("options", "overrides", "code"),
    [
        ({"tools": [{}]}, {}, "STREAM_WITH_TOOLS_OR_FORMAT"),
        ({"tool_choice": "auto"}, {}, "STREAM_WITH_TOOLS_OR_FORMAT"),
        ({"response_format": {"type": "json_object"}}, {}, "STREAM_WITH_TOOLS_OR_FORMAT"),
        ({}, {"supports_streaming": False}, "STREAMING_UNSUPPORTED"),
    ],
)
async def test_only_plain_chat_is_streamed(options: Any, overrides: Any, code: str) -> None:
    runner, model = scripted("never")
    request = runner.build_request(config(capabilities_overrides=overrides), message="hi", llm_options=options)
    with pytest.raises(PreflightError) as caught:
        await runner.perform_stream(request)
    assert caught.value.code == code
    assert model.requests == []


async def test_response_transforms_see_the_whole_streamed_text() -> None:
    runner, _ = scripted(streamed("<tool_call>", "roll", "</tool_call>"))
    names = ["assistant_content_tool_call_tags_to_tool_calls"]
    request = runner.build_request(config(), message="hi", response_transforms=names)
    result = await runner.perform_stream(request)
    assert loose(result.assistant_message)["tool_calls"][0]["function"]["name"] == "roll"


class Native(ScriptedModel):
    dialect = "anthropic"


async def test_requests_are_written_for_the_protocol_of_the_model() -> None:
    history = [{"role": "assistant", "content": "x", "metadata": {"thinking": [{"type": "thinking"}]}}]
    runner = PromptRunner(Native("from anthropic"))
    request = runner.build_request(config("anthropic", "claude"), history=history)
    assert (request.dialect, request.messages[0]["thinking"]) == ("anthropic", [{"type": "thinking"}])
    assert (await runner.perform(request)).text == "from anthropic"


async def test_a_request_for_another_protocol_is_refused() -> None:
    runner, _ = scripted("x")
    request = runner.build_request(config(), message="x", dialect="google")
    for attempt in (runner.perform(request), runner.perform_stream(request)):
        with pytest.raises(ConfigError) as caught:
            await attempt
        assert caught.value.code == "MODEL_SPEAKS_ANOTHER_DIALECT"
    wrong: Any = object()
    with pytest.raises(ConfigError):
        PromptRunner(wrong)


PLAN = Plan(
    blocks=[Block(role="system", content="You are Aria."), Block(role="user", content="Hi.")],
    llm_options={"temperature": 0.3, "max_tokens": 50, "stop": ["END"], "secret_of_the_program": 1},
)


@pytest.mark.parametrize("as_request", [False, True])
def test_a_prompt_that_is_built_already_is_sent_with_its_options(as_request: bool) -> None:
    options = {"temperature": 0.3, "max_tokens": 50}
    prompt = Request(messages=PLAN.messages, options=options, stop=["END"]) if as_request else PLAN
    built = config(llm_options_defaults={"temperature": 1, "top_p": 0.5})
    request = scripted()[0].build_request(
        built,
        prompt,
        system="Be brief.",
        history=[{"role": "tool", "content": "6", "tool_call_id": "c"}],
        message="And?",
        llm_options={"max_tokens": 9},
    )
    assert [(each["role"], each["content"]) for each in request.messages] == [
        ("system", "You are Aria."),
        ("user", "Hi."),
        ("system", "Be brief."),
        ("tool", "6"),
        ("user", "And?"),
    ]
    assert request.options == {"temperature": 0.3, "top_p": 0.5, "max_tokens": 9, "stop": ["END"]}
    assert request.plan is (None if as_request else PLAN)
    with pytest.raises(ConfigError):
        scripted()[0].build_request(built, Request(prompt="text"))


async def test_cancelled_request_leaves_nothing_running() -> None:
    before = asyncio.all_tasks()
    async with serve(ScriptedModel(Hang(after=["a"]))) as server:
        served = OpenAIModel("", Endpoint(base_url=server.url))
        runner = PromptRunner(served)
        request = runner.build_request(config(), message="hi")
        task = asyncio.create_task(runner.perform_stream(request))
        async with asyncio.timeout(5):
            await server.received.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.hung_up.wait()
        await runner.aclose()
    assert asyncio.all_tasks() <= before


async def test_unknown_transforms_warn_and_raise_in_strict_mode() -> None:
    told: list[str] = []
    built = config(context={"warn": told.append})
    runner, _ = scripted(Answer(text="x"))
    runner.build_request(built, message="hi", message_transforms=["nope"])
    assert "nope" in told[0]
    with pytest.raises(ConfigError) as caught:
        runner.build_request(built, message="hi", message_transforms=["nope"], strict=True)
    assert caught.value.code == "UNKNOWN_MESSAGE_TRANSFORM"
    with pytest.raises(ConfigError):
        runner.build_request(config(context={"strict": True}), message="hi", message_transforms=["nope"])
