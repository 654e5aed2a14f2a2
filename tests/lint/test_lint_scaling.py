"""Files that take long to check, or nest deeply: the check ends, and says what it left out."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tavernkit._text.js_regex import JSRegex
from tavernkit.lint import _texts as texts
from tavernkit.lint import lint_file
from tavernkit.lint._scripts import measure_worst_case


@pytest.fixture(autouse=True)
def short_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MAX_SECONDS", 1.0)


def codes(path: Path) -> list[str]:
    started = time.monotonic()
    found = [each.code for each in lint_file(path)[1]]
    assert time.monotonic() - started < 15
    return found


def test_many_slow_expressions_are_not_all_measured(tmp_path: Path) -> None:
    scripts = [{"findRegex": f"/(a+)+b{number}/", "placement": [1], "replaceString": ""} for number in range(500)]
    (tmp_path / "scripts.json").write_text(json.dumps([*scripts, {"findRegex": "/(/", "placement": [1]}]))
    found = codes(tmp_path / "scripts.json")
    assert found[-1] == "NOT_ALL_TRIED"
    assert "SLOW_REGEX" in found
    assert "BAD_REGEX" in found  # what is wrong is found all the same


def test_many_texts_that_take_long_are_not_all_expanded(tmp_path: Path) -> None:
    loops = "{{#each 1§2§3§4§5§6§7§8 as a}}" * 8 + "{{slot::a}}" + "{{/each}}" * 8
    entries = [{"key": "a", "content": f"{loops}{number}", "mode": "normal"} for number in range(300)]
    (tmp_path / "lore.json").write_text(json.dumps({"type": "risu", "ver": 1, "data": entries}))
    assert codes(tmp_path / "lore.json")[-1] == "NOT_ALL_TRIED"


def test_a_template_that_nests_too_deeply_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "deep.jinja").write_text("{{ " + "(" * 100_000)
    assert codes(tmp_path / "deep.jinja") == ["BAD_TEMPLATE"]


def test_an_expression_that_is_just_quick_enough_is_not_tried_for_ever() -> None:
    started = time.monotonic()
    measure_worst_case(JSRegex.compile("(?:" + "|".join("abcdefgh") + ")*.*.*=x"))
    assert time.monotonic() - started < 10
