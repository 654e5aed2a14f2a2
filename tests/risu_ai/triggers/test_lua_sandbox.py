"""Attempts to get out of the Lua sandbox, and scripts that never want to end."""

from __future__ import annotations

import time

import pytest

from tavernkit.risu_ai._triggers import TriggerEngine, TriggerLimits
from tavernkit.risu_ai._triggers.limits import Budget
from tavernkit.risu_ai._triggers.lua import sandbox
from tavernkit.testing._risu_ai import ScriptedTriggerHost
from tests.risu_ai.triggers.programs import lua, run, setvar, trigger, world

GONE = [
    *(
        "package.path",
        "package.cpath",
        "package.searchers",
        "package.searchpath",
        "package.loadlib",
        "dofile",
        "loadfile",
        "python",
        "warn",
        "string.dump",
    ),
    *("io.popen", "io.lines", "io.tmpfile", "io.output", "debug.getregistry", "debug.sethook", "debug.getinfo"),
    *("debug.getmetatable", "debug.setmetatable", "debug.getupvalue", "debug.upvaluejoin", "io.open('/etc/passwd')"),
    *("os.execute", "os.remove", "os.rename", "os.getenv", "os.exit", "os.tmpname", "os.setlocale"),
]

ESCAPES = {
    "bytecode": r"return load('\27Lua')",
    "bytecode with mode": r"return load('\27LuaT\0', 'x', 'b')",
    "bytecode in pieces": r"local i = 0 return load(function() i = i + 1 return ({'\27L', 'ua'})[i] end)",
    "globals of loaded code": "return load('return dofile')()",
    "another environment": "return load('return dofile', 'x', 't', setmetatable({}, {__index = _G}))()",
    "metatable of texts": "return getmetatable('').__index.dump",
    "metatable of promises": "return getmetatable(hash('x', 'y')) or nil",
    "a loaded module of Lua": "return package.loaded.io or package.loaded.debug",
    "globals of the host": "return package.loaded._G ~= _G or nil",
    "null as a file": "return null.write or getmetatable(null) or nil",
    "closing null": "null:close() return true",
    "a module of Lua": "return require('io')",
    "a module by metatable": "return require(setmetatable({}, {__eq = function() return true end}))",
    "registry": "return debug.getregistry()",
    "python builtins": "return python and python.builtins",
    "python eval": "return python and python.eval('1')",
    "attributes of our functions": "return getChatVar.__globals__",
    "calling the dispatcher": "return call or state or raw or functions",
    "an error of ours": "local ok, e = pcall(setName, id, 42) return type(e) ~= 'string' and e or nil",
    "attributes of an error": "local ok, e = pcall(setName, id, 42) return e.__class__",
    "an error of CBS": "local ok, e = pcall(cbs, {}) return type(e) ~= 'string' and e or nil",
    "userdata among the globals": (
        "local function foreign(v) return type(v) == 'userdata' and v ~= null end"
        " for k, v in pairs(_G) do if foreign(v) then return k end"
        " if type(v) == 'table' then for n, w in pairs(v) do if foreign(w) then return n end end end end"
    ),
    "raw coroutines": "return coroutine.create == nil or nil",
}

RUNAWAYS = {
    "a loop": "while true do end",
    "goto": "::a:: goto a",
    "recursion": "local function f() return f() end f()",
    "caught loops": "while true do pcall(function() while true do end end) end",
    "caught overflows": "local function f() pcall(f) f() end f()",
    "overflows with a handler": "local function f() xpcall(f, function() return f() end) f() end f()",
    "coroutines": "while true do pcall(coroutine.wrap(function() while true do end end)) end",
    "resumed coroutines": "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "closing coroutines": (
        "while true do local c = coroutine.create(function() local x <close> = setmetatable({}, {__close = function()"
        " while true do end end}) coroutine.yield() end) coroutine.resume(c) coroutine.close(c) end"
    ),
    "a closing variable": "local x <close> = setmetatable({}, {__close = function() while true do end end})",
    "metamethods": "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
    "a callback of gsub": "('x'):gsub('.', function() while true do end end)",
    "a slow pattern": "('a'):rep(30000):find(('.-'):rep(20) .. 'b')",
    "slow patterns, caught": "while true do pcall(string.match, ('a'):rep(30000), ('a*'):rep(20) .. 'b') end",
    "a table without an end": "table.insert(setmetatable({}, {__len = function() return 2^53 end}), 1, 'x')",
    "removal without an end": "table.remove(setmetatable({}, {__len = function() return 2^53 end}), 1)",
    "moving nothing": "table.move({}, 1, 2^53, 2)",
    "memory": "local t = {} while true do t[#t + 1] = ('x'):rep(1000) end",
    "memory, caught": "while true do pcall(function() local t = {} while true do t[#t + 1] = {} end end) end",
    "large texts": "local s = ('a'):rep(4e6) while true do s = s:upper():lower() end",
    "joined texts": "local s = ('a'):rep(2e6) while true do local x = s .. s end",
    "loading code": "local s = 'return ' .. ('1+'):rep(2e5) .. '1' while true do load(s) end",
    "our functions": "while true do cbs('{{char}}') end",
    "our functions, caught": "while true do pcall(addChat, id, 'user', ('x'):rep(1e5)) end",
}

