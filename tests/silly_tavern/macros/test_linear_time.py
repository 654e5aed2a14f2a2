"""Texts that made an expansion take minutes or gigabytes; ten seconds are plenty for each."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from tavernkit._values import Json
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._macros import LegacyMacroEngine, MacroEngine, MacroEnvironment
from tavernkit.silly_tavern._macros.limits import MAX_DICE_IN_ALL, MAX_VARIABLE_CHARS
from tests.quickness import linear_time

SILENT_CHAT = [ChatMessage(mes="x") for _ in range(5000)]

TEXTS: dict[str, Callable[[], str]] = {
    "flags": lambda: "{{" + "!" * 1_000_000 + "user}}",
    "picks": lambda: "{{pick::a::b}}😀" * 6_000,
    "picks with one colon": lambda: "{{pick:a,b}}😀" * 6_000,
    "messages that are not there": lambda: "{{lastUserMessage}}" * 20_000,
    "idle durations": lambda: "{{idleDuration}}{{idle_duration}}" * 20_000,
    "summaries": lambda: "{{summary}}" * 20_000,
    "unfinished time differences": lambda: "{{timeDiff::\n" * 60_000,
    "conditions inside each other": lambda: "{{if 1}}\n" * 1900 + " a\n" * 80_000 + "{{/if}}" * 1900,
    "tags that close nothing": lambda: "{{if 1}}{{user}}" * 1900 + "{{/user}}" * 20_000 + "{{/if}}" * 1900,
    "an array that grows": lambda: "{{setvar::x::[]}}" + "{{addvar::x::a}}" * 20_000,
    "keys of a long array": lambda: "{{setvar::x::[" + "1," * 50_000 + "1]}}" + "{{getvarkey::x::0}}" * 20_000,
    "keys that are added": lambda: (
        "{{setvar::x::[]}}" + "".join(f"{{{{setvarkey::x::{n}::a}}}}" for n in range(20_000))
    ),
    "comparisons of a long variable": lambda: "{{setvar::x::" + "1" * 300_000 + "}}" + "{{.x == a}}" * 20_000,
    "conditions on a long variable": lambda: "{{setvar::x::" + "b" * 300_000 + "}}" + "{{if .x}}a{{/if}}" * 20_000,
    "alternatives to a long variable": lambda: "{{setvar::x::" + "b" * 300_000 + "}}" + "{{.x ?? a}}" * 20_000,
    "dice": lambda: "{{roll:99999d6}}" * 5000,
}


@pytest.mark.parametrize("engine", [MacroEngine, LegacyMacroEngine])
@pytest.mark.parametrize("name", TEXTS)
def test_takes_linear_time(name: str, engine: type[MacroEngine | LegacyMacroEngine]) -> None:
    text = TEXTS[name]()
    with linear_time():
        engine().expand(text, MacroEnvironment(chat=SILENT_CHAT), warn=lambda _message: None)


@pytest.mark.parametrize("opening", ["{{if 1}}", "{{.a = ", "{{.a ?? "])
def test_what_is_nested_keeps_no_copies_of_the_text(opening: str) -> None:
    closing = "{{/if}}" if "if" in opening else "}}"
    text = opening * 1900 + "x" * 100_000 + closing * 1900
    tracemalloc.start()
    MacroEngine().expand(text, MacroEnvironment(), warn=lambda _message: None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000


def test_values_beyond_the_limit_of_variables_stay_as_text_and_are_reported_once() -> None:
    warnings: list[str] = []
    length = MAX_VARIABLE_CHARS // 3
    text = "{{setvar::x::" + "b" * length + "}}" + "{{if .x}}a{{/if}}{{hasvar::x}}" * 4 + "{{getvar::x}}"
    expanded = MacroEngine().expand(text, MacroEnvironment(), warn=warnings.append)
    assert expanded == "atrue" * 3 + "{{if .x}}a{{/if}}true{{getvar::x}}"
    assert len(warnings) == 1
    assert "characters of variables" in warnings[0]


def test_stored_lists_count_like_texts() -> None:
    environment = MacroEnvironment()
    lines: list[Json] = ["b" * 1000] * (MAX_VARIABLE_CHARS // 2500)
    environment.set_var("x", lines)
    warnings: list[str] = []
    assert (
        MacroEngine().expand("{{.x == a}}" * 4, environment, warn=warnings.append) == "falsefalse{{.x == a}}{{.x == a}}"
    )
    assert len(warnings) == 1


@pytest.mark.parametrize("engine", [MacroEngine, LegacyMacroEngine])
def test_dice_beyond_the_limit_are_not_thrown(engine: type[MacroEngine | LegacyMacroEngine]) -> None:
    thrown = 0

    def draw() -> float:
        nonlocal thrown
        thrown += 1
        return 0.0

    warnings: list[str] = []
    rolls = MAX_DICE_IN_ALL // 100_000 + 2
    expanded = engine().expand("{{roll:100000d6}} " * rolls, MacroEnvironment(random=draw), warn=warnings.append)
    assert expanded == "100000 " * (rolls - 2) + "  "
    assert thrown == MAX_DICE_IN_ALL
    assert len([warning for warning in warnings if f"more than {MAX_DICE_IN_ALL} dice" in warning]) == 1


def test_the_chat_is_looked_at_again_when_it_has_gone_on() -> None:
    chat = [ChatMessage(mes="one", is_user=True)]
    environment = MacroEnvironment(chat=chat)
    engine = MacroEngine()
    assert engine.expand("{{lastUserMessage}}", environment) == "one"
    chat.append(ChatMessage(mes="two", is_user=True))
    assert engine.expand("{{lastUserMessage}}", environment) == "two"
    chat[-1] = ChatMessage(mes="three", is_user=True)
    assert engine.expand("{{lastUserMessage}}", environment) == "three"
