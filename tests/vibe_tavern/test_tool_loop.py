"""Tool loops: what the vectors do not show."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.models import Endpoint, HTTPError, OpenAIModel
from tavernkit.prompt._block import Block, Message
from tavernkit.prompt._plan import Plan
from tavernkit.testing import (
    Answer,
    Body,
    Hang,
    ScriptedModel,
    answer,
    calls,
    failure,
    serve,
    streamed,
    tool_call,
    usage,
)
from tavernkit.vibe_tavern import FunctionToolset, PromptRunner, ToolLoopRunner
from tavernkit.vibe_tavern._context import VibeTavernState
from tavernkit.vibe_tavern._pipeline import PIPELINE
from tavernkit.vibe_tavern._steps import PlanAssembly
from tavernkit.vibe_tavern.errors import ToolLoopLimitError, ToolUseError
from tests.vibe_tavern.support import config, loose, scripted, sent

PARALLEL = {"tool_calling": {"tool_dispatch": "parallel", "request_overrides": {"parallel_tool_calls": True}}}


def toolset() -> FunctionToolset:
    tools = FunctionToolset()

    @tools.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tools.tool
    async def greet(name: str) -> str:
        """Greet someone."""
        return f"Hello, {name}!"

    return tools


async def test_typed_functions_are_called_with_checked_arguments() -> None:
    runner, model = scripted(
        calls(tool_call("add", {"a": "1", "b": [2]})), calls(tool_call("add", {"a": 1, "b": 2})), "It is 3."
    )
    result = await ToolLoopRunner(runner, config(), tools=toolset()).run("1 + 2?")
    assert result.text == "It is 3."
    results = [json.loads(message.content) for message in result.history if message.role == "tool"]
    assert results[0]["errors"][0]["code"] == "ARGUMENT_ERROR"
    assert "b" in results[0]["errors"][0]["message"]
    assert results[1]["data"] == {"value": 3}
    names = [tool["function"]["name"] for tool in sent(model, 0)["tools"]]
    assert names == ["add", "greet"]


async def test_parallel_dispatch_runs_tools_side_by_side_and_keeps_their_order() -> None:
    both_started = asyncio.Barrier(2)
    tools = FunctionToolset()

    @tools.tool
    async def first() -> str:
        """Wait for the other."""
        await both_started.wait()
        return "first"

    @tools.tool
    async def second() -> str:
        """Wait for the other."""
        await both_started.wait()
        return "second"

    runner, _ = scripted(calls(tool_call("first", id="a"), tool_call("second", id="b")), "done")
    async with asyncio.timeout(5):
        result = await ToolLoopRunner(runner, config(context=PARALLEL), tools=tools).run("go")
    assert [json.loads(message.content)["data"]["value"] for message in result.history if message.role == "tool"] == [
        "first",
        "second",
    ]


async def test_error_in_parallel_dispatch_is_raised_as_it_is() -> None:
    context = loose(PARALLEL)["tool_calling"] | {"tool_result_transforms": ["nope"]}
    runner, _ = scripted(calls(tool_call("add", {"a": 1, "b": 1}, id="a"), tool_call("greet", {"name": "x"}, id="b")))
    loop = ToolLoopRunner(runner, config(context={"tool_calling": context}), tools=toolset(), strict=True)
    with pytest.raises(ConfigError) as caught:
        await loop.run("go")
    assert caught.value.code == "UNKNOWN_TOOL_RESULT_TRANSFORM"


async def test_a_strict_context_makes_a_run_strict() -> None:
    context = {"strict": True, "tool_calling": {"tool_call_transforms": ["nope"]}}
    runner, _ = scripted("done")
    with pytest.raises(ConfigError, match="nope"):
        await ToolLoopRunner(runner, config(context=context), tools=toolset()).run("go")


async def test_token_budget_ends_a_run() -> None:
    spending = calls(tool_call("add", {"a": 1, "b": 2}), usage=usage(90, 10))
    runner, model = scripted(spending, spending, spending)
    context = {"tool_calling": {"max_total_tokens": 150}}
    with pytest.raises(ToolLoopLimitError) as caught:
        await ToolLoopRunner(runner, config(context=context), tools=toolset()).run("go")
    assert (caught.value.code, caught.value.limit) == ("TOKENS_EXCEEDED", 150)
    assert len(model.requests) == 2
    assert len(loose(caught.value.details["trace"])) == 2


async def test_failed_tools_are_named_when_failure_is_fatal() -> None:
    context = {"tool_calling": {"tool_use_mode": "enforced", "tool_failure_policy": "fatal"}}
    runner, _ = scripted(
        calls(tool_call("greet", {})), calls(tool_call("add", {"a": 1, "b": 2})), calls(tool_call("add", {})), "x"
    )
    with pytest.raises(ToolUseError) as caught:
        await ToolLoopRunner(runner, config(context=context), tools=toolset()).run("go")
    assert caught.value.details["failed_tools"] == ["add", "greet"]


async def test_a_failed_tool_is_named_although_another_one_succeeded_later() -> None:
    context = {"tool_calling": {"tool_use_mode": "enforced", "tool_failure_policy": "fatal"}}
    runner, _ = scripted(calls(tool_call("greet", {})), calls(tool_call("add", {"a": 1, "b": 2})), "x")
    with pytest.raises(ToolUseError) as caught:
        await ToolLoopRunner(runner, config(context=context), tools=toolset()).run("go")
    assert (caught.value.code, caught.value.details["failed_tools"]) == ("TOOL_ERROR", ["greet"])


async def test_without_tools_neither_tools_nor_choice_are_sent() -> None:
    runner, model = scripted("hi")
    await ToolLoopRunner(runner, config(), executor=lambda name, args: None).run("go")
    assert "tools" not in sent(model)
    assert "tool_choice" not in sent(model)


async def test_history_keeps_names_and_attachments() -> None:
    history = [
        {"content": "no role"},
        {"role": "user", "content": None, "name": "Ann"},
        Message(role="system", content="s"),
    ]
    runner, _ = scripted("ok")
    result = await ToolLoopRunner(runner, config(), tools=toolset()).run("", history=history)
    assert [(message.role, message.name) for message in result.history] == [
        ("user", None),
        ("user", "Ann"),
        ("system", None),
        ("assistant", None),
    ]
    with pytest.raises(ConfigError):
        await ToolLoopRunner(runner, config(), tools=toolset()).run("x", history=loose("text"))


async def test_thinking_goes_back_with_the_tool_calls() -> None:
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    runner, model = scripted(Answer(tool_calls=[tool_call("add", {"a": 1, "b": 2})], extra={"thinking": thinking}), "3")
    loose(model).dialect = "anthropic"
    runner = PromptRunner(model)
    await ToolLoopRunner(runner, config("anthropic", "claude"), tools=toolset(), dialect="anthropic").run("go")
    assert sent(model)["messages"][1]["thinking"] == thinking


async def test_failing_event_handler_does_not_disturb_the_run() -> None:
    def failing(_: object) -> None:
        raise RuntimeError("kaput")

    runner, _ = scripted("ok")
    assert (await ToolLoopRunner(runner, config(), tools=toolset()).run("go", on_event=failing)).text == "ok"


async def test_events_hold_no_prompts_and_no_answers() -> None:
    runner, _ = scripted(calls(tool_call("greet", {"name": "SECRET-ARG"})), "SECRET-ANSWER")
    events: list[dict[str, Any]] = []
    await ToolLoopRunner(runner, config(), tools=toolset(), system="SECRET-SYSTEM").run(
        "SECRET-PROMPT", on_event=events.append
    )
    assert "SECRET" not in json.dumps(events)


async def test_streamed_answer_passes_the_output_tags() -> None:
    context = {"output_tags": {"enabled": True, "rules": [{"tag": "think", "action": "drop"}]}}
    runner, model = scripted(
        calls(tool_call("add", {"a": 1, "b": 2})), "Draft.", streamed("It <thi", "nk>hm</think", ">is 3.")
    )
    deltas: list[str] = []

    def watch(event: dict[str, Any]) -> None:
        if event["type"] == "final_stream_delta":
            deltas.append(event["delta"])

    loop = ToolLoopRunner(runner, config(context=context), tools=toolset(), system="SYS")
    result = await loop.run("go", on_event=watch, final_stream=True)
    assert "".join(deltas) == result.text == "It is 3."
    assert sent(model)["messages"][0]["content"].startswith("SYS\n\nTool use is over.")


async def test_empty_stream_leaves_the_first_answer() -> None:
    runner, _ = scripted(calls(tool_call("add", {"a": 1, "b": 2})), "Draft.", streamed(""))
    result = await ToolLoopRunner(runner, config(), tools=toolset()).run("go", final_stream=True)
    assert result.text == "Draft."
    assert loose(result.trace[-1])["final_stream"]["skipped_reason"] == "EMPTY_ANSWER"


async def test_loop_over_a_real_connection_with_a_retry_without_tools() -> None:
    model = ScriptedModel(
        calls(tool_call("add", {"a": 1, "b": 2}), text="Let me see."),
        failure(404, "No endpoints found that support tool use"),
        answer("It is 3.", usage=usage(5, 5)),
    )
    events: list[str] = []
    async with serve(model) as server:
        runner = PromptRunner(OpenAIModel("", Endpoint(base_url=server.url)))
        built = config(context={"tool_calling": {"fallback_retry_count": 1}})
        loop = ToolLoopRunner(runner, built, tools=toolset())
        result = await loop.run("1 + 2?", on_event=lambda event: events.append(loose(event)["type"]))
        await runner.aclose()
    assert result.text == "It is 3."
    assert "llm_request_retry" in events
    assert "tools" not in sent(model)
    assert "parallel_tool_calls" not in sent(model)


async def test_http_error_is_told_and_raised() -> None:
    runner, _ = scripted(failure(500, "boom"))
    events: list[dict[str, Any]] = []
    with pytest.raises(HTTPError):
        await ToolLoopRunner(runner, config(), tools=toolset()).run("go", on_event=events.append)
    assert (events[-1]["type"], events[-1]["status"]) == ("llm_request_error", 500)


@pytest.mark.parametrize("where", ["request", "tool", "stream"])
async def test_cancelling_a_run_leaves_nothing_running(where: str) -> None:
    before = asyncio.all_tasks()
    tool_running, tool_ended = asyncio.Event(), asyncio.Event()
    tools = FunctionToolset()

    @tools.tool
    async def wait() -> str:
        """Wait for ever, or just answer."""
        if where != "tool":
            return "ok"
        tool_running.set()
        try:
            await asyncio.Event().wait()
        finally:
            tool_ended.set()
        return "never"

    scripts: dict[str, list[Any]] = {
        "request": [Hang()],
        "tool": [calls(tool_call("wait"))],
        "stream": [calls(tool_call("wait")), "draft", Hang(after=["a"])],
    }
    async with serve(ScriptedModel(*scripts[where])) as server:
        runner = PromptRunner(OpenAIModel("", Endpoint(base_url=server.url)))
        streaming = asyncio.Event()

        def watch(event: dict[str, Any]) -> None:
            if event["type"] == "final_stream_delta":
                streaming.set()

        run = ToolLoopRunner(runner, config(), tools=tools).run("go", on_event=watch, final_stream=where == "stream")
        task = asyncio.create_task(run)
        reached = {"request": server.received, "tool": tool_running, "stream": streaming}[where]
        async with asyncio.timeout(5):
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            if where != "tool":
                await server.hung_up.wait()
        await runner.aclose()
    assert tool_ended.is_set() == (where == "tool")
    assert asyncio.all_tasks() <= before


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize("value", [float("nan"), ENDLESS])
async def test_result_that_json_cannot_hold_is_an_error_for_the_model(value: object) -> None:
    def odd(name: str, args: dict[str, Any]) -> object:
        return {"value": value}

    tools = [{"name": "odd", "description": "", "parameters": {}}]
    runner, _ = scripted(calls(tool_call("odd")), "done")
    result = await ToolLoopRunner(runner, config(), tools=tools, executor=odd).run("go")
    outcome = json.loads(result.history[2].content)
    assert outcome["errors"][0]["code"] == "TOOL_OUTPUT_SERIALIZATION_ERROR"
    assert outcome["data"]["error_class"] == "ValueError"


@pytest.mark.parametrize("arguments", [{"name": "\ud83d"}, '{"name": "\ud83d"}', '{"name": "\\ud83d"}'])
@pytest.mark.parametrize("name", ["greet", "gr\udc00et"])
async def test_calls_with_half_characters_are_answered(name: str, arguments: Any) -> None:
    def greet(name: str) -> str:
        """Greet."""
        return f"hello {name}"

    call = {"id": "c\ud83d", "type": "function", "function": {"name": name, "arguments": arguments}}
    tag = {"name": name, "arguments": {"name": "\ud83d"}}
    runner, _ = scripted(
        Body({"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}),
        f"<tool_call>{json.dumps(tag)}</tool_call>",
        "done",
    )
    result = await ToolLoopRunner(runner, config("vllm"), tools=FunctionToolset([greet])).run("go")
    found = [json.loads(message.content) for message in result.history if message.role == "tool"]
    assert [each["ok"] for each in found] == [name == "greet"] * 2
    assert result.text == "done"


async def test_keys_never_reach_events_or_errors() -> None:
    key = "sk-very-secret-key-123"
    events: list[dict[str, Any]] = []
    async with serve(ScriptedModel(failure(401, f"Incorrect API key provided: {key}"))) as server:
        runner = PromptRunner(OpenAIModel("", Endpoint(base_url=server.url, api_key=key)))
        with pytest.raises(HTTPError) as caught:
            await ToolLoopRunner(runner, config(), tools=toolset()).run("go", on_event=events.append)
        await runner.aclose()
    assert events[-1]["message"] == str(caught.value) == "Incorrect API key provided: [redacted]"
    assert key not in json.dumps(events) + repr(caught.value)


async def test_a_prompt_that_is_built_already_is_not_built_again() -> None:
    built: list[int] = []

    class Counting(PlanAssembly):
        def before(self, state: VibeTavernState) -> None:
            built.append(1)
            super().before(state)

    plan = Plan(
        blocks=[Block(role="system", content="You are Aria."), Block(role="user", content="2 + 2?")],
        llm_options={"temperature": 0.3, "stop": ["END"]},
    )
    runner, model = scripted(calls(tool_call("add", {"a": 2, "b": 2})), "Four.")
    settled = config(pipeline=PIPELINE.replace("plan_assembly", Counting()))
    result = await ToolLoopRunner(runner, settled, tools=toolset()).run(prompt=plan)
    assert (result.text, built) == ("Four.", [])
    first, second = ([(each["role"], each["content"]) for each in sent(model, at)["messages"]] for at in (0, 1))
    assert first == [("system", "You are Aria."), ("user", "2 + 2?")]
    assert [role for role, _ in second] == ["system", "user", "assistant", "tool"]
    assert [(sent(model, at)["temperature"], sent(model, at)["stop"]) for at in (0, 1)] == [(0.3, ["END"])] * 2
    assert [message.role for message in result.history] == ["assistant", "tool", "assistant"]
