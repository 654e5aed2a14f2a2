"""What triggers ask of an application."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.risu_ai._triggers import FetchReply, HostRefusedError, InlayData, LLMReply, RefusingHost, TriggerHost
from tavernkit.testing._risu_ai import ScriptedTriggerHost
from tests.risu_ai.triggers.programs import lua, run, trigger

ASKING: dict[str, tuple[dict[str, Any], Any]] = {
    "alert": ({"type": "v2ShowAlert", "value": "x", "valueType": "value"}, None),
    "ask": ({"type": "v2GetAlertInput", "display": "x", "displayType": "value", "outputVar": "o"}, ""),
    "select": (
        {"type": "v2GetAlertSelect", "display": "", "displayType": "value", "value": "a|b", "outputVar": "o"},
        "0",
    ),
    "llm": ({"type": "v2RunLLM", "value": "x", "valueType": "value", "model": "model", "outputVar": "o"}, "null"),
    "image": ({"type": "v2ImgGen", "value": "x", "negValue": "y", "outputVar": "o"}, "null"),
    "similarity": ({"type": "v2CheckSimilarity", "value": "a", "source": "b", "outputVar": "o"}, ""),
    "speak": ({"type": "command", "value": "/speak x"}, None),
    "send_chat": ({"type": "command", "value": "/multisend x"}, None),
}


def test_hosts_fulfil_the_protocol() -> None:
    assert isinstance(RefusingHost(), TriggerHost)
    assert isinstance(ScriptedTriggerHost(), TriggerHost)


@pytest.mark.parametrize("kind", ASKING)
def test_the_default_host_refuses_with_a_warning_and_an_event(kind: str) -> None:
    effect, answer = ASKING[kind]
    outcome = run(trigger(effect), lowLevelAccess=True)
    assert outcome.result.ok
    assert outcome["o"] == answer
    assert [event.kind for event in outcome.result.events if event.refused] == [kind]
    assert "the application does not offer that" in outcome.warnings[0]


def test_logging_and_waiting_need_no_application() -> None:
    log = {"type": "v2ConsoleLog", "source": "x", "sourceType": "value"}
    outcome = run(trigger(log, {"type": "v2Wait", "value": "2", "valueType": "value"}))
    assert [(event.kind, event.detail) for event in outcome.result.events] == [("log", ("x",)), ("sleep", (2000.0,))]
    assert outcome.warnings == []


def test_a_host_may_offer_only_some_things() -> None:
    class Talking(RefusingHost):
        def ask(self, text: str) -> str:
            return text.upper()

    ask, show = ASKING["ask"][0], ASKING["alert"][0]
    outcome = run(trigger(ask, show), host=Talking())
    assert outcome["o"] == "X"
    assert len(outcome.warnings) == 1


def test_errors_of_the_host_reach_the_application() -> None:
    host = ScriptedTriggerHost(ask=[ZeroDivisionError()])
    with pytest.raises(ZeroDivisionError):
        run(trigger(ASKING["ask"][0]), host=host)


def test_errors_of_the_host_reach_the_application_through_lua_too() -> None:
    host = ScriptedTriggerHost(ask=[ZeroDivisionError()])
    code = "onStart = async(function(id) pcall(function() return alertInput(id, 'x'):await() end) end)"
    with pytest.raises(ZeroDivisionError):
        run(lua(code), host=host)


def test_scripted_answers_come_in_order_and_then_by_default() -> None:
    host = ScriptedTriggerHost(
        llm=[LLMReply("fail", "no")], fetch=[FetchReply(404, "none")], inlay=[InlayData("image", "QQ==")]
    )
    assert [host.llm([], "model").kind for _ in range(2)] == ["fail", "success"]
    assert host.fetch("https://x.y").status == 404
    assert host.inlay("a") == InlayData("image", "QQ==")
    assert host.similarity("q", ["a", "b"]) == ["b", "a"]
    assert (host.select(["a"], None), host.confirm("?"), host.asset_inlay("p")) == ("0", True, "inlay-id-1")
    assert host.image("a", "b", "c") == "inlay-id-1"
    assert [call[0] for call in host.calls] == [
        *("llm", "llm", "fetch", "inlay", "similarity", "select", "confirm", "asset_inlay", "image"),
    ]


def test_a_scripted_host_knows_its_methods() -> None:
    with pytest.raises(ConfigError, match="dance"):
        ScriptedTriggerHost(dance=[])


def test_a_refusal_can_be_scripted() -> None:
    outcome = run(trigger(ASKING["ask"][0]), host=ScriptedTriggerHost(ask=[HostRefusedError("to ask")]))
    assert outcome["o"] == ""
    assert outcome.warnings == ["trigger 't' (v2GetAlertInput) wants to ask: the application does not offer that"]
