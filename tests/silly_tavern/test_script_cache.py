"""Messages of which regex scripts always make the same are not worked on again every turn; all others are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit._text import regex_scripts
from tavernkit._text.js_regex import JSRegex
from tavernkit.errors import WarningLog
from tavernkit.silly_tavern import Builder, ChatMessage
from tavernkit.silly_tavern._macros import MacroEngine, MacroEnvironment
from tavernkit.silly_tavern._macros.substitution import Substitution
from tavernkit.silly_tavern._scripts.prompt_scripts import PromptScripts, ScriptCache
from tavernkit.silly_tavern._scripts.regex_scripts import RegexPlacement, RegexScript, RegexScripts
from tests.silly_tavern.scene import inputs


def script(find: str, replacement: str, **fields: object) -> RegexScript:
    json = {
        "scriptName": find,
        "findRegex": find,
        "replaceString": replacement,
        "placement": [1, 2],
        "promptOnly": True,
    }
    return RegexScript.from_json({**json, **fields})


def bound(
    *scripts: RegexScript, cache: ScriptCache, user: str = "Ann", warn: WarningLog | None = None
) -> PromptScripts:
    log = warn or WarningLog()
    macros = Substitution(MacroEngine(), MacroEnvironment(user_name=user, character_name="Bel"), warn=log)
    return PromptScripts(RegexScripts(scripts), macros, log, cache)


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []
    replace = JSRegex.replace

    def counted(regex: JSRegex, text: str, *arguments: object, **options: object) -> str:
        texts.append(text)
        return replace(regex, text, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(JSRegex, "replace", counted)
    return texts


def test_a_builder_works_on_a_message_once_for_all_turns(replaced: list[str]) -> None:
    history = [ChatMessage(name="Bel", mes="A cat."), ChatMessage(name="Bel", mes="No dog.")]
    builder = Builder(**inputs(history=history, regex_scripts=RegexScripts((script("/cat/", "<i>$0</i>"),))))
    for turn in range(3):
        plan = builder.build(message=f"Turn {turn}")
        assert any("A <i>cat</i>." in str(message.content) for message in plan.messages)
    assert (replaced.count("A cat."), replaced.count("No dog.")) == (1, 1)


def test_a_script_with_macros_sees_what_they_give_and_lets_the_others_rest(replaced: list[str]) -> None:
    cache = ScriptCache()
    scripts = (script("/a/", "b"), script("/x/", "{{noop}}{{user}}"), script("/c/", "d"))
    for _ in range(2):
        assert bound(*scripts, cache=cache).message("a x c", is_user=False, depth=0) == "b Ann d"
    assert (replaced.count("a x c"), replaced.count("b x c")) == (1, 2)
    assert bound(*scripts, cache=cache).message("a c", is_user=False, depth=0) == "b d"


def test_a_script_that_puts_in_names_is_asked_again_for_other_names_only(replaced: list[str]) -> None:
    cache = ScriptCache()
    for user in ("Ann", "Eve", "Ann", "Eve"):
        run = bound(script("/x/", "{{user}} and {{char}}"), cache=cache, user=user)
        assert run.message("a x", is_user=False, depth=0) == f"a {user} and Bel"
    assert replaced == ["a x", "a x"]


def test_scripts_count_at_their_depths_only() -> None:
    cache = ScriptCache()
    scripts = (script("/a/", "old", minDepth=2), script("/a/", "new", maxDepth=0))
    for _ in range(2):
        run = bound(*scripts, cache=cache)
        assert [run.message("a", is_user=False, depth=depth) for depth in range(4)] == ["new", "a", "old", "old"]


def test_what_a_script_could_not_do_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, broken = ScriptCache(), script("/a(/", "b")
    for _ in range(2):
        log = WarningLog()
        run = bound(broken, cache=cache, warn=log)
        assert [run.message(text, is_user=False, depth=0) for text in ("a", "aa")] == ["a", "aa"]
        assert len(log.messages) == 1
    run = bound(broken, cache=cache, warn=(log := WarningLog()))
    run.message("aa", is_user=False, depth=0)
    assert len(log.messages) == 1
    with monkeypatch.context() as patched:
        patched.setattr(regex_scripts, "MAX_SCRIPT_WORK", 0)
        assert bound(script("/a/", "b"), cache=cache).message("a", is_user=False, depth=0) == "a"
    assert bound(script("/a/", "b"), cache=cache).message("a", is_user=False, depth=0) == "b"


FINDS = ("/a/g", "/b/", "/[ab]+/g", "/^/", "/(/", "{{user}}", "/<user>/i")
REPLACEMENTS = ("b", "", "<i>$0</i>", "{{user}}", "{{match}}{{char}}", "<USER>", "\\{")
scripts_strategy = st.lists(
    st.builds(
        script,
        st.sampled_from(FINDS),
        st.sampled_from(REPLACEMENTS),
        substituteRegex=st.sampled_from([0, 1, 2]),
        trimStrings=st.sampled_from([[], ["a"], ["{{user}}"]]),
        minDepth=st.sampled_from([None, 0, 1]),
        maxDepth=st.sampled_from([None, 0, 2]),
        disabled=st.booleans(),
    ),
    max_size=4,
)


@given(
    scripts_strategy,
    st.lists(
        st.tuples(st.sampled_from(["a", "ab", "<user> a", "{{user}}", ""]), st.booleans(), st.integers(-1, 3)),
        max_size=8,
    ),
)
def test_remembering_changes_nothing(scripts: list[RegexScript], texts: list[tuple[str, bool, int]]) -> None:
    """Scripts that know texts give what scripts that are asked one by one give."""
    cache = ScriptCache()
    for user in ("Ann", "ab", "Ann"):
        run = bound(*scripts, cache=cache, user=user)
        macros = Substitution(MacroEngine(), MacroEnvironment(user_name=user, character_name="Bel"), warn=WarningLog())
        for text, is_user, depth in texts:
            assert run.message(text, is_user=is_user, depth=depth) == RegexScripts(tuple(scripts)).apply(
                text,
                RegexPlacement.USER_INPUT if is_user else RegexPlacement.AI_OUTPUT,
                expand=macros.in_script,
                is_prompt=True,
                depth=depth,
                warn=WarningLog(),
            )
