"""Variables of Lua scripts: most reads and writes need no message between the processes, and no script notices."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.risu_ai._triggers import TriggerEngine, TriggerLimits
from tavernkit.risu_ai._triggers.lua.sandbox import LuaSandbox
from tavernkit.risu_ai._triggers.world import World
from tests.risu_ai.triggers.programs import lua, run, world

COUNTING = "setChatVar(id, 'n', (tonumber(getChatVar(id, 'n')) or 0) + 1)"
SCRIPTS = {
    "counting": COUNTING,
    "its own writes": "setChatVar(id, 'a', 1) setChatVar(id, 'b', getChatVar(id, 'a')) setChatVar(id, 'a', 2.5)",
    "many writes": "for i = 1, 200 do setChatVar(id, 'v' .. i % 70, tostring(i)) end",
    "long texts": "setChatVar(id, 'a', ('x'):rep(9000)) setChatVar(id, 'b', #getChatVar(id, 'a'))",
    "lists": "setChatVar(id, 'a', {1, {2}}) setChatVar(id, 'b', getChatVar(id, 'a'))",
    "nothing": "setChatVar(id, 'a', nil) setChatVar(id, 'b') setChatVar(id, 'n', getChatVar(id, 'b'))",
    "names that are no texts": "setChatVar(id, 'a', 1) setChatVar(id, 7, 2) setChatVar(id, 'b', getChatVar(id, 7))",
    "texts with macros": "getChatVar(id, 'n') setChatVar(id, 'n', 'new') setChatVar(id, 'b', cbs('{{getvar::n}}'))",
    "another key": "setChatVar('x', 'n', 'no') setChatVar(id, 'b', getChatVar(id, 'n'))",
    "an error": "setChatVar(id, 'n', 'kept') error('x')",
    "a caught error": "pcall(function() setChatVar(id, 'n', 'kept') error('x') end) setChatVar(id, 'b', 1)",
    "half a character": "setChatVar(id, 'n', '\\xff') setChatVar(id, 'b', getChatVar(id, 'n'))",
}


def questions(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    asked: list[bytes] = []
    answer = LuaSandbox._answer
    monkeypatch.setattr(
        LuaSandbox, "_answer", lambda self, call, question: (asked.append(question), answer(self, call, question))[1]
    )
    return asked


def test_a_handler_needs_no_question_for_variables_it_has_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, asked = TriggerEngine(), questions(monkeypatch)
    for number, expected in ((1, 1), (5, 0), (9, 0)):
        asked.clear()
        assert (
            run(lua(f"function onStart(id) {COUNTING} end"), engine=engine, variables={"n": number})["n"] == number + 1
        )
        assert len(asked) == expected


@pytest.mark.parametrize("body", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_does_the_same_whether_its_variables_are_known(body: str) -> None:
    engine = TriggerEngine()
    first, second = (
        run(lua(f"function onStart(id) {body} end"), engine=engine, variables={"n": "4"}).result for _ in range(2)
    )
    assert second.variables == first.variables
    assert second.events == first.events
    assert first.variables


def test_writes_arrive_in_order_and_before_anything_else() -> None:
    body = "setChatVar(id, 'a', 1) setChatVar(id, 'b', 2) addChat(id, 'user', 'x') setChatVar(id, 'a', 3)"
    result = run(lua(f"function onStart(id) {body} end")).result
    assert [event.detail[:2] for event in result.events] == [("a", 1), ("b", 2), ("script", 1), ("a", 3)]
    assert result.variables == {"a": 3, "b": 2}


def test_what_another_function_writes_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "cbs", lambda self, text: self.variables.set("n", text) or "")
    body = "getChatVar(id, 'n') cbs('new') setChatVar(id, 'b', getChatVar(id, 'n'))"
    context, engine = world(lua(f"function onButtonClick(id) {body} end"), variables={"n": "old"}), TriggerEngine()
    for _ in range(2):
        assert engine.click(context, "").stored.variables == {"n": "new", "b": "new"}


@pytest.mark.parametrize(
    ("body", "limits"),
    [
        ("setChatVar(id, 'a', 'kept') setChatVar(id, 'b', ('x'):rep(200))", {"text": 100}),
        ("for i = 1, 500 do setChatVar(id, 'a', 'kept') end", {"steps": 20}),
        ("setChatVar(id, 'a', 'kept') for i = 1, 500 do getChatVar(id, 'b') end", {"steps": 20}),
        ("setChatVar(id, 'a', 'kept') while true do end", {"lua_instructions": 100_000}),
    ],
)
def test_limits_hold_and_what_was_written_before_stays(body: str, limits: dict[str, Any]) -> None:
    outcome = run(lua(f"function onStart(id) {body} end"), limits=TriggerLimits(**limits))
    assert outcome["a"] == "kept"
    assert [event.kind for event in outcome.result.events].count("lua_error") == 1


def test_errors_of_the_application_are_raised_from_waiting_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    from tavernkit.risu_ai._triggers.lua.api import LuaCall

    def fail(self: LuaCall, name: str, value: object) -> None:
        raise ZeroDivisionError(name)

    monkeypatch.setattr(LuaCall, "set_variable", fail)
    with pytest.raises(ZeroDivisionError):
        TriggerEngine().run(world(lua("function onStart(id) setChatVar(id, 'a', 1) end")), "start")
