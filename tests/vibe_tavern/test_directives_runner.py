"""Directives runs: what the vectors do not show."""

from __future__ import annotations

import json
from typing import Literal

import pytest

import tavernkit as tk
from tavernkit._values import thaw_object
from tavernkit.models import ConnectionFailedError, Endpoint, OpenAIModel, ProviderError, Request, Usage
from tavernkit.testing import Answer, ScriptedModel, failure, serve, usage
from tavernkit.vibe_tavern._directives.runner import (
    DirectivesModel,
    DirectivesReply,
    DirectivesResult,
    DirectivesRunner,
)
from tavernkit.vibe_tavern._prompt_runner import PromptRunner
from tests.vibe_tavern.support import config, loose, scripted, sent

GOOD = json.dumps({"assistant_text": "ok", "directives": [{"type": "ui.toast", "payload": {"message": "m"}}]})


async def test_broken_connection_leaves_the_run_with_the_attempts_so_far() -> None:
    runner, _ = scripted("nope", ConnectionFailedError("gone"))
    with pytest.raises(ConnectionFailedError) as caught:
        await DirectivesRunner(runner, config()).run(message="hi")
    assert [attempt["mode"] for attempt in caught.value.attempts] == ["json_schema"]
    assert loose(caught.value.attempts[0])["structured_output_error"]["code"] == "INVALID_JSON"


async def test_tool_calls_in_the_answer_are_an_error_of_their_own() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    runner, model = scripted(Answer(tool_calls=[call]), GOOD)
    result = await DirectivesRunner(runner, config()).run(message="hi")
    assert result.ok
    error = loose(result.attempts[0])["structured_output_error"]
    assert (error["code"], error["tool_calls_count"]) == ("TOOL_CALLS_PRESENT", 1)
    assert error["details"] == {"tool_calls_count": 1}
    assert "TOOL_CALLS_PRESENT" in sent(model)["messages"][0]["content"]


async def test_a_failed_run_gives_the_last_text_there_was_even_if_requests_failed_after_it() -> None:
    runner, _ = scripted("prose", "more prose", failure(500), failure(500))
    result = await DirectivesRunner(runner, config()).run(message="hi")
    assert (result.ok, result.text, len(result.attempts)) == (False, "more prose", 4)


async def test_failing_result_validator_counts_as_a_reason() -> None:
    def check(_: DirectivesResult) -> list[str]:
        raise RuntimeError("kaput")

    runner, model = scripted(*[GOOD] * 6)
    result = await DirectivesRunner(runner, config()).run(message="hi", result_validator=check)
    assert not result.ok
    assert "What was wrong: RuntimeError: kaput" in sent(model)["messages"][0]["content"]


async def test_a_result_validator_may_give_one_reason_as_text() -> None:
    runner, model = scripted(*[GOOD] * 6)
    await DirectivesRunner(runner, config()).run(message="hi", result_validator=lambda _: "too short")
    assert "What was wrong: too short\n" in sent(model)["messages"][0]["content"]


async def test_json_repair_is_an_option() -> None:
    broken = '{"assistant_text": "ok", "directives": [],}'
    runner, _ = scripted(broken)
    context = {"directives": {"json_repair": True}}
    assert (await DirectivesRunner(runner, config(context=context)).run(message="hi")).ok


async def test_content_in_parts_is_joined() -> None:
    runner, _ = scripted(Answer(text=None, extra={"content": [{"type": "text", "text": GOOD}]}))
    result = await DirectivesRunner(runner, config()).run(message="hi")
    assert result.ok
    assert result.text == "ok"


async def test_ladder_over_a_real_connection() -> None:
    model = ScriptedModel(failure(400, "response_format json_schema is not supported"), "prose", GOOD)
    async with serve(model) as server:
        served = OpenAIModel("", Endpoint(base_url=server.url))
        result = await DirectivesRunner(PromptRunner(served), config()).run(message="hi", system="Be kind.")
        await served.aclose()
    assert (result.ok, result.mode) == (True, "json_object")
    assert loose(result.attempts[0])["structured_output_unsupported"] is True
    assert sent(model, 0)["response_format"]["json_schema"]["strict"] is False
    assert "parallel_tool_calls" not in sent(model, 0)


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_a_conversation_stores_the_text_and_gives_the_directives(
    platform: Literal["silly_tavern", "risu_ai"],
) -> None:
    model = DirectivesModel(ScriptedModel("not JSON", GOOD), {"allowed_types": ["ui.toast"]})
    chat = tk.Conversation.open(card=tk.Character(name="Aria"), model=model, platform=platform)
    pieces = [piece.text async for piece in chat.stream("Hi")]
    assert "".join(pieces) == "ok"
    assert chat.lines[-1].get("mes", chat.lines[-1].get("data")) == "ok"
    assert chat.last is not None
    reply = chat.last.reply
    assert isinstance(reply, DirectivesReply)
    assert [thaw_object(each) for each in reply.directives] == [{"type": "ui.toast", "payload": {"message": "m"}}]


async def test_tokens_of_all_attempts_are_counted() -> None:
    script = Answer(text="not JSON", usage=usage(10, 2)), Answer(text=GOOD, usage=usage(20, 3))
    runner, _ = scripted(*script)
    result = await DirectivesRunner(runner, config()).run(message="hi")
    assert [loose(each)["usage"]["total_tokens"] for each in result.attempts] == [12, 23]
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.reported) == (30, 5, True)
    model = DirectivesModel(ScriptedModel(*script, repeat_last=True))
    request = Request(messages=[{"role": "user", "content": "hi"}])
    assert (await model.send(request)).usage == result.usage
    assert [piece.usage async for piece in model.stream(request)] == [
        Usage(input_tokens=20, output_tokens=3, reported=True)
    ]


async def test_without_a_usable_envelope_the_turn_fails() -> None:
    model = DirectivesModel(ScriptedModel("no", repeat_last=True))
    chat = tk.Conversation.open(card=tk.Character(name="Aria"), model=model)
    with pytest.raises(ProviderError, match="no usable directives envelope: 'no'"):
        await chat.send("Hi")
