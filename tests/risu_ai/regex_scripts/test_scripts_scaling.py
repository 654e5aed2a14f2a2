"""Scripts that could take minutes, or all memory."""

from __future__ import annotations

import pytest

from tavernkit._text import regex_scripts
from tavernkit._text.regex_scripts import MAX_SLOW_SCRIPT, ScriptBudget
from tavernkit.risu_ai import Builder, RisuChat, RisuMessage
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._regex_scripts import RegexScript, RegexScriptRunner
from tests.quickness import linear_time
from tests.risu_ai.building.scene import character, inputs

CONTEXT = CBSContext(char="Bel", chat=RisuChat(messages=(RisuMessage(role="user", data=""),)))


def script(pattern: str, out: str, flag: str = "g") -> RegexScript:
    return RegexScript(pattern=pattern, out=out, type="editprocess", flag=flag, able_flag=True)


def run(text: str, *scripts: RegexScript) -> tuple[str, list[str]]:
    warnings: list[str] = []
    with linear_time():
        result = RegexScriptRunner().run(text, "editprocess", scripts, CONTEXT, index=0, warn=warnings.append)
    return result.text, warnings


def test_many_matches_are_moved_at_once() -> None:
    move = script("a", "[$&$0$7$$0]", "gg<move_top>")
    assert run("aab", move)[0] == "[aa$7$$0]\nb"
    assert run("a" * 100_000 + "b", move)[0] == "[aa$7$$0]\n" * 99_999 + "b"
    assert run("ab" * 100_000, script("a", "@@move_bottom x", "gg"))[0] == "b" * 100_000 + "\nx" * 99_999


def test_many_matches_that_would_fill_the_memory_are_not_moved() -> None:
    moved, warnings = run("b" * 5000, script("b", "@@move_top " + "x" * 5000, "gg"))
    assert moved == "b" * 5000
    assert "would move more than 16000000 characters" in warnings[0]


@pytest.mark.parametrize("group", ["$1", "$&", "$0"])
def test_one_match_that_would_fill_the_memory_is_not_moved(group: str) -> None:
    text = "a" * 20_000
    moved, warnings = run(text, script("(a+)", "@@move_top " + group * 1000, ""))
    assert moved == text
    assert "would move more than 16000000 characters" in warnings[0]


def test_a_script_that_is_slow_again_and_again_is_left_out_of_a_build() -> None:
    slow, quick = script("(a+)+c", "-"), script("b", "c")
    runner, counted = RegexScriptRunner(), ScriptBudget()
    warnings: list[str] = []
    with linear_time():
        for number in range(200):
            text = f"{'a' * 60}b{number}"
            result = runner.run(text, "editprocess", (slow, quick), CONTEXT, warn=warnings.append, budget=counted)
            assert result.text == f"{'a' * 60}c{number}"
    assert len(warnings) == MAX_SLOW_SCRIPT + 1
    assert "keeps taking too long: it no longer runs" in warnings[-1]


def test_many_slow_scripts_end_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_scripts, "MAX_SLOW_SCRIPTS", 10)
    text = "a" * 60 + "b"
    scripts = [script(f"(a+)+c{number}", "-") for number in range(300)]
    edited, warnings = run(text, *scripts, script("b", "c"))
    assert edited == text
    assert warnings[-1] == "the regex scripts take too long: the rest of them do not run"


def test_a_result_that_scripts_were_left_out_of_is_not_remembered() -> None:
    runner, spent = RegexScriptRunner(), ScriptBudget()
    while spent.may_run(script("a", "b"), "a" * 10_000_000, list[str]().append):
        pass
    replacing = (script("a", "@@b"),)
    assert runner.run("a", "editprocess", replacing, CONTEXT, budget=spent).text == "a"
    assert runner.run("a", "editprocess", replacing, CONTEXT).text == "@@b"


def test_a_script_that_cannot_be_read_is_reported_once_a_build() -> None:
    broken = [{"comment": "broken", "in": "a(", "out": "", "type": "editprocess"}]
    history = RisuChat(messages=(RisuMessage(role="char", data="a"),) * 20)
    builder = Builder(**inputs(character=character(customscript=broken), history=history))
    assert [len(builder.build().warnings) for _ in range(2)] == [1, 1]
