from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.errors import WarningLog
from tavernkit.risu_ai.context import RisuContext
from tavernkit.risu_ai.regex_scripts import RegexScript, RegexScriptRunner, read_scripts, write_scripts
from tavernkit.risu_ai.regex_scripts.runner import _moved
from tavernkit.risu_ai.world import RisuChat, RisuMessage
from tavernkit.text.js_regex import JSRegex

CONTEXT = RisuContext(char="Bel", user="Ann")


def run(script: RegexScript, text: str, **more: object) -> str:
    return RegexScriptRunner().run(text, "editoutput", [script], CONTEXT, **more).text  # type: ignore[arg-type]


def test_a_broken_pattern_is_reported_by_name_and_changes_nothing() -> None:
    log = WarningLog()
    assert run(RegexScript("(", "x", comment="broken one"), "a(b", warn=log) == "a(b"
    assert "broken one" in log.messages[0]


def test_a_pattern_that_never_ends_is_given_up_with_a_warning() -> None:
    log = WarningLog()
    text = "a" * 40 + "b"
    assert run(RegexScript("(a+)+$", "x"), text, warn=log) == text
    assert log.messages


def test_results_are_remembered_so_that_dice_are_not_rolled_again() -> None:
    runner = RegexScriptRunner()
    context = CONTEXT.replace(random=random.Random(1).random)
    script = RegexScript("x", "{{random::a::b::c::d::e::f::g::h}}")
    results = {runner.run("x", "editoutput", [script], context).text for _ in range(20)}
    assert len(results) == 1


def test_repeat_back_without_anything_to_repeat_says_so() -> None:
    log = WarningLog()
    context = CONTEXT.replace(chat=RisuChat(messages=(RisuMessage(role="char", data="cur"),)))
    script = RegexScript("<hp>", "@@repeat_back")
    result = RegexScriptRunner().run("text", "editoutput", [script], context, index=0, warn=log)
    assert result.text == "text"
    assert "nothing to repeat" in log.messages[0]


def test_hooks_run_before_scripts_but_not_on_history() -> None:
    script = RegexScript("b", "c")
    history = RegexScript("b", "c", type="editprocess")

    def hook(text: str, mode: object, index: int) -> str:
        return text.replace("a", "b")

    runner = RegexScriptRunner()
    assert runner.run("a", "editoutput", [script], CONTEXT, before=hook).text == "c"
    assert runner.run("a", "editprocess", [history], CONTEXT, before=hook).text == "a"


def test_scripts_come_back_from_a_file_as_they_were() -> None:
    data = {"comment": "c", "in": "a", "out": "b", "type": "editoutput", "flag": "g<order 2>", "ableFlag": True, "x": 1}
    log = WarningLog()
    scripts = read_scripts({"type": "regex", "data": [data, 5]}, "the file", log)
    assert write_scripts(scripts) == {"type": "regex", "data": [data]}
    assert "script 1 of the file" in log.messages[0]
    assert RegexScript("a", "b").to_json() == {"in": "a", "out": "b", "type": "editoutput"}


@pytest.mark.parametrize(("template", "piece"), [("$1-$2", "a-undefined"), ("$3 $$1 $&", "$3 $$1 a"), ("$0", "a")])
def test_moved_text_fills_groups_in_its_own_way(template: str, piece: str) -> None:
    found = JSRegex.compile("(a)(b)?").search("a")
    assert found is not None
    assert _moved(template, found) == piece


@given(st.text(), st.text(max_size=8), st.text(max_size=20), st.text(max_size=12))
def test_no_script_makes_a_run_raise(text: str, pattern: str, out: str, flag: str) -> None:
    run(RegexScript(pattern, out, flag=flag, able_flag=True), text, warn=lambda message: None)
