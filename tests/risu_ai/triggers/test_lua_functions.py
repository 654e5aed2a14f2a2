"""Lua scripts beyond the vectors: values that cross, time and chance, sandboxes, keys."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tavernkit.risu_ai._cbs.context import CBSContext, RisuDevice
from tavernkit.risu_ai._objects import RisuCharacter, RisuModule, RisuSettings
from tavernkit.risu_ai._triggers import InlayData, LLMReply, TriggerEngine, TriggerLimits
from tavernkit.testing._risu_ai import ScriptedTriggerHost
from tests.risu_ai.triggers.programs import lua, run, world


def value(expression: str, **fields: Any) -> Any:
    """What an expression of Lua is, as text."""
    return run(lua(f"onStart = async(function(id) setChatVar(id, 'v', tostring({expression})) end)"), **fields)["v"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("load('return 1 + 1')()", "2"),
        ("load(function() return nil end)", "function"),
        ("select(2, load('return +'))", "unexpected symbol"),
        ("('x'):rep(3, '-')", "x-x-x"),
        ("table.concat({1, 2, 3}, ',', 2)", "2,3"),
        ("table.unpack({table.remove({1, 2, 3}, 1)})", "1"),
        ("(function() local t = {1, 3} table.insert(t, 2, 2) return table.concat(t) end)()", "123"),
        ("(function() local t = {3, 1, 2} table.sort(t) return table.concat(t) end)()", "123"),
        ("table.concat(table.move({1, 2, 3}, 1, 3, 2))", "1123"),
        ("select('#', pcall(error, 'x'))", "2"),
        ("select(2, pcall(error, 'x'))", "x"),
        ("select(2, xpcall(error, function(e) return e .. '!' end, 'x'))", "x!"),
        ("coroutine.wrap(function(a) return coroutine.yield(a) end)('y')", "y"),
        ("require('json').encode({1})", "[1]"),
        ("require('string').upper('a')", "A"),
        ("os.date('!%Y-%m-%d', 0)", "1970-01-01"),
        ("os.time({year = 1970, month = 1, day = 2, hour = 0})", "86400"),
        ("math.random(5, 5)", "5"),
        ("collectgarbage('count')", "0"),
        ("json.encode({a = 1.5})", '{"a":1.5}'),
        ('json.decode(\'{"a": [1, null, "\\\\u00e9\\\\ud83d\\\\ude00"]}\').a[3]', "é😀"),
        ("getState(id, 'none')", "nil"),
        ("utf8.char(233)", "é"),
        ("table.remove({1, 2, 3}, nil)", "3"),
        ("(('a\\0'):rep(9000)):match('a+%z+a+')", "a\0a"),
        ("json.encode(json.decode('[1, {\"a\": 2,},]'))", '[1,{"a":2}]'),
        ("type(os) .. type(io) .. type(load) .. type(require) .. type(debug)", "tabletablefunctionfunctiontable"),
        ("select(2, io.open('notes.txt'))", "notes.txt: No such file or directory"),
        ("io.read()", "nil"),
        ("select(2, xpcall(error, debug.traceback, 'x'))", "x\nstack traceback:"),
        ("debug.traceback()", "stack traceback:"),
        ("type(debug.traceback({}))", "table"),
        ("null", "null"),
        ("type(null)", "userdata"),
        ("null == nil", "false"),
        ("package.loaded.json == json and package.loaded._G == _G", "true"),
        ("select(2, pcall(require, './none'))", "no field package.preload['./none']"),
        ("select(2, pcall(require, {}))", "bad argument #1 to 'require'"),
    ],
)
def test_plain_lua_works(expression: str, expected: str) -> None:
    assert expected in value(expression)


BUNDLE = """
package.preload["./dice"] = function(name, place)
  local faces = require("./faces")
  return { roll = function() return name .. place .. faces end }
end
package.preload["./faces"] = function() loads = (loads or 0) + 1 return 6 end
package.preload["./silent"] = function() end
local dice = require("./dice")
function onStart(id)
  require("./dice")
  setChatVar(id, "v", dice.roll() .. tostring(require("./silent")) .. loads)