CRASHES = {
    "globals that raise": "setmetatable(_G, {__index = function() error('boom') end})",
    "globals that raise when written": "setmetatable(_G, {__newindex = function() error('boom') end})",
    "a traceback that raises": "debug = setmetatable({}, {__index = function() error('boom') end})",
    "a traceback that never ends": "debug = {traceback = function() while true do end end} error('x')",
    "an error that is a table": "error(setmetatable({}, {__tostring = function() error('boom') end}))",
    "memory kept and an error": "G = {} for i = 1, 1e5 do G[i] = ('x'):rep(500) .. i end error('x')",
    "memory in one step": "local a = ('x'):rep(3e6) G = a..a..a..a..a..a..a..a..a..a return {{}, {}}",
    "memory at the brim": f"local a = ('x'):rep(39e5) G = {'..'.join('a' * 18)} error('x')",
    "memory and large answers": "G = {} while true do G[#G + 1] = getChatVar(id, 'large') .. #G end",
    "texts of the library": "string.format = nil string.find = nil table.concat = nil json.encode = nil",
    "a broken text": "setChatVar(id, 'x', '\\xff\\xfe') return '\\xff'",
    "itself as a value": "setChatVar(id, 'x', print) setChatVar(id, print, id) return coroutine.running()",
}

REFUSED = {
    "a huge text": "string.rep('x', 1e12)",
    "a finalizer": "setmetatable({}, {__gc = function() while true do end end})",
    "joining without an end": "table.concat({}, '', 1, 2^53)",
    "sorting without an end": "table.sort(setmetatable({}, {__len = function() return 2^31 - 2 end}), rawequal)",
    "a huge search": "('a'):rep(3e6):find(('a'):rep(1.5e6) .. 'b', 1, true)",
    "too deep a table": "local a = {} for i = 1, 1000 do a = {a} end setChatVar(id, 'x', a)",
    "too deep JSON": "json.decode(('['):rep(1e5))",
    "a circle": "local t = {} t[1] = t json.encode(t)",
}

SMALL = TriggerLimits(lua_seconds=0.5, lua_instructions=3_000_000, lua_memory=16_000_000)


@pytest.mark.parametrize("name", GONE)
def test_dangerous_libraries_are_gone(name: str) -> None:
    outcome = run(lua(f"function onStart(id) setChatVar(id, 'got', tostring({name})) end"))
    assert outcome["got"] == "nil"


@pytest.mark.parametrize("attempt", ESCAPES)
def test_escapes_lead_nowhere(attempt: str) -> None:
    code = (
        f"local function try(id) {ESCAPES[attempt]} end\n"
        "function onStart(id) local ok, got = pcall(try, id) setChatVar(id, 'got', tostring(ok and got or nil)) end"
    )
    assert run(lua(code))["got"] == "nil"


