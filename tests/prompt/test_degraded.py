"""A plan that a stuck machine changed says so."""

from __future__ import annotations

import json

import pytest

from tavernkit import User
from tavernkit import silly_tavern as st
from tavernkit._workers import StuckError
from tavernkit._workers import pool as pools
from tavernkit.cards._character import Character
from tavernkit.errors import PipelineError, StrictModeError


class StuckPool:
    def run(self, *_: object) -> bytes:
        raise StuckError("did not end within 5 seconds on this machine")


def builder(*, strict: bool = False) -> st.Builder:
    entry = {"uid": 0, "key": ["/(a+)+b/"], "content": "lore", "comment": "c", "order": 1, "position": 0}
    book = st.WorldBook.from_json({"entries": {"0": entry}}, name="w")
    return st.Builder(character=Character(name="Aria"), user=User(name="Ann"), books=[book], strict=strict)


def test_what_the_clock_ended_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "pool", StuckPool())
    plan = builder().build(message="a" * 64)
    assert plan.degraded == ("a regex did not end within 5 seconds on this machine",)
    assert json.loads(json.dumps(plan.to_dict()))["degraded"] == list(plan.degraded)
    with pytest.raises((PipelineError, StrictModeError), match="busy"):
        builder(strict=True).build(message="a" * 64)


def test_what_processor_time_ended_is_not() -> None:
    plan = builder().build(message="a" * 64)
    assert plan.degraded == ()
    assert any("took longer than 100 ms" in warning for warning in plan.warnings)