end
"""


def test_bundled_modules_are_loaded_once_from_preload() -> None:
    assert run(lua(BUNDLE))["v"] == "./dice:preload:6true1"


def test_require_keeps_its_tables_when_a_script_replaces_package() -> None:
    code = "package.preload.x = function() return 'kept' end package = {}"
    assert run(lua(f"{code} function onStart(id) setChatVar(id, 'v', require('x')) end"))["v"] == "kept"


def test_time_and_chance_come_from_the_context() -> None:
    moment = datetime(2024, 2, 29, 23, 30, tzinfo=UTC)
    reported = "os.date('%Y-%m-%d %H:%M') .. ' ' .. math.random(10) .. ' ' .. os.time()"
    code = f"function onStart(id) setChatVar(id, 'v', {reported}) end"
    context = world(lua(code)).replace(
        clock=lambda: moment,
        random=lambda: 0.35,
        device=RisuDevice(timezone=timezone(timedelta(hours=2))),
    )
    result = TriggerEngine().run(context, "start")
    assert result.variables["v"] == f"2024-03-01 01:30 4 {int(moment.timestamp())}"


def test_half_a_character_does_not_break_the_way_to_lua() -> None:
    assert value("#getChatVar(id, 'x')", variables={"x": "\ud83d"}) == "3"


def test_lists_and_objects_are_stored_as_they_are() -> None:
    outcome = run(lua("function onStart(id) setChatVar(id, 'l', {1, 'a', {k = true}}) setChatVar(id, 'f', print) end"))
    assert outcome["l"] == [1, "a", {"k": True}]
    assert outcome["f"] is None


def test_engines_are_shared_by_mode_and_kept_while_the_code_is_the_same() -> None:
    engine = TriggerEngine()
    context = world(lua("n = 0 function onStart(id) n = n + 1 setChatVar(id, 'n', n) end"))
    assert [engine.run(context, "start").variables["n"] for _ in range(3)] == [1, 2, 3]
    assert TriggerEngine().run(context, "start").variables["n"] == 1


def test_stale_closures_can_be_repaired() -> None:
    context = world(lua("function onStart(id) stopChat(id) end"))
    broken, repaired = TriggerEngine(), TriggerEngine(fix_stale_closures=True)
    assert [broken.run(context, "start").stop_sending for _ in range(2)] == [True, False]
    assert [repaired.run(context, "start").stop_sending for _ in range(2)] == [True, True]


def test_keys_of_other_calls_do_not_open_anything() -> None:
    engine = TriggerEngine()
    code = "function onStart(id) addChat(old or id, 'user', 'x') old = old or id end"
    context = world(lua(code))
    assert [len(engine.run(context, "start").chat.messages) for _ in range(2)] == [1, 0]


def test_keys_of_display_passes_stay_valid() -> None:
    engine = TriggerEngine()
    code = "listenEdit('editDisplay', function(id, text) old = old or id setChatVar(old, 'n', text) return text end)"
    context = world(lua(code))
    stored = [engine.edit(context, "editDisplay", text).stored.variables["n"] for text in "ab"]
    assert stored == ["a", "b"]


def test_scripts_of_a_member_know_the_group_by_its_name() -> None:
    code = "function onStart(id) setChatVar(id, 'v', getName(id) .. cbs('{{char}}')) setName(id, 'All') end"
    group = RisuCharacter.from_json({"type": "group", "name": "Both", "chaId": "g"})
    member = RisuCharacter.from_json({"name": "Mira", "chaId": "m", "triggerscript": [lua(code)]})
    result = TriggerEngine().run(CBSContext(char=group, speaker=member), "start")
    stored = result.stored.context
    assert result.variables == {"v": "BothMira"}
    assert isinstance(stored.speaker, RisuCharacter)
    assert stored.character is not None
    assert (stored.character.name, stored.speaker.name) == ("All", "Mira")


def test_a_group_runs_only_the_listeners_of_modules() -> None:
    def listener(mark: str) -> dict[str, Any]:
        return lua(f"listenEdit('editOutput', function(id, text) return text .. '{mark}' end)")

    member = RisuCharacter.from_json({"name": "Bel", "triggerscript": [listener("c")]})
    group = RisuCharacter.from_json({"type": "group"})
    module = RisuModule.from_json({"id": "m", "trigger": [listener("m")]})
    context = CBSContext(char=group, speaker=member, settings=RisuSettings(modules=(module,), enabled_modules=("m",)))
    assert TriggerEngine().edit(context, "editOutput", "x").data == "xm"


def test_pictures_come_from_the_host() -> None:
    host = ScriptedTriggerHost(asset_inlay=["a1", None])
    assert value("getCharacterImage(id)", host=host, image="assets/mira.png") == "{{inlayed::a1}}"
    assert value("getCharacterImage(id)", host=host, image="assets/mira.png") == ""


def test_missing_inlays_are_left_out_of_a_request() -> None:
    host = ScriptedTriggerHost(inlay=[None, InlayData("image", "QQ==", 1, 2)])
    value("LLM(id, {{role = 'user', content = '{{inlay::a}}{{inlay::b}}'}}, true)", host=host, lowLevelAccess=True)
    (message,) = next(call[1] for call in host.calls if call[0] == "llm")  # type: ignore[misc]
    assert message["multimodals"] == [{"type": "image", "base64": "QQ==", "width": 1, "height": 2}]


def test_active_lore_is_listed_without_a_token_limit() -> None:
    lore = [
        {"key": "", "comment": "a", "content": "@@role assistant\n{{char}} " + "x" * 9000, "alwaysActive": True},
        {"key": "dragon", "comment": "b", "content": "never"},
    ]
    for entry in lore:
        entry.update({"mode": "normal", "insertorder": 100, "secondkey": "", "selective": False})
    got = value("json.encode(loadLoreBooks(id))", globalLore=lore, lowLevelAccess=True)
    assert json.loads(got) == [{"data": "Mira " + "x" * 9000, "role": "char"}]


def test_prints_are_logged() -> None:
    host = ScriptedTriggerHost()
    run(lua("function onStart(id) print('a', 1, nil) io.write('b', 2):write('c') end"), host=host)
    assert host.calls == [("log", "a\t1\tnil"), ("log", "b2"), ("log", "c")]


def test_a_variable_set_to_nil_is_null_and_one_without_a_value_is_gone() -> None:
    code = (
        "function onStart(id) setChatVar(id, 'a', nil) setChatVar(id, 'b') setChatVar(id, 'v', getChatVar(id, 'a')) end"
    )
    result = run(lua(code)).result
    assert result.variables == {"a": None, "v": "null"}
    assert result.removed_variables == {"b"}


@pytest.mark.parametrize(("arguments", "kept"), [("1", ["b"]), ("0, nil", []), ("0, 1", ["a"])])
def test_a_cut_goes_to_the_end_only_without_an_end(arguments: str, kept: list[str]) -> None:
    code = f"function onStart(id) addChat(id, 'user', 'a') addChat(id, 'user', 'b') cutChat(id, {arguments}) end"
    assert [message.data for message in run(lua(code)).result.chat.messages] == kept


@pytest.mark.parametrize(
    ("reply", "reported"),
    [
        (LLMReply("success", "a"), "true a"),
        (LLMReply("fail", "b"), "false Error: b"),
        (LLMReply("multiline", "c"), "false c"),
        (LLMReply("streaming", "d"), "false d"),
    ],
)
def test_only_a_failure_of_a_model_is_called_an_error(reply: LLMReply, reported: str) -> None:
    code = (
        "onStart = async(function(id) local r = simpleLLM(id, 'x'):await()"
        " setChatVar(id, 'v', tostring(r.success) .. ' ' .. r.result) end)"
    )
    assert run(lua(code), host=ScriptedTriggerHost(llm=[reply]), lowLevelAccess=True)["v"] == reported


def test_the_key_of_a_display_pass_opens_variables_in_every_engine() -> None:
    code = (
        "listenEdit('editDisplay', function(id, text) setChatVar(id, 'key', id) return text end)"
        "function onStart(id) local key = getChatVar(id, 'key') setChatVar(key, 'a', '1') addChat(key, 'user', 'x') end"
    )
    engine, context = TriggerEngine(), world(lua(code))
    shown = engine.edit(context, "editDisplay", "text", index=0)
    result = engine.run(shown.stored.context, "start")
    assert result.variables["a"] == "1"
    assert not result.chat.messages


def test_only_the_first_effect_counts_for_buttons_and_listeners() -> None:
    code = {"type": "triggerlua", "code": "function onButtonClick(id, data) setChatVar(id, 'b', data) end"}
    first, second = world({"effect": [code]}), world({"effect": [{"type": "stop"}, code]})
    engine = TriggerEngine()
    assert engine.click(first, "x").stored.variables == {"b": "x"}
    assert not engine.click(second, "x").handled


def test_a_list_too_large_for_a_script_is_left_alone() -> None:
    engine = TriggerEngine(limits=TriggerLimits(lua_memory=200_000_000))
    text, warnings = "x" * 16_000_000, list[str]()
    assert engine.edit(world(lua("y = 1")), "editOutput", text, warn=warnings.append).data == text
    assert "at most" in warnings[0]


def test_integers_beyond_javascripts_are_stored_as_its_doubles() -> None:
    code = "function onStart(id) setChatVar(id, 'v', 9007199254740993) setChatVar(id, 't', getChatVar(id, 'v')) end"
    assert run(lua(code))["t"] == "9007199254740992"


def test_a_long_chat_goes_through_a_script_and_a_long_message_does_not() -> None:
    code = "function onStart(id) local c = getFullChat(id) c[1].data = c[1].data .. '!' setFullChat(id, c) end"
    limits = TriggerLimits(text=10_000)
    many = run(lua(code), messages=[("user", "x" * 1000)] * 50, limits=limits)
    assert [len(message.data) for message in many.result.chat.messages] == [1001, *[1000] * 49]
    assert not many.warnings
    long = run(lua(code), messages=[("user", "x" * 10_000)], limits=limits)
    assert "a text of more than 10000 characters" in long.warnings[0]