@pytest.mark.parametrize("script", RUNAWAYS)
def test_runaways_are_stopped_and_reported(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[float] = []
    monkeypatch.setattr(Budget, "spend", lambda self, seconds: used.append(seconds))
    outcome = run(lua(f"function onStart(id) {RUNAWAYS[script]} end"), limits=SMALL)
    assert used
    assert sum(used) < 2 * SMALL.lua_seconds  # processor time, whatever else the machine does
    assert outcome.result.ok
    assert any(event.kind == "lua_error" for event in outcome.result.events)
    assert any("stopped" in warning or "overflow" in warning for warning in outcome.warnings)


@pytest.mark.parametrize("script", CRASHES)
def test_the_process_survives(script: str) -> None:
    engine = TriggerEngine(limits=SMALL)
    context = world(lua(f"function onStart(id) {CRASHES[script]} end"), variables={"large": "z" * 1_000_000})
    for _ in range(3):
        assert engine.run(context, "start", warn=lambda message: None).ok


@pytest.mark.parametrize("script", REFUSED)
def test_excesses_are_refused(script: str) -> None:
    outcome = run(lua(f"function onStart(id) {REFUSED[script]} setChatVar(id, 'after', '1') end"), limits=SMALL)
    assert outcome["after"] is None
    assert [event.kind for event in outcome.result.events] == ["lua_error"]


def test_a_script_that_runs_away_while_it_loads_fails_the_run() -> None:
    outcome = run(lua("while true do end"), limits=SMALL)
    assert outcome.result.outcome == "error"
    assert "stopped" in outcome.warnings[0]


def test_a_script_that_was_stopped_starts_anew() -> None:
    engine = TriggerEngine(limits=SMALL)
    code = "n = (n or 0) + 1 function onStart(id) if getChatVar(id, 'go') == '1' then while true do end end m = n end"
    context = world(lua(code), variables={"go": "1"})
    warnings: list[str] = []
    assert engine.run(context, "start", warn=warnings.append).ok
    context.variables.set("go", "0")
    assert engine.run(context, "start", warn=warnings.append).ok
    assert len(warnings) == 1
    assert f"{SMALL.lua_instructions:,} instructions or {SMALL.lua_seconds:g} seconds" in warnings[0]


def test_a_script_that_could_not_be_loaded_is_reported_each_time() -> None:
    engine = TriggerEngine()
    context = world(lua("function ("))
    warnings: list[str] = []
    outcomes = [engine.run(context, "start", warn=warnings.append).outcome for _ in range(2)]
    assert outcomes == ["error", "ok"]
    assert "could not be loaded" in warnings[1]


def test_code_that_is_too_long_is_not_loaded() -> None:
    outcome = run(lua("--" + "x" * 200), limits=TriggerLimits(lua_code=100))
    assert outcome.result.outcome == "error"
    assert "more than 100 characters" in outcome.warnings[0]


def test_time_that_the_host_takes_does_not_count() -> None:
    class Slow(ScriptedTriggerHost):
        def ask(self, text: str) -> str:
            stop = time.monotonic() + 0.3
            while time.monotonic() < stop:
                pass
            return "done"

    code = (
        "onStart = async(function(id) local a = alertInput(id, '?'):await()"
        " for i = 1, 1e5 do end setChatVar(id, 'a', a) end)"
    )
    assert run(lua(code), host=Slow(), limits=TriggerLimits(lua_seconds=0.25))["a"] == "done"


def test_without_lupa_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "find_spec", lambda _: None)
    outcome = run(lua("x = 1"))
    assert outcome.result.outcome == "error"
    assert "pip install 'tavernkit[lua]'" in outcome.warnings[0]


def test_other_triggers_do_not_need_lupa(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "find_spec", lambda _: None)
    assert run(trigger(setvar("a", "1")))["a"] == "1"


@pytest.mark.parametrize("key", ["setmetatable({}, {__tostring = function() return 1 end})", "{}", "print"])
def test_a_key_that_is_no_text_or_number_fails_in_the_script(key: str) -> None:
    code = f"function onStart(id) upsertLocalLoreBook(id, 'a', 'b', {{[{key}] = 1}}) end"
    (warning,) = run(lua(code)).warnings
    assert "for a key" in warning


@pytest.mark.parametrize("value", ["{}", "nil", "setmetatable({}, {__name = 'x'})"])
def test_an_error_that_is_not_a_text_is_reported_as_well(value: str) -> None:
    (warning,) = run(lua(f"function onStart(id) error({value}) end")).warnings
    assert warning.endswith("failed in its Lua script: it raised an error without a message")
