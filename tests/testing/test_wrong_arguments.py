"""What programmers are told who pass a wrong kind to the scripted model and its companions."""

from __future__ import annotations

import pytest

from tavernkit import ConfigError, testing
from tavernkit.testing import Answer, HttpReply, HttpRequest, ScriptedModel
from tests.wrong_arguments import Call, Odd, Sweep


async def answered(request: HttpRequest) -> HttpReply:
    return HttpReply()


MODEL = ScriptedModel("Hi", repeat_last=True)
REQUEST = {"model": "m", "messages": []}
CALLS: dict[str, Call] = {
    "Answer": (testing.Answer, {}),
    "Answer.body": (Answer().body, {"model": "m"}),
    "Answer.events": (Answer().events, {"model": "m"}),
    "Body": (testing.Body, {"body": {}}),
    "Disconnect": (testing.Disconnect, {}),
    "Failure": (testing.Failure, {"status": 500}),
    "Hang": (testing.Hang, {}),
    "HttpReply": (testing.HttpReply, {}),
    "HttpRequest": (testing.HttpRequest, {"method": "GET", "path": "/", "headers": {}, "body": b""}),
    "LoopbackServer": (testing.LoopbackServer, {"handler": answered}),
    "RawBytes": (testing.RawBytes, {"chunks": [b"x"]}),
    "ScriptedModel": (testing.ScriptedModel, {}),
    "ScriptedModel.complete": (MODEL.complete, {"request": REQUEST}),
    "ScriptedModel.next_reply": (MODEL.next_reply, {"request": REQUEST}),
    "ScriptedModel.stream": (MODEL.stream, {"request": REQUEST}),
    "ScriptedTriggerHost": (testing.ScriptedTriggerHost, {"ask": ["Zoe"]}),
    "answer": (testing.answer, {}),
    "calls": (testing.calls, {}),
    "failure": (testing.failure, {"status": 500, "headers": "1"}),
    "memory_models": (testing.memory_models, {}),
    "serve": (testing.serve, {"model": MODEL}),
    "serve_in_thread": (testing.serve_in_thread, {"model": MODEL}),
    "streamed": (testing.streamed, {}),
    "tool_call": (testing.tool_call, {"name": "roll"}),
    "usage": (testing.usage, {"prompt_tokens": 1, "completion_tokens": 2}),
}
ANYTHING = {
    "Failure.body": "whatever JSON a server may send",
}
UNCALLED = {
    f"ScriptedTriggerHost.{method}": "called by triggers: it remembers whatever they pass"
    for method in (
        *("alert", "ask", "asset_inlay", "confirm", "fetch", "image", "inlay", "llm"),
        *("log", "select", "similarity", "sleep", "speak"),
    )
}
SWEEP = Sweep("tavernkit.testing", CALLS, UNCALLED, ANYTHING)


def test_every_public_name_is_called() -> None:
    SWEEP.assert_complete()


@pytest.mark.parametrize("name", CALLS)
def test_right_arguments_are_taken(name: str) -> None:
    SWEEP.call(name)


@pytest.mark.parametrize(("name", "parameter"), SWEEP.pairs())
def test_wrong_arguments_are_refused_by_name(name: str, parameter: str) -> None:
    SWEEP.assert_refused(name, parameter)


def test_a_function_of_the_script_must_give_a_reply() -> None:
    model = ScriptedModel(lambda request: Odd())  # pyright: ignore[reportArgumentType]  # the mistake
    with pytest.raises(ConfigError, match=r"what a function of the script returns must be a reply or text, not Odd"):
        model.next_reply({})
