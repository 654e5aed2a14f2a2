"""What holds for all triggers and scripts, whatever is in them."""

from __future__ import annotations

import json
import random
from functools import cache
from importlib import resources
from typing import Any

import lupa.lua54
from hypothesis import strategies as st

from tavernkit.risu_ai._triggers import TriggerEngine, TriggerLimits
from tavernkit.risu_ai._triggers.effects import standard_effects
from tavernkit.risu_ai._triggers.engine import MODES
from tests.risu_ai.triggers.programs import trigger, world

LIMITS = TriggerLimits(steps=400, text=20_000, all_text=200_000, messages=200, lore=50, host_calls=20, seconds=20.0)
ENGINE = TriggerEngine(limits=LIMITS)

EFFECTS = sorted({*standard_effects(), "unknown"} - {"triggerlua"})
FIELDS = (
    *(
        "value",
        "var",
        "outputVar",
        "inputVar",
        "index",
        "start",
        "end",
        "source",
        "source1",
        "source2",
        "target",
        "key",
    ),
    *("delimiter", "item", "regex", "flags", "result", "replacement", "min", "max", "expression", "depth", "display"),
    *("name", "content", "insertOrder", "negValue", "code"),
)
TEXTS = (
    *("a", "b", "list", "dict", "t", "", "0", "1", "2", "-1", "1.5", "NaN", "1e9", "null", "{{getvar::a}}", "[x]"),
    *("{{user}}", "x" * 300, "(", "(a)|(b)", "/a/g", "g", "$1", "$&$$", '["a","b"]', '{"k":"v"}', "😀", "\ud83d", "[]"),
    *("/send x | /trigger t", "/cut 0", "/setvar key=a 5", "user", "§", "a|b", "$a*2+1", "{{random::1::2}}"),
)
KINDS = ("value", "var", "regex")
CONDITIONS = ("=", "!=", ">", "<", ">=", "<=", "∈", "∋", "∉", "∌", "≒", "≡", "null", "true", "~")

ODD: tuple[Any, ...] = (None, 3, -1, True, 0.5, [], {})


def make_program(seed: int) -> list[dict[str, Any]]:
    """Random triggers. Drawing every field by itself would take hypothesis longer than running them."""
    dice = random.Random(seed)
    return [_trigger(dice) for _ in range(dice.randint(1, 3))]


def _trigger(dice: random.Random) -> dict[str, Any]:
    body = [_effect(dice) for _ in range(dice.randint(0, 9))]
    held = [_condition(dice)] if dice.random() < 0.3 else []
    return trigger(*body, mode=dice.choice(MODES), conditions=held, name=dice.choice(("t", "other")))


def _effect(dice: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"type": dice.choice(EFFECTS)}
    for name in FIELDS:
        made[name] = dice.choice(TEXTS)
        made[f"{name}Type"] = dice.choice(KINDS)
    if dice.random() < 0.1:
        made[dice.choice(FIELDS)] = dice.choice(ODD)
    made["condition"] = dice.choice(CONDITIONS)
    made["operator"] = dice.choice(("=", "+=", "-=", "*=", "/=", "%=", "?"))
    made["location"] = dice.choice(("start", "historyend", "promptend", "elsewhere"))
    made["role"] = dice.choice(("user", "char", "system"))
    made["endOfLoop"] = dice.random() < 0.5
    if dice.random() < 0.9:
        made["indent"] = dice.randint(0, 2)
    return made


def _condition(dice: random.Random) -> dict[str, Any]:
    return {
        "type": dice.choice(("var", "value", "chatindex", "exists", "weather")),
        "var": dice.choice(TEXTS),
        "value": dice.choice(TEXTS),
        "operator": dice.choice(CONDITIONS),
        "type2": dice.choice(("strict", "loose", "regex", "other")),
        "depth": dice.choice((0, 1, -1, 3, "2", "x")),
    }


programs = st.integers(0, 2**40).map(make_program)
modes = st.sampled_from(MODES)
names = st.sampled_from(("", "t", "other"))


