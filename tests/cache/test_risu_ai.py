"""RisuAI's chats, cut in large steps."""

from __future__ import annotations

import pytest

import tavernkit as tk
from benchmarks.bench_cache import chat, chat_messages, report_of
from tavernkit import risu_ai
from tavernkit.cache import ReplayedTurn
from tavernkit.errors import ConfigError
from tavernkit.examples import example_path


def builder(turns: int = 40) -> risu_ai.Builder:
    messages: list[object] = [
        {"role": "user" if line.is_user else "char", "data": line.mes, "chatId": f"m{number}", "time": 0}
        for number, line in enumerate(chat(turns).messages)
    ]
    preset = risu_ai.Preset().replace(max_context=4000, max_response=400)
    character = tk.load(example_path("aria.json")).character.replace(extensions={})
    return risu_ai.Builder(
        character=character, history={"message": messages, "fmIndex": -1}, preset=preset, warn=None, seed=1
    )


@pytest.fixture(scope="module")
def reference() -> list[ReplayedTurn]:
    return list(risu_ai.replay(builder()))


@pytest.fixture(scope="module")
def kept() -> list[ReplayedTurn]:
    return list(risu_ai.replay(builder(), strategy="cache"))


def test_larger_steps_keep_the_cache(reference: list[ReplayedTurn], kept: list[ReplayedTurn]) -> None:
    assert report_of(reference).common_share < 0.5
    assert report_of(kept).common_share > 0.8


def test_half_of_what_risuai_keeps_is_kept(reference: list[ReplayedTurn], kept: list[ReplayedTurn]) -> None:
    for theirs, mine in zip(reference, kept, strict=True):
        assert chat_messages(mine) >= chat_messages(theirs) / 2


def test_what_is_left_out_is_reported(kept: list[ReplayedTurn]) -> None:
    plan = kept[-1].plan
    assert any("cut in a large step" in each.reason for each in plan.omissions)
    assert plan.trim_report is not None
    assert plan.trim_report.strategy == "cache"


def test_unknown_profiles_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown cache profile"):
        builder(1).build(cache_profile="nobody")
    with pytest.raises(ConfigError, match="expected_turns"):
        builder(1).build(expected_turns=-1)
