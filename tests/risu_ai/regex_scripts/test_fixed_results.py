"""A text of which scripts make the same in every context is not worked on again; every other one is."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit._text.js_regex import JSRegex
from tavernkit._text.regex_scripts import ScriptStretches
from tavernkit.errors import WarningLog
from tavernkit.risu_ai import CBSEngine, RisuChat, RisuMessage
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._regex_scripts import RegexScript, RegexScriptRunner, ScriptResult
from tavernkit.risu_ai._regex_scripts.script import FixedTexts, ScriptLists
from tavernkit.stores import InMemoryVariablesStore
from tests.risu_ai.building.scene import character, inputs
from tests.risu_ai.regex_scripts.test_mode_scripts import CONTEXT, script


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []
    replace = JSRegex.replace

    def counted(regex: JSRegex, text: str, out: str, **options: object) -> str:
        texts.append(text)
        return replace(regex, text, out, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(JSRegex, "replace", counted)
    return texts


def run(runner: RegexScriptRunner, text: str, scripts: tuple[RegexScript, ...], index: int = 0) -> str:
    return runner.run(text, "editprocess", scripts, CONTEXT, index=index).text


def test_a_text_is_worked_on_once_for_all_places_and_chats(replaced: list[str]) -> None:
    lists, scripts = ScriptLists(), (script("a", "<b>{{upper::x}}"),)
    engine = CBSEngine()
    for index in range(3):
        runner = RegexScriptRunner(engine, lists=lists)
        assert run(runner, "a cat", scripts, index) == "<b>X c<b>Xt"
    assert replaced == ["a cat"]


@pytest.mark.parametrize("out", ["{{chatindex}}", "{{user}}", "{{random::1::2}}", "{{getvar::x}}", "{{time}}"])
def test_what_depends_on_the_context_is_made_again(replaced: list[str], out: str) -> None:
    runner, scripts = RegexScriptRunner(), (script("a", out),)
    for index in range(3):
        run(runner, "a", scripts, index)
    assert len(replaced) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a {{chatindex}}", ["b 0", "b 1", "b 2"]), ("a {{getvar::x}}", ["b null", "b 1", "b 2"])],
)
def test_a_text_that_depends_on_the_context_is_expanded_again(text: str, expected: list[str]) -> None:
    runner, scripts, variables = RegexScriptRunner(), (script("a", "b"),), InMemoryVariablesStore()
    made: list[str] = []
    for index in range(3):
        context = CONTEXT.replace(variables=variables)
        made.append(runner.run(text, "editprocess", scripts, context, index=index).text)
        variables.set("x", str(index + 1), "local")
    assert made == expected


def test_scripts_run_once_over_what_texts_with_cbs_become(replaced: list[str]) -> None:
    runner, scripts = RegexScriptRunner(), (script("a", "b"),)
    for index in range(3):
        assert run(runner, "a <user>", scripts, index) == "b Ann"
    assert replaced == ["a Ann"]


@pytest.mark.parametrize(
    "varying",
    [
        script("x", "{{chatindex}}"),
        script("x", "y{{random::1::2}}"),
        script("x", "@@emo joy"),
        script("x", "@@inject"),
        script("{{user}}|x", "y", "g<cbs>"),
        script("nowhere", "@@repeat_back end"),
    ],
)
def test_a_script_that_depends_on_the_context_lets_the_others_rest(replaced: list[str], varying: RegexScript) -> None:
    scripts = (script("a", "b"), varying, script("c", "d"))
    runner = RegexScriptRunner()
    for index in range(3):
        run(runner, "a x c", scripts, index)
    assert replaced.count("a x c") == 1


@pytest.mark.parametrize(
    "quiet", [script("x", "{{chatindex}}"), script("x", "@@emo joy"), script("{{upper::x}}", "@@inject", "g<cbs>")]
)
def test_scripts_that_find_nothing_depend_on_nothing(replaced: list[str], quiet: RegexScript) -> None:
    runner, scripts = RegexScriptRunner(), (script("a", "b"), quiet, script("c", "d"))
    for index in range(3):
        assert run(runner, "a c", scripts, index) == "b d"
    assert replaced in (["a c", "b c"], ["a c", "b c", "b c"])


def test_a_script_that_is_warned_about_is_warned_about_every_time() -> None:
    runner, scripts, log = RegexScriptRunner(), (script("a(", "b"),), WarningLog()
    for index in range(2):
        runner.run("a", "editprocess", scripts, CONTEXT, index=index, warn=log)
    assert len(log.messages) == 2


def test_a_new_function_is_seen() -> None:
    engine = CBSEngine()
    runner, scripts = RegexScriptRunner(engine), (script("a", "{{weather}}"),)
    assert run(runner, "a", scripts, 0) == "{{weather}}"
    engine.registry.register("weather", lambda _: "rain")
    assert run(runner, "a", scripts, 1) == "rain"


def test_long_texts_are_kept_while_there_is_room(replaced: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.risu_ai._regex_scripts.script.CACHED_SCRIPT_CHARACTERS", 100_000)
    runner, scripts = RegexScriptRunner(), (script("a", "b"),)
    for _ in range(2):
        run(runner, "x" * 10_000, scripts, 0)
    assert len(replaced) == 1
    for index in range(2):
        run(runner, "y" * 40_000, scripts, index)
    assert len(replaced) == 3


def test_a_builder_works_on_a_message_once_for_all_turns(replaced: list[str]) -> None:
    from tavernkit.risu_ai import Builder

    custom = [{"in": "Welcome", "out": "Hail", "type": "editprocess"}]
    builder = Builder(**inputs(character=character(customscript=custom)))
    for _ in range(3):
        assert any("Hail." in block.content for block in builder.build().blocks)
    assert replaced.count("Welcome.") == 1


TEXTS = (
    "a",
    "b",
    "",
    "ab {{chatindex}}",
    "<user> a",
    "<i>b</i>",
    "{{random::a::b}}",
    "{{getvar::x}}a",
    "{{#if 1}}a{{/if}}",
)
OUTS = (
    *("b", "", "<i>$&</i>", "{{chatindex}}", "{{random::a::b}}", "$1{{", "@@move_top x"),
    *("@@inject", "@@repeat_back end_nl", "@@emo joy"),
)
scripts_strategy = st.lists(
    st.builds(
        script, st.sampled_from(["a", "b", "[ab]", "^", "("]), st.sampled_from(OUTS), st.sampled_from(["", "g<cbs>"])
    ),
    min_size=1,
    max_size=3,
).map(tuple)


@given(
    scripts_strategy,
    st.lists(st.tuples(st.sampled_from(TEXTS), st.integers(-1, 3)), max_size=12),
    st.integers(1, 4),
)
def test_remembering_changes_nothing(
    scripts: tuple[RegexScript, ...], calls: list[tuple[str, int]], remember: int
) -> None:
    """A runner that shares what other chats have seen gives what one that knows nothing gives, dice included."""

    def results(lists: ScriptLists) -> list[ScriptResult]:
        messages = tuple(RisuMessage(role="char", data=text) for text in TEXTS)
        context = CBSContext(
            char="Bel",
            user="Ann",
            chat=RisuChat(messages=messages),
            variables=InMemoryVariablesStore({"local": {"x": "1"}}),
            random=random.Random(7).random,
        )
        runner = RegexScriptRunner(remember=remember, lists=lists)
        return [runner.run(text, "editprocess", scripts, context, index=index) for text, index in calls]

    shared = ScriptLists()
    first = results(shared)
    assert results(shared) == first
    assert results(_Forgetful()) == first


class _ForgottenTexts(FixedTexts):
    def __init__(self) -> None:
        super().__init__()
        self.stretches = ScriptStretches(1)  # every stretch weighs more

    def get(self, *_: object, **__: object) -> None:
        return None


class _Forgetful(ScriptLists):
    """Remembers no text."""

    def __init__(self) -> None:
        super().__init__()
        self.fixed_texts = _ForgottenTexts()