def check_programs_never_raise(program: list[dict[str, Any]], mode: str, name: str, low_level: bool) -> None:
    """Random programs end within their budget, do not raise, and leave what they were given."""
    context = world(
        *program,
        messages=[("char", "Hello there"), ("user", "a b")],
        variables={"a": "1", "list": '["x",1,null]', "dict": '{"k":"v"}', "t": "text"},
        lowLevelAccess=low_level,
        globalLore=[{"key": "k", "comment": "Sword", "content": "Blade", "insertorder": 5}],
    )
    before = context.variables.to_dict(), context.chat, context.character  # type: ignore[attr-defined]
    shown = '[{"role":"user","content":"x"}]'
    result = ENGINE.run(context, mode, name=name, display_data=shown, warn=lambda message: None, count_tokens=len)
    after = context.variables.to_dict(), context.chat, context.character  # type: ignore[attr-defined]
    assert before == after
    assert result.outcome in {"ok", "aborted", "error"}
    assert len(result.events) <= LIMITS.events
    assert len(result.chat.messages) <= LIMITS.messages
    assert all(len(value) <= LIMITS.text for value in result.variables.values() if isinstance(value, str))


def check_runs_repeat(program: list[dict[str, Any]]) -> None:
    """The same inputs give the same result."""

    def once() -> object:
        result = ENGINE.run(world(*program, variables={"a": "1"}), "start", warn=lambda message: None, count_tokens=len)
        return result.outcome, result.variables, result.chat, result.additions, result.stop_sending

    assert once() == once()


lines = st.lists(
    st.sampled_from(("/send", "/cut", "|", "||", '"', "x", "{{pipe}}", "key=a", "/setvar", "/len", "1-2", "/pass", "="))
    | st.text(max_size=4),
    max_size=8,
).map(" ".join)


def check_commands_never_raise(line: str) -> None:
    """Random command lines do not raise."""
    context = world(trigger(mode="manual"), messages=[("char", "a"), ("user", "b")])
    ENGINE.command(context, line, warn=lambda message: None, count_tokens=len)


PATTERN_PARTS = (
    *("a", "b", ".", "%a", "%d", "%s", "%w", "%A", "[ab]", "[^a]", "[a-c%d]", "[%w_-]", "(", ")", "()", "*", "+", "-"),
    *("?", "^", "$", "%b()", "%f[%w]", "%1", "%2", "%", "[", "]", "[]a]", "%%", " ", "é"),
)
patterns = st.lists(st.sampled_from(PATTERN_PARTS), min_size=1, max_size=7).map("".join)
subjects = st.text(alphabet="ab1 ()c_é", max_size=12)
replacements = st.sampled_from(("x", "%0", "<%1>", "%2", "%%", "%", "%x"))

_COMPARE = b"""
local text, pattern, replacement, init = ...
local function all(name, ...) return table.pack(pcall(string[name], ...)) end
local function every()
  local found = {}
  for a, b in string.gmatch(text, pattern) do
    found[#found + 1] = tostring(a) .. '/' .. tostring(b)
    if #found > 50 then break end
  end
  return table.concat(found, ';')
end
local function text_of(results)
  for i = 1, results.n do results[i] = tostring(results[i]) end
  return results[1] == 'true' and table.concat(results, '|') or 'error'
end
return text_of(all('find', text, pattern, init)) .. '\\n' .. text_of(all('match', text, pattern, init)) .. '\\n'
  .. text_of(all('gsub', text, pattern, replacement)) .. '\\n'
  .. text_of(all('gsub', text, pattern, { a = 'T', b = false }))
  .. '\\n' .. text_of(all('gsub', text, pattern, function(x) return x == 'a' and 'F' end, 2))
  .. '\\n' .. text_of(table.pack(pcall(every)))
"""


def _new_runtime() -> Any:
    make: Any = lupa.lua54.LuaRuntime
    return make(encoding=None)


@cache
def _runtime(*, ours: bool) -> Any:
    runtime = _new_runtime()
    if ours:
        source = resources.files("tavernkit.risu_ai._triggers.lua").joinpath("patterns.lua").read_bytes()
        runtime.execute(source, -1)
    return runtime


def check_patterns_agree(text: str, pattern: str, replacement: str, init: int) -> None:
    """Matching in Lua itself gives what Lua's own library gives."""
    arguments = (text.encode(), pattern.encode(), replacement.encode(), init)
    assert _runtime(ours=True).execute(_COMPARE, *arguments) == _runtime(ours=False).execute(_COMPARE, *arguments)


json_values = st.recursive(
    st.booleans() | st.integers(-(10**13), 10**13) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, min_size=1, max_size=4),
    max_leaves=12,
)


@cache
def _json() -> Any:
    runtime = _new_runtime()
    source = resources.files("tavernkit.risu_ai._triggers.lua").joinpath("json.lua").read_bytes()
    return runtime.execute(
        b"local json = ... return function(t) return json.encode(json.decode(t)) end", runtime.execute(source)
    )


def check_json_round_trips(value: object) -> None:
    """JSON without null and empty objects goes through Lua unharmed."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    assert json.loads(_json()(text.encode())) == json.loads(text)
