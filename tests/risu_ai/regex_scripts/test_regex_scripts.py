from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit.errors import WarningLog
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage, RisuModule, RisuSettings
from tavernkit.risu_ai._regex_scripts import (
    RegexScript,
    RegexScriptRunner,
    read_scripts,
    restore_styles,
    run_translation_scripts,
    scripts_of,
    translation_scripts_of,
    write_scripts,
)
from tavernkit.risu_ai._regex_scripts import runner as runner_module
from tavernkit.risu_ai._regex_scripts.runner import _moved

CONTEXT = CBSContext(char="Bel", user="Ann")


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


def test_results_are_remembered_for_one_role_of_the_message() -> None:
    runner, script = RegexScriptRunner(), RegexScript("x", "{{role}}")
    roles = ("user", "char", "user")
    assert [runner.run("x", "editoutput", [script], CONTEXT, chat_role=role).text for role in roles] == [*roles]
    greeting = CONTEXT.replace(first_message=True)
    assert runner.run("x", "editoutput", [script], CONTEXT).text == "null"
    assert runner.run("x", "editoutput", [script], greeting).text == "char"


def test_only_the_last_five_emotions_are_kept() -> None:
    names = [f"mood{number}" for number in range(7)]
    character = RisuCharacter.from_json({"name": "Bel", "emotionImages": [[name, "path"] for name in names]})
    scripts = [RegexScript("x", f"@@emo {name}") for name in (*names, "unknown")]
    result = RegexScriptRunner().run("x", "editoutput", scripts, CONTEXT.replace(char=character))
    assert (result.text, result.emotion_changed, [*result.emotions]) == ("x", True, names[2:])


def test_repeat_back_for_a_first_message_without_a_greeting_has_no_effect() -> None:
    log = WarningLog()
    chat = RisuChat(messages=(RisuMessage(role="char", data="cur"),), greeting_index=3)
    script = RegexScript("x", "@@repeat_back")
    result = RegexScriptRunner().run("y", "editoutput", [script], CONTEXT.replace(chat=chat), index=0, warn=log)
    assert result.text == "y"
    assert "nothing to repeat" in log.messages[0]


def test_a_text_that_is_too_long_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "MAX_SCRIPT_TEXT", 3)
    log = WarningLog()
    assert run(RegexScript("a", "b"), "aaa") == "bbb"
    assert run(RegexScript("a", "b", comment="mine"), "aaaa", warn=log) == "aaaa"
    assert log.messages == ("regex script 'mine' has no effect: the text has more than 3 characters",)


def test_repeat_back_without_anything_to_repeat_says_so() -> None:
    log = WarningLog()
    context = CONTEXT.replace(chat=RisuChat(messages=(RisuMessage(role="char", data="cur"),)))
    script = RegexScript("<hp>", "@@repeat_back")
    result = RegexScriptRunner().run("text", "editoutput", [script], context, index=0, warn=log)
    assert result.text == "text"
    assert "nothing to repeat" in log.messages[0]


def test_scripts_know_nothing_of_the_member_who_speaks_in_a_group() -> None:
    group, member = RisuCharacter(name="Forge", id="g", is_group=True), RisuCharacter(name="Bel", id="b")
    context = CBSContext(char=group, speaker=member, characters=(group, member))
    script = RegexScript("^", "{{char}}: ")
    assert RegexScriptRunner().run("{{char}}", "editoutput", [script], context).text == "Forge: Forge"


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


@pytest.mark.parametrize(
    ("orders", "result"),
    [(["1", "x", "5"], "abc"), (["1", "5", "x"], "bac"), (["x", "1", "5"], "acb"), (["", "-1", "3"], "cab")],
)
def test_an_order_that_is_no_number_stays_where_javascript_leaves_it(orders: list[str], result: str) -> None:
    scripts = [
        RegexScript("$", name, flag=f"<order {order}>" if order else "", able_flag=True)
        for name, order in zip("abc", orders, strict=True)
    ]
    assert RegexScriptRunner().run("", "editoutput", scripts, CONTEXT).text == result


def test_the_order_of_a_script_of_another_kind_counts_too() -> None:
    scripts = [
        RegexScript("$", "a"),
        RegexScript("$", "b", flag="<order x>", able_flag=True, type="editinput"),
        RegexScript("$", "c", flag="<order 5>", able_flag=True),
    ]
    assert RegexScriptRunner().run("", "editoutput", scripts, CONTEXT).text == "ac"
    del scripts[1]
    assert RegexScriptRunner().run("", "editoutput", scripts, CONTEXT).text == "ca"


def test_a_full_memory_of_results_forgets_the_oldest_even_if_it_was_just_used() -> None:
    dice = random.Random(4)
    context = CONTEXT.replace(random=dice.random)
    script = RegexScript("x", "{{roll::1000000}}")
    runner = RegexScriptRunner(remember=2)

    def result(text: str) -> str:
        return runner.run(text, "editoutput", [script], context).text

    first, second = result("x1"), result("x2")
    assert (result("x1"), result("x2"), result("x1")) == (first, second, first)
    result("x3")
    assert result("x2") == second
    assert result("x1") != first


