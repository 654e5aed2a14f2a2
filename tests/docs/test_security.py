"""The page about security names tests that there are, and limits as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tavernkit import Limits
from tavernkit._text.js_regex import limits as js_regex
from tavernkit._workers import limits as workers
from tavernkit.errors import MAX_WARNINGS_OF_A_KIND
from tavernkit.risu_ai import _limits as risu_ai
from tavernkit.risu_ai._triggers import TriggerLimits
from tavernkit.risu_ai._triggers.limits import LUA_KEPT_MEMORY

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")

LIMITS = [
    f"{js_regex.DEFAULT_TIMEOUT:g} s of processor time per call",
    f"{js_regex.MAX_SOURCE_LENGTH:,} UTF-16 units, {js_regex.MAX_PARTS:,} parts and {js_regex.MAX_DEPTH} levels",
    f"{TriggerLimits().lua_instructions:,} instructions, {TriggerLimits().lua_seconds:g} s of processor time",
    f"or a request | {TriggerLimits().seconds:g} s of processor time",
    f"{TriggerLimits().lua_memory // 10**6} MB per script",
    f"keep between calls | {LUA_KEPT_MEMORY // 10**6} MB",
    f"{risu_ai.MAX_TEMPLATE_SECONDS:g} s of processor time, {risu_ai.MAX_TEMPLATE_OUTPUT:,} characters",
    f"{Limits().max_build_steps:,} steps, {Limits().max_build_characters:,} characters",
    f"at most {Limits().max_build_memory >> 20} MiB",
    f"address space ({workers.MEMORY >> 30} GiB)",
]


@pytest.mark.parametrize("text", LIMITS)
def test_limits_are_current(text: str) -> None:
    assert text in PAGE


def test_numbers_in_words_are_current() -> None:
    assert (workers.WALL_FACTOR, workers.LEAST_WALL_SECONDS, MAX_WARNINGS_OF_A_KIND) == (10, 5, 100)


def test_every_test_that_is_named_is_there() -> None:
    """A name is that of a file, of a file and a test in it, or of a test in the file that was named last."""
    file, tests = "", 0
    for name in re.findall(r"`((?:tests/[a-z_0-9/]+\.py)?(?:::[a-z_0-9]+)?)`", PAGE):
        path, _, test = name.partition("::")
        file = path or file
        if test:
            tests += 1
            assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), name
        else:
            assert (ROOT / file).exists(), name
    assert tests > 40


def test_every_promise_of_a_table_names_a_test() -> None:
    before_fuzzing = PAGE.partition("## Fuzzing")[0]
    rows = [
        line for line in before_fuzzing.splitlines() if line.startswith("| ") and not line.endswith("| tested by |")
    ]
    assert [row for row in rows if "::test_" not in row.rsplit("|", 2)[1]] == []
