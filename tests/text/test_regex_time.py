"""Regular expressions that are each just quick enough, by the hundred: their time together has a limit."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit import Character, User, risu_ai
from tavernkit import silly_tavern as st
from tavernkit._text.js_regex import limits
from tavernkit._text.js_regex.limits import RegexTime

COUNT = 60
TEXT = "a" * 16
SCRIPTS = "the regex scripts take too long: the rest of them do not run"


def slow(number: int) -> str:
    """Takes a few milliseconds on the text."""
    return f"x{{{number}}}y|(a+)+b"


def risu_ai_warnings(**character: object) -> list[str]:
    made = risu_ai.RisuCharacter.from_json({"name": "Aria", "firstMessage": "hello", **character})
    plan = risu_ai.Builder(character=made, user=User(name="Ann")).build(message=TEXT, warn=None)
    return list(plan.warnings)


def silly_tavern_warnings(entries: dict[str, object], **inputs: Any) -> list[str]:
    book = st.WorldBook.from_json({"entries": entries}, name="world")
    builder = st.Builder(character=Character(name="Aria"), user=User(name="Ann"), books=[book])
    return list(builder.build(message=TEXT, warn=None, **inputs).warnings)


def risu_ai_scripts() -> list[str]:
    script = {"type": "editprocess", "out": "", "ableFlag": True, "flag": "g"}
    return risu_ai_warnings(customscript=[{**script, "comment": f"s{n}", "in": slow(n)} for n in range(COUNT)])


def silly_tavern_scripts() -> list[str]:
    script = {"placement": [1, 2], "promptOnly": True, "replaceString": ""}
    scripts = [
        st.RegexScript.from_json({**script, "scriptName": f"s{n}", "findRegex": f"/{slow(n)}/g"}) for n in range(COUNT)
    ]
    return silly_tavern_warnings({}, regex_scripts=st.RegexScripts(global_=tuple(scripts)))


def risu_ai_keys() -> list[str]:
    entry = {"content": "c", "mode": "normal", "insertorder": 1, "useRegex": True}
    return risu_ai_warnings(globalLore=[{**entry, "key": f"/{slow(n)}/i", "comment": f"e{n}"} for n in range(COUNT)])


def silly_tavern_keys() -> list[str]:
    return silly_tavern_warnings({str(n): {"uid": n, "key": [f"/{slow(n)}/"], "content": "c"} for n in range(COUNT)})


@pytest.mark.parametrize(
    ("build", "warning"),
    [
        (risu_ai_scripts, SCRIPTS),
        (silly_tavern_scripts, SCRIPTS),
        (risu_ai_keys, "lorebook: regex keys take too long, no more of them are looked for"),
        (silly_tavern_keys, "regex keys take too long: no more are tried in this scan"),
    ],
)
def test_many_that_are_just_quick_enough_end(build: Any, warning: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred scripts and ten messages took 24 seconds without a warning, and more of both in proportion."""
    monkeypatch.setattr(limits, "MAX_REGEX_SECONDS", 0.005)
    assert build() == [warning]


def test_pauses_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    for clock in ("processor_clock", "perf_counter"):
        monkeypatch.setattr(limits, clock, lambda: now)
    monkeypatch.setattr(limits, "MAX_REGEX_SECONDS", 10.0)
    time = RegexTime()
    for _ in range(5):
        assert time.is_left()
        now += 1  # a search
        time.pause()
        now += 100  # something else
    for _ in range(32):
        time.is_left()
        now += 1
    assert not time.is_left()


def test_any_number_of_ordinary_searches_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    for clock in ("processor_clock", "perf_counter"):
        monkeypatch.setattr(limits, clock, lambda: now)
    monkeypatch.setattr(limits, "MAX_REGEX_SECONDS", 0.001)
    time = RegexTime()
    for _ in range(10_000):
        assert time.is_left()
        now += 0.000019


def test_waiting_for_a_busy_machine_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = used = 0.0
    monkeypatch.setattr(limits, "perf_counter", lambda: now)
    monkeypatch.setattr(limits, "processor_clock", lambda: used)
    monkeypatch.setattr(limits, "MAX_REGEX_SECONDS", 1.0)
    time = RegexTime()
    for _ in range(99):
        assert time.is_left()
        now += 60
        used += 0.01
        time.pause()
    for _ in range(4):
        now += 60
        used += 0.01
        time.is_left()
        time.pause()
    assert time.is_left()  # what was not quick first counted as little
    used += 0.1
    time.pause()
    assert not time.is_left()
