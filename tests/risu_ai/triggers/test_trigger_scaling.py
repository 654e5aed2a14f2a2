"""Single effects that go through much, or make much: the limits of a run hold inside of them, too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tavernkit._workers import processor_seconds
from tavernkit.risu_ai._triggers import TriggerEngine, TriggerLimits
from tests.quickness import linear_time
from tests.risu_ai.triggers.programs import run, trigger, world
from tests.risu_ai.triggers.test_limits import stopped_by


def extract(pattern: str, result: str, version: int) -> dict[str, Any]:
    if version == 1:
        return {"type": "extractRegex", "value": "a" * 4000, "regex": pattern, "flags": "", "result": result}
    fields: dict[str, Any] = {"value": "a" * 4000, "regex": pattern, "flags": "", "result": result}
    kinds = {f"{name}Type": "value" for name in fields}
    return {"type": "v2ExtractRegex", **fields, **kinds, "outputVar": "out", "indent": 0}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("group", ["$1", "$&"])
def test_groups_that_would_fill_the_memory_are_not_filled_in(group: str, version: int) -> None:
    outcome = run(trigger(extract("^(a+)", group * 2000, version)), lowLevelAccess=True)
    assert stopped_by(outcome) == "text"


def test_slow_names_of_lore_end_a_run_in_the_middle_of_an_effect() -> None:
    lore = [{"key": "k", "comment": f"{'a' * 60}b{number}", "content": "c"} for number in range(2000)]
    find = {"type": "v2GetLorebookByName", "name": "^(a+)+$", "nameType": "value", "outputVar": "out", "indent": 0}
    before = processor_seconds()
    with linear_time():
        outcome = run(trigger(find), globalLore=lore, limits=TriggerLimits(seconds=0.5))
        assert stopped_by(outcome) == "seconds"
    assert processor_seconds() - before < 2, "what workers do for a run counts as its time"


def test_many_conditions_over_a_long_chat_end_a_run() -> None:
    condition = {"type": "exists", "value": "a", "type2": "loose", "depth": 5000}
    with linear_time():
        outcome = run(
            trigger(conditions=[condition] * 50_000), messages=[("user", "a")] * 5000, limits=TriggerLimits(seconds=0.5)
        )
        assert stopped_by(outcome) == "seconds"


def test_a_long_text_has_as_many_keys_as_characters() -> None:
    size = {"type": "v2GetDictSize", "var": "text", "varType": "var", "outputVar": "out", "indent": 0}
    with linear_time():
        outcome = run(trigger(size), variables={"text": json.dumps("é😀" * 100_000, ensure_ascii=False)})
        assert outcome["out"] == "300000"


def test_a_command_line_of_quotes_and_bars_is_read_in_one_go() -> None:
    with linear_time():
        result = TriggerEngine().command(world(), "/pass " + '"' * 500_000 + "a|b" + '"' * 500_000)
        assert result.value is False  # the second command begins inside of no quotes and is not known
        assert TriggerEngine().command(world(), '/pass "a|b"').value == '"a|b"'