def test_an_empty_result_is_made_again() -> None:
    context = CONTEXT.replace(chat=RisuChat(messages=(RisuMessage(role="char", data="cur"),)))
    runner, script = RegexScriptRunner(), RegexScript("x", "@@inject")
    for _ in range(2):
        assert runner.run("x", "editoutput", [script], context, index=0).stored == {0: "x"}


def test_a_message_that_is_not_stored_yet_cannot_be_injected_into() -> None:
    log = WarningLog()
    context = CONTEXT.replace(chat=RisuChat(messages=(RisuMessage(role="char", data="cur"),)))
    result = RegexScriptRunner().run("a b", "editoutput", [RegexScript("a ", "@@inject")], context, index=1, warn=log)
    assert (result.text, dict(result.stored)) == ("a b", {})
    assert "no message 1" in log.messages[0]


@pytest.mark.parametrize(("text", "result"), [("aaab", "aab\n(a)"), ("aab", "aab\n(a)"), ("ab", "b"), ("ba", "ba")])
def test_a_sticky_move_goes_on_where_the_test_before_it_ended(text: str, result: str) -> None:
    assert run(RegexScript("a", "@@move_bottom ($&)", flag="y", able_flag=True), text) == result


@pytest.mark.parametrize(
    ("text", "flag", "result"),
    [("abab", "gg", "bb\n(a)"), ("\U0001f600", "gg", "\n(\ude00)"), ("ab", "", "b\n(a)")],
)
def test_the_test_before_a_move_uses_up_the_first_match_of_all(text: str, flag: str, result: str) -> None:
    pattern = "." if text.startswith("\U0001f600") else "a"
    assert run(RegexScript(pattern, "@@move_bottom ($&)", flag=flag, able_flag=True), text) == result


def test_an_empty_match_is_found_again_after_the_test_before_a_move() -> None:
    assert run(RegexScript("(?=b)", "@@move_top -", flag="gg", able_flag=True), "abab") == "-\n-\nabab"


def test_a_group_number_of_any_length_is_only_text_when_there_is_no_such_group() -> None:
    number = "9" * 5000
    assert run(RegexScript("(a)", f"@@move_top ${number}$00001"), "a") == f"${number}a\n"


def test_a_style_number_of_any_length_gives_nothing() -> None:
    assert restore_styles(f'<style-data style-index="{"9" * 5000}">x', ["s"]) == "x"
    assert restore_styles('<style-data style-index="00" />', ["s"]) == "s"
    assert restore_styles('<style-data style-index="1"/>x', ["s"]) == "x"


@pytest.mark.parametrize("flag", ["gg", "uv", "x", "g<order 1>", " g"])
def test_a_flag_for_translations_is_taken_as_it_is_written(flag: str) -> None:
    with pytest.raises(JSRegexSyntaxError):
        run_translation_scripts("a", [RegexScript("a", "b", "edittrans", flag, able_flag=True)])


def test_translations_take_templates_and_line_ends_but_no_directives() -> None:
    scripts = [
        RegexScript("", "-", "edittrans", "", able_flag=True),
        RegexScript("(b)", "<$1>$n@@move_top $$", "edittrans"),
        RegexScript("b", "never", "editdisplay"),
    ]
    assert run_translation_scripts("ab", scripts) == "-a<b>\n@@move_top $"


@given(st.text(), st.text(max_size=8), st.text(max_size=20), st.text(max_size=12))
def test_no_script_makes_a_run_raise(text: str, pattern: str, out: str, flag: str) -> None:
    run(RegexScript(pattern, out, flag=flag, able_flag=True), text, warn=lambda message: None)


@pytest.mark.parametrize(
    ("flag", "text"), [("z!", "xa"), ("<zz>z", "xa"), ("", "xx"), ("u", "xa"), ("gu", "xx"), ("<zz> ug ", "xx")]
)
def test_flags_that_leave_nothing_are_those_of_unicode(flag: str, text: str) -> None:
    assert run(RegexScript(".+?(?=a)|a", "x", "editoutput", flag, able_flag=True), "🫖a") == text
    assert run(RegexScript("^.", "x", "editoutput", "z", able_flag=True), "🫖") == "x"


def test_a_translation_without_a_character_has_no_scripts_of_modules_either() -> None:
    script = {"in": "a", "out": "b", "type": "edittrans"}
    module = RisuModule.from_json({"id": "m", "regex": [script]})
    context = CBSContext(settings=RisuSettings(modules=(module,), enabled_modules=("m",)))
    assert translation_scripts_of(context) == []
    own = RisuCharacter.from_json({"name": "Bel", "customscript": [{**script, "in": "c"}]})
    assert [each.pattern for each in translation_scripts_of(context.replace(char=own))] == ["a", "c"]
    assert [each.pattern for each in scripts_of(context.replace(char=own), [{"in": "p"}])] == ["p", "c", "a"]
