"""Texts and lists that made a build take minutes; ten seconds are plenty for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tavernkit._text.regex_scripts import ScriptBudget
from tavernkit.cards._silly_tavern.stored import sanitize
from tavernkit.silly_tavern import ChatMessage, RegexPlacement, RegexScript, RegexScripts
from tavernkit.silly_tavern._chat.chat_log import ChatLog
from tavernkit.silly_tavern._chat.extension_prompts import script_injects
from tavernkit.silly_tavern._chat.output_cleanup import CleanUp, clean_up
from tavernkit.silly_tavern._macros import MacroEngine, MacroEnvironment
from tavernkit.silly_tavern._templates.handlebars.rendering import Piece
from tavernkit.silly_tavern._text_completion.story import split_by_parameter
from tavernkit.silly_tavern.providers._chat.google import convert_google
from tavernkit.silly_tavern.providers._chat.messages import PromptNames
from tavernkit.silly_tavern.providers._chat.shared import embed_media
from tests.quickness import linear_time
from tests.silly_tavern.scene import build, order, preset

ENVIRONMENT = MacroEnvironment()
ENGINE = MacroEngine()


def expand(text: str, /, **_options: object) -> str:
    return ENGINE.expand(text, ENVIRONMENT)


def run_script(text: str, find: str, replace: str, *trim_strings: str) -> list[str]:
    script = {"scriptName": "s", "findRegex": find, "replaceString": replace, "trimStrings": list(trim_strings)}
    warnings: list[str] = []
    RegexScript.from_json(script).run(text, expand=expand, warn=warnings.append)
    return warnings


def many_prompts(count: int) -> object:
    prompts = [{"identifier": f"p{n}", "name": f"p{n}", "role": "system", "content": "x"} for n in range(count)]
    lines = order(*(f"p{n}" for n in range(count)), "chatHistory")
    return build(preset=preset(openai_max_context=10**7, prompts=prompts, prompt_order=lines))


def calls(*ids: str) -> list[dict[str, Any]]:
    return [{"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}} for each in ids]


def answers(*ids: str) -> list[dict[str, Any]]:
    return [{"role": "tool", "content": f"result of {each}", "metadata": {"tool_call_id": each}} for each in ids]


def tool_log(asked: list[str], answered: list[str]) -> ChatLog:
    asking = {"role": "assistant", "content": "", "metadata": {"tool_calls": calls(*asked)}}
    return ChatLog([asking, *answers(*answered)])


NAMES = PromptNames()
MANY_IDS = [f"c{n}" for n in range(10_000)]
MANY_FILTERS = [{"value": "x", "filter": f"/return{' ' * 9_900}{{"}] * 200
BAD_URL = "data:" + "a" * 500_000

CASES: dict[str, Callable[[], object]] = {
    "prompts of a preset": lambda: many_prompts(8000),
    "results of one reply's tool calls": lambda: tool_log(MANY_IDS, MANY_IDS),
    "results nobody asked for": lambda: tool_log(["c"], [f"x{n}" for n in range(10_000)]),
    "references without an end": lambda: run_script("aaa", "/a/g", "$<" * 300_000),
    "references to nothing": lambda: run_script("a" * 100_000, "/a/g", "$9" * 10_000),
    "the whole text, trimmed at each match": lambda: run_script("a" * 200_000, "/a/g", "$2", "a"),
    "trim strings": lambda: run_script("a" * 10_000, "/a/g", "$0", *(f"z{n}" for n in range(10_000))),
    "macros at each match": lambda: run_script("a" * 200_000, "/a/g", "{{noop}}" * 20),
    "pieces that are not in the story": lambda: split_by_parameter(
        "a" * 200_000, [Piece("a" * 20 + "b", "p")] * 20_000
    ),
    "an end that is nearly a stop string": lambda: clean_up(
        "a" * 400_000 + "c", CleanUp(user_name="u", character_name="c", stop_strings=["a" * 400_000 + "b"])
    ),
    "braces in the message": lambda: build(message="{{" * 100_000, preset=preset(openai_max_context=10**7)),
    "a picture's address without a comma": lambda: embed_media(
        [{"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": BAD_URL}}]}]
    ),
    "a picture's address without a comma for Google": lambda: convert_google(
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": BAD_URL}}]}],
        model="gemini",
        use_system_prompt=True,
        names=NAMES,
    ),
    "blanks in filters of injects": lambda: list(script_injects(MANY_FILTERS, str, lambda _message: None)),
    "dots and blanks in a name": lambda: sanitize(". " * 300_000 + "x"),
}


@pytest.mark.parametrize("name", CASES)
def test_takes_linear_time(name: str) -> None:
    with linear_time():
        CASES[name]()


def test_results_go_to_the_newest_call_of_their_id() -> None:
    first = {"role": "assistant", "content": "", "metadata": {"tool_calls": calls("a", "b", "a")}}
    log = ChatLog([first, first, *answers("a")])
    log.append({"role": "tool", "content": "unasked", "metadata": {"tool_call_id": "z"}})
    results = [[each["result"] for each in line.tool_invocations or ()] for line in log.lines[:2]]
    assert results == [["", "", ""], ["result of a", "", "result of a"]]
    assert log.lines[2].mes == "unasked"
    log.clear()
    log.append(ChatMessage(mes="again"))
    log.append(answers("a")[0])
    assert [line.mes for line in log.lines] == ["again", "result of a"]


def test_a_script_that_has_too_much_to_do_says_so() -> None:
    (warning,) = run_script("a" * 200_000, "/a/g", "{{noop}}")
    assert "too much to do" in warning


@pytest.mark.parametrize(
    ("template", "replaced"),
    [("$1$<n>!", "bb!"), ("$<n>$<", "b$<"), ("$<>$1", "$<>b"), ("$<x>$01>$1$", "b>b$"), ("", ""), ("{{match}}", "ab")],
)
def test_references_are_filled(template: str, replaced: str) -> None:
    script = {"scriptName": "s", "findRegex": "/a(?<n>b)/g", "replaceString": template}
    assert RegexScript.from_json(script).run("ab", expand=expand) == replaced


def test_scripts_that_double_every_text_are_stopped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit._text.regex_scripts.MAX_SCRIPT_WORK", 50_000)
    double = {"scriptName": "s", "findRegex": "/./g", "replaceString": "{{match}}{{match}}", "placement": [1]}
    scripts = RegexScripts(tuple(RegexScript.from_json({"id": str(each), **double}) for each in range(10)))
    budget, warnings = ScriptBudget(), list[str]()
    made = scripts.apply("x" * 100, RegexPlacement.USER_INPUT, expand=expand, warn=warnings.append, budget=budget)
    assert warnings == ["the regex scripts take too long: the rest of them do not run"]
    assert budget.spent
    assert len(made) < 100 * 2**10
