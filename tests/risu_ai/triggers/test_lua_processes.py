"""Lua scripts in worker processes: what C functions do has an end, and memory is given back."""

from __future__ import annotations

import gc
import timeit
from collections.abc import Iterator
from pathlib import Path

import pytest

from tavernkit._workers import BusyError, StuckError
from tavernkit._workers import pool as pools
from tavernkit._workers.pool import Session, WorkerPool
from tavernkit.errors import noting_degraded
from tavernkit.risu_ai._triggers import TriggerEngine, TriggerLimits
from tests.quickness import at_most
from tests.risu_ai.triggers.programs import lua, run, world

SMALL = TriggerLimits(lua_seconds=0.3)

ENDLESS = {
    "sorting long equal texts": "local t, s = {}, ('x'):rep(15e6) for i = 1, 1e5 do t[i] = s end table.sort(t)",
    "balanced brackets": "string.find(('('):rep(199000), '%b()')",
    "replaced brackets": "string.gsub(('('):rep(199000), '%b()', '')",
    "references": "string.find(('a'):rep(199000) .. 'b', '(a*)%1c')",
    "nested functions": (
        "local s = 'x' for i = 1, 150 do s = 'local a' .. i .. ' = function() ' .. s:rep(2):sub(1, 3e6) .. ' end ' end"
        " while true do load(s) end"
    ),
    "compiling": "while true do load(('local a = 1 '):rep(5e4)) end",
}


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    """A pool of the test's own."""
    made = WorkerPool()
    monkeypatch.setattr(pools, "pool", made)
    yield made
    made.close()


@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS)
def test_what_no_hook_reaches_is_ended_with_a_warning(body: str) -> None:
    with at_most(2):
        outcome = run(lua(f"function onStart(id) {body} end"), limits=SMALL)
    (warning,) = outcome.warnings
    assert "the script was stopped" in warning or "too" in warning
    assert run(lua("function onStart(id) setChatVar(id, 'a', 'alive') end"))["a"] == "alive"


def test_other_scripts_of_the_chat_start_anew_when_one_is_ended() -> None:
    engine = TriggerEngine(limits=SMALL)
    counting = lua("n = 0 function onStart(id) n = n + 1 setChatVar(id, 'n', n) end")
    endless = lua(f"function onInput(id) {ENDLESS['sorting long equal texts']} end", mode="input")
    assert [run(counting, engine=engine)["n"] for _ in range(2)] == [1, 2]
    assert "stopped" in run(endless, mode="input", engine=engine).warnings[0]
    assert run(counting, engine=engine)["n"] == 1


def _memory(session: Session) -> int:
    """Resident bytes of the worker process of a session."""
    assert session._lease is not None
    status = Path(f"/proc/{session._lease.worker._process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def test_scripts_keep_no_more_memory_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.risu_ai._triggers.lua.sandbox.LUA_KEPT_MEMORY", 40_000_000)
    engine = TriggerEngine()
    code = "kept = {{}} function {name}(id) for i = 1, 3 do kept[i] = ('x'):rep(10e6) .. i end end"
    warnings: list[str] = []
    for number in range(8):
        script = lua(code.format(name=f"f{number}"), mode="manual", name=f"f{number}")
        warnings += run(script, mode="manual", name=f"f{number}", engine=engine).warnings
    assert len([each for each in warnings if "keep more memory than they may" in each]) == 7
    assert _memory(engine._lua.session) < 200_000_000


def test_the_process_of_scripts_that_nobody_has_is_gone_or_free_again(own: WorkerPool) -> None:
    engine = TriggerEngine()
    run(lua("function onStart(id) end"), engine=engine)
    assert engine._lua.session._lease is not None
    process = engine._lua.session._lease.worker
    del engine
    gc.collect()
    assert process in own._idle or not process.is_alive
    assert not own._busy


def test_a_stuck_machine_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(*_: object) -> bytes:
        raise StuckError("did not end within 50 seconds on this machine")

    monkeypatch.setattr(Session, "request", stuck)
    with noting_degraded() as reasons:
        outcome = run(lua("function onStart(id) end"))
    assert reasons == ["a Lua script did not end within 50 seconds on this machine"]
    assert "the machine is too busy" in outcome.warnings[0]


def test_no_free_worker_ends_only_the_script(own: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy() -> None:
        raise BusyError("its worker did not start within 30 seconds")

    monkeypatch.setattr(own, "take", busy)
    outcome = run(lua("function onStart(id) end"))
    assert "the machine is too busy (its worker did not start within 30 seconds)" in outcome.warnings[0]


def test_a_script_starts_anew_when_its_process_was_killed() -> None:
    engine = TriggerEngine()
    counting = lua("n = 0 function onStart(id) n = n + 1 setChatVar(id, 'n', n) end")
    assert [run(counting, engine=engine)["n"] for _ in range(2)] == [1, 2]
    session = engine._lua.session
    assert session._lease is not None
    session._lease.worker._process.kill()
    session._lease.worker._process.wait()
    assert not session.is_open
    assert run(counting, engine=engine)["n"] == 1


def test_a_harmless_trigger_takes_less_than_a_millisecond() -> None:
    engine = TriggerEngine()
    context = world(lua("function onStart(id) setChatVar(id, 'a', 'b') end"))
    engine.run(context, "start")
    # The best of many: whatever else the machine does, it will not do it all the time.
    best = min(timeit.repeat(lambda: engine.run(context, "start"), repeat=300, number=1))
    assert best < 0.001


MANY = TriggerLimits(lua_seconds=0.1, seconds=0.2)
SORTING = ENDLESS["sorting long equal texts"]
TOO_LONG = "failed: the run took more than 0.2 seconds"


def test_scripts_that_were_ended_count_towards_the_time_of_their_run() -> None:
    """A card of a hundred such scripts kept a processor busy for ten minutes."""
    scripts = [lua(f"function onStart(id) local n = {number} {SORTING} end") for number in range(20)]
    outcome = run(*scripts, limits=MANY)
    assert len(outcome.warnings) <= 4
    assert TOO_LONG in outcome.warnings[-1]


def test_listeners_that_were_ended_count_towards_the_time_of_their_pass() -> None:
    code = "listenEdit('editRequest', function(id, data) local n = {} {} end)"
    scripts = [lua(code.format(number, SORTING)) for number in range(20)]
    warnings: list[str] = []
    edited = TriggerEngine(limits=MANY).edit(world(*scripts), "editRequest", ["a"], warn=warnings.append)
    assert edited.data == ["a"]
    assert len(warnings) <= 4
    assert TOO_LONG in warnings[-1]
