"""Scripts are made ready once for a list, however many texts run through it."""

from __future__ import annotations

import pytest

from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._regex_scripts import RegexScript, RegexScriptRunner

CONTEXT = CBSContext(char="Bel", user="Ann")


def script(pattern: str, out: str, flag: str = "") -> RegexScript:
    return RegexScript(pattern=pattern, out=out, type="editprocess", flag=flag, able_flag=bool(flag))


def test_a_list_is_made_ready_once_for_all_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[RegexScript] = []
    compile_script = RegexScript.compile
    monkeypatch.setattr(RegexScript, "compile", lambda each: (compiled.append(each), compile_script(each))[1])
    runner, scripts = RegexScriptRunner(), [script("a", "b"), script("c", "d", "gi<order 2>")]
    texts = [runner.run(f"aC {n}", "editprocess", scripts, CONTEXT, index=n).text for n in range(50)]
    assert texts[:2] == ["bd 0", "bd 1"]
    assert compiled == scripts


def test_a_list_that_changed_is_made_ready_anew() -> None:
    runner, scripts = RegexScriptRunner(), [script("a", "b")]
    assert runner.run("a", "editprocess", scripts, CONTEXT).text == "b"
    scripts[0] = script("a", "c")
    assert runner.run("a", "editprocess", scripts, CONTEXT).text == "c"
    scripts.append(script("c", "d"))
    assert runner.run("a", "editprocess", scripts, CONTEXT).text == "d"


def test_texts_without_cbs_need_no_context_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    replace = CBSContext.replace
    monkeypatch.setattr(
        CBSContext, "replace", lambda context, **changes: (made.append(changes), replace(context, **changes))[1]
    )
    runner, scripts = RegexScriptRunner(), [script("a", "b")]
    assert runner.run("a", "editprocess", scripts, CONTEXT, index=3).text == "b"
    assert not made
    assert runner.run("a {{chatindex}} {{user}}", "editprocess", scripts, CONTEXT, index=3).text == "b 3 Ann"
    assert len(made) == 1


def test_a_pattern_with_cbs_is_another_one_when_its_values_change() -> None:
    runner, scripts = RegexScriptRunner(), [script("{{user}}", "x", "g<cbs>")]
    assert runner.run("Ann Eve", "editprocess", scripts, CONTEXT).text == "x Eve"
    assert runner.run("Ann Eve", "editprocess", scripts, CONTEXT.replace(user="Eve")).text == "Ann x"
