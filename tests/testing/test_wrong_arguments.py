"""What programmers are told who pass a wrong kind to the scripted model and its companions."""

from __future__ import annotations

import pytest

from tavernkit import ConfigError, testing
from tavernkit.testing import Answer, HttpReply, HttpRequest, ScriptedModel
from tests.vibe_tavern import wrong_arguments
from tests.vibe_tavern.wrong_arguments import Odd, Uses


async def answered(request: HttpRequest) -> HttpReply:
    return HttpReply()


MODEL = ScriptedModel("Hi", repeat_last=True)
REQUEST = {"model": "m", "messages": []}
USES: Uses = {
    "Answer": {},
    "Answer.body": {"self": Answer(), "model": "m"},
    "Answer.events": {"self": Answer(), "model": "m"},
    "Body": {"body": {}},
    "Disconnect": {},
    "Failure": {"status": 500},
    "Hang": {},
    "HttpReply": {},
    "HttpRequest": {"method": "GET", "path": "/", "headers": {}, "body": b""},
    "LoopbackServer": {"handler": answered},
    "RawBytes": {"chunks": [b"x"]},
    "ScriptedModel": {},
    "ScriptedModel.complete": {"self": MODEL, "request": REQUEST},
    "ScriptedModel.next_reply": {"self": MODEL, "request": REQUEST},
    "ScriptedModel.stream": {"self": MODEL, "request": REQUEST},
    "ScriptedTriggerHost": {"ask": ["Zoe"]},
    "answer": {},
    "calls": {},
    "failure": {"status": 500, "headers": "1"},
    "memory_models": {},
    "serve": {"model": MODEL},
    "serve_in_thread": {"model": MODEL},
    "streamed": {},
    "tool_call": {"name": "roll"},
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
}
ANYTHING = {
    "Failure.body": "whatever JSON a server may send",
}
NOT_MADE = {
    "ScriptExhaustedError": "an exception",
    **{
        f"ScriptedTriggerHost.{method}": "called by triggers: it remembers whatever they pass"
        for method in (
            *("alert", "ask", "asset_inlay", "confirm", "fetch", "image", "inlay", "llm"),
            *("log", "select", "similarity", "sleep", "speak"),
        )
    },
}


def test_every_public_name_is_swept() -> None:
    names = wrong_arguments.public_names(testing)
    methods = {method for name in names for method in wrong_arguments.public_methods(testing, name)}
    assert names | methods == USES.keys() | NOT_MADE.keys()


@pytest.mark.parametrize("name", USES)
def test_the_right_kinds_are_taken(name: str) -> None:
    wrong_arguments.call(testing, name, USES[name])


@pytest.mark.parametrize(("name", "parameter"), wrong_arguments.swept(testing, USES, ANYTHING))
def test_a_wrong_kind_is_refused_by_name(name: str, parameter: str) -> None:
    wrong_arguments.assert_refused(testing, USES, name, parameter)


def test_a_function_of_the_script_must_give_a_reply() -> None:
    model = ScriptedModel(lambda request: Odd())  # pyright: ignore[reportArgumentType]  # the mistake
    with pytest.raises(ConfigError, match=r"what a function of the script returns must be a reply or text, not Odd"):
        model.next_reply({})
