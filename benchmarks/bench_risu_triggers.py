"""RisuAI triggers: what a turn costs with many triggers, a loop, a Lua handler and a Lua edit of the whole prompt."""

from __future__ import annotations

from typing import Any

from pytest_benchmark.fixture import BenchmarkFixture

from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai._triggers import TriggerEngine

MESSAGES = tuple(RisuMessage(role="user" if n % 2 else "char", data=f"Message {n}. " * 20) for n in range(200))


def world(*triggers: dict[str, Any]) -> CBSContext:
    character = RisuCharacter.from_json({"name": "Mira", "triggerscript": list(triggers)})
    return CBSContext(char=character, user="Alex", chat=RisuChat(messages=MESSAGES))


def trigger(*effects: dict[str, Any], mode: str = "start", name: str = "t") -> dict[str, Any]:
    return {"comment": name, "type": mode, "conditions": [], "effect": list(effects)}


def variable(name: str, value: str, operator: str = "=") -> dict[str, Any]:
    return {"type": "v2SetVar", "operator": operator, "var": name, "value": value, "valueType": "value", "indent": 1}


def test_many_triggers(benchmark: BenchmarkFixture) -> None:
    """100 triggers of five effects each, one of them with a macro. Target: under 5 ms."""
    effects = [variable(f"v{n}", "{{char}}" if n == 0 else str(n)) for n in range(5)]
    context, engine = world(*(trigger(*effects, name=f"t{n}") for n in range(100))), TriggerEngine()
    result = benchmark(lambda: engine.run(context, "start", count_tokens=len))
    assert result.variables["v0"] == "Mira"


def test_a_loop(benchmark: BenchmarkFixture) -> None:
    """1,000 passes of a loop with three effects. Target: under 20 ms."""
    loop = {"type": "v2LoopNTimes", "value": "1000", "valueType": "value", "indent": 0}
    end = {"type": "v2EndIndent", "endOfLoop": True, "indent": 1}
    context, engine = world(trigger(loop, variable("n", "1", "+="), end)), TriggerEngine()
    assert benchmark(lambda: engine.run(context, "start", count_tokens=len)).variables["n"] == "1000"


def test_a_lua_handler(benchmark: BenchmarkFixture) -> None:
    """A script that is already loaded reads and writes a variable. Target: under 0.3 ms."""
    code = "function onStart(id) setChatVar(id, 'n', (tonumber(getChatVar(id, 'n')) or 0) + 1) end"
    context, engine = world(trigger({"type": "triggerlua", "code": code})), TriggerEngine()
    assert benchmark(lambda: engine.run(context, "start", count_tokens=len)).variables["n"] == 1


def test_loading_a_script(benchmark: BenchmarkFixture) -> None:
    """A fresh Lua engine each time. Target: under 5 ms."""
    context = world(trigger({"type": "triggerlua", "code": "function onStart(id) setChatVar(id, 'n', 1) end"}))
    assert benchmark(lambda: TriggerEngine().run(context, "start", count_tokens=len)).variables["n"] == 1


def test_a_lua_edit_of_the_prompt(benchmark: BenchmarkFixture) -> None:
    """200 messages of 260 characters through ``editRequest``. Target: under 20 ms."""
    code = "listenEdit('editRequest', function(id, list) list[1].content = 'new' return list end)"
    context, engine = world(trigger({"type": "triggerlua", "code": code})), TriggerEngine()
    prompt = [{"role": "user", "content": message.data} for message in MESSAGES]
    edited = benchmark(lambda: engine.edit(context, "editRequest", prompt, count_tokens=len))
    assert edited.data[0]["content"] == "new"  # type: ignore[index]
