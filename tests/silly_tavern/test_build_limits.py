"""What the macros of all texts of a build may take together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tavernkit import Limits, Plan, User, risu_ai
from tavernkit import silly_tavern as st
from tavernkit.cards._character import Character
from tavernkit.errors import TavernKitError
from tavernkit.silly_tavern._macros import MacroEngine, MacroEnvironment
from tavernkit.silly_tavern._macros.limits import MAX_TOKENS

TOLD = "the macros of this build do too much work together: the other texts stay as they are"


def book(count: int, content: str) -> st.WorldBook:
    entry = {"key": [], "constant": True, "content": content, "order": 1, "position": 0, "ignoreBudget": True}
    entries = {str(number): {**entry, "uid": number, "comment": f"entry {number}"} for number in range(count)}
    return st.WorldBook.from_json({"entries": entries}, name="world")


def build(count: int, content: str, description: str = "x" * 10_000, **inputs: Any) -> Plan:
    character = Character(name="Aria", description=description)
    given = {"on_overflow": "return", "warn": None, "message": "hi", **inputs}
    return st.Builder(character=character, user=User(name="Ann"), books=[book(count, content)]).build(**given)


class Characters:
    """Counts nothing but characters: tokenizers take most of the time otherwise."""

    def estimate(self, text: str, model_hint: str | None = None) -> int:
        return len(text)


def test_characters_of_all_texts_have_a_limit() -> None:
    plan = build(40, "{{description}}" * 15, limits=Limits(max_build_characters=1_000_000))
    assert plan.warnings.count(TOLD) == 1


def test_macros_of_all_texts_have_a_limit() -> None:
    plan = build(40, "{{user}}" * 100, limits=Limits(max_build_steps=1000))
    assert plan.warnings.count(TOLD) == 1


def test_the_limit_holds_for_the_old_engine_too() -> None:
    settings = st.Settings.from_json({"power_user": {"experimental_macro_engine": False}})
    plan = build(40, "{{description}}" * 15, limits=Limits(max_build_characters=1_000_000), settings=settings)
    assert plan.warnings.count(TOLD) == 1


@pytest.mark.parametrize("piece", ["{{if 1}}", "{{nobody}}", "{{/if}}", "{{user::", "{{.a", "{{"])
def test_text_that_fails_counts_more_than_text_that_runs(piece: str) -> None:
    """A hundred entries of 20,000 unclosed blocks took 16 seconds; unknown and malformed macros counted nothing."""
    limits = Limits(max_build_steps=15_000)
    assert TOLD not in build(20, "{{user}}" * 400, limits=limits).warnings
    plan = build(20, piece * 1000, limits=limits)
    assert plan.warnings.count(TOLD) == 1


def test_what_was_parsed_before_counts_alike() -> None:
    builder = st.Builder(character=Character(name="Aria"), user=User(name="Ann"), books=[book(20, "{{if 1}}" * 100)])
    first, second = (
        builder.build(message="hi", on_overflow="return", warn=None, limits=Limits(max_build_steps=4000))
        for _ in range(2)
    )
    assert TOLD in first.warnings
    assert first.messages == second.messages
    assert first.warnings == second.warnings


def test_a_text_of_too_many_tokens_stays() -> None:
    text = "{{a::" * (MAX_TOKENS // 3 + 10)
    log: list[str] = []
    assert (
        MacroEngine().expand(text + "{{user}}", MacroEnvironment(user_name="Ann"), warn=log.append).endswith("{{user}}")
    )
    assert log == [f"a text has more than {MAX_TOKENS} parts of macros and stays as it is (at character 0)"]


def test_in_strict_mode_it_raises() -> None:
    with pytest.raises(TavernKitError, match="too much work together"):
        build(40, "{{user}}" * 100, limits=Limits(max_build_steps=1000), strict=True)


def test_a_large_book_is_no_problem() -> None:
    assert TOLD not in build(100_000, "{{char}} meets {{user}}.", token_estimator=Characters()).warnings


def test_risu_ai_counts_alike() -> None:
    character = risu_ai.RisuCharacter.from_json({"name": "Aria", "desc": "{{user}} " * 5000})
    history = [{"role": "user", "content": "{{user}}" * 500} for _ in range(20)]
    plan = risu_ai.Builder(character=character, user=User(name="Ann")).build(
        history=history, message="hi", on_overflow="return", warn=None, limits=Limits(max_build_steps=1000)
    )
    assert any("do too much work together" in warning for warning in plan.warnings)


KEPT = Limits(max_build_memory=100_000)
"""Less than ten descriptions."""


@pytest.mark.parametrize("modern", [True, False])
def test_texts_that_a_build_keeps_have_a_limit(modern: bool) -> None:
    settings = st.Settings.from_json({"power_user": {"experimental_macro_engine": modern}})
    plan = build(40, "{{user}} " + "x" * 10_000, limits=KEPT, settings=settings, context_length=10**6)
    assert plan.warnings.count(TOLD) == 1
    whole = "\n".join(str(message.content) for message in plan.messages)
    assert 3 < whole.count("Ann x") < 10
    assert whole.count("{{user}} x") == 40 - whole.count("Ann x")  # what is over the limit stays text


@pytest.mark.parametrize(("letter", "fitting"), [("x", 9), ("\u00e9", 2)])
def test_variables_that_a_build_writes_have_a_limit(letter: str, fitting: int) -> None:
    """What is kept is estimated by characters, alike on every machine."""
    value = letter * 10_000
    text = "".join(f"{{{{setvar::v{number}::{value}}}}}" for number in range(20))
    plan = build(0, "", description=text, limits=KEPT)
    assert len(plan.variables.values["local"]) == fitting
    assert any("keeps too much: the variable 'v9' is not written" in warning for warning in plan.warnings)


def test_a_variable_that_is_written_again_counts_once() -> None:
    text = "".join(f"{{{{setvar::v::{letter * 10_000}}}}}" for letter in "abcdefghijklmnopqrst")
    plan = build(0, "", description=text, limits=KEPT)
    assert plan.variables.values["local"]["v"] == "t" * 10_000
    assert not any("keeps too much" in warning for warning in plan.warnings)


def risu_builder(template: list[dict[str, object]], **character: object) -> risu_ai.Builder:
    return risu_ai.Builder(
        character=risu_ai.RisuCharacter.from_json({"name": "Aria", **character}),
        user=User(name="Ann"),
        preset=risu_ai.Preset.from_json({"promptTemplate": template, "maxContext": 10**9}),
    )


def test_risu_ai_keeps_no_more_messages_than_it_may() -> None:
    """Every card of a template may print the whole description: three thousand cards made a prompt of 3 GB."""
    cards: list[dict[str, object]] = [{"type": "description"}, {"type": "chat", "rangeStart": 0, "rangeEnd": "end"}]
    builder = risu_builder(cards * 50, desc="x" * 9000, firstMessage="hello")
    plan = builder.build(message="hi", on_overflow="return", warn=None, limits=KEPT)
    assert sum(len(str(message.content)) for message in plan.messages) <= 100_000
    assert "the template prints more than the build may keep: the rest is left out" in plan.warnings
    with pytest.raises(TavernKitError, match="more than the build may keep"):
        builder.build(message="hi", warn=None, limits=KEPT, strict=True)


def test_risu_ai_keeps_no_more_variables_than_it_may() -> None:
    effects = [{"type": "setvar", "operator": "=", "var": f"v{n}", "value": "x" * 10_000} for n in range(20)]
    trigger = {"comment": "t", "type": "start", "conditions": [], "effect": effects}
    plan = risu_builder([], triggerscript=[trigger]).build(message="hi", warn=None, limits=KEPT)
    assert any("keeps too much: the variable" in warning for warning in plan.warnings)
    assert len(plan.variables.values["local"]) == 9


WHOLE = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from tests.silly_tavern.test_build_limits import TOLD, Characters, build
plan = build({count}, {start!r} * {times} + {end!r} * {times}, description="x" * {length}, token_estimator=Characters())
assert plan.warnings.count(TOLD) == 1, plan.warnings
used = resource.getrusage(resource.RUSAGE_SELF)
memory = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(used.ru_utime + used.ru_stime, memory)  # not ru_maxrss, which begins with the parent's
"""


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited as on Linux")
@pytest.mark.parametrize(
    ("count", "start", "end", "times", "length"),
    [(300, "{{description}}", "", 15, 1_000_000), (100, "{{if 1}}", "{{/if}}", 20_000, 1)],
    ids=["descriptions", "ifs"],
)
def test_a_process_of_two_gibibytes_is_enough(count: int, start: str, end: str, times: int, length: int) -> None:
    """A review made these: the first needed 8.6 GiB, the second took minutes."""
    code = WHOLE.format(count=count, start=start, end=end, times=times, length=length)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr[-2000:]
    seconds, kilobytes = map(float, done.stdout.split())
    assert seconds < 30
    assert kilobytes < 1_500_000
