"""Stored memories and settings that take much, or have no end."""

from __future__ import annotations

import math
import time

import pytest

from tavernkit._values import FrozenJson
from tavernkit.risu_ai._memory.hypa_v3 import HypaV3Settings
from tavernkit.risu_ai._objects import whole_number
from tests.risu_ai.memory.chats import run_memory, spoken, start

LONG = 10.0
"""Seconds that nothing here may take; what is not linear takes minutes."""


def test_many_chunks_of_many_summaries_are_looked_up() -> None:
    main: FrozenJson = [{"id": number, "text": "M", "chatMemos": []} for number in range(20_000)]
    chunks: FrozenJson = [{"mainChunkID": number, "text": f"{number}"} for number in range(40_000)]
    data: FrozenJson = {"lastMainChunkID": 1, "mainChunks": main, "chunks": chunks}
    started = time.monotonic()
    outcome = run_memory([start(), *spoken("a")], {"hypav2": True}, {"hypaV2Data": data}, max_context=10_000)
    stored = outcome.stored["hypaV2Data"]
    assert isinstance(stored, dict)
    assert isinstance(stored["chunks"], list)
    assert len(stored["chunks"]) == 20_000
    assert time.monotonic() - started < LONG


def test_ids_that_are_no_plain_values_are_compared_all_the_same() -> None:
    main: FrozenJson = [{"id": [1], "text": "M", "chatMemos": []}, {"id": 2, "text": "N", "chatMemos": [["m0"]]}]
    chunks: FrozenJson = [{"mainChunkID": [1], "text": "a"}, {"mainChunkID": 2, "text": "b"}]
    data: FrozenJson = {"lastMainChunkID": 1, "mainChunks": main, "chunks": chunks}
    outcome = run_memory([start(), *spoken("a")], {"hypav2": True}, {"hypaV2Data": data}, max_context=10_000)
    stored = outcome.stored["hypaV2Data"]
    assert isinstance(stored, dict)
    assert stored["chunks"] == [{"mainChunkID": [1], "text": "a"}]


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, "7", None, True])
def test_numbers_without_an_end_are_the_defaults(number: FrozenJson) -> None:
    assert whole_number(number, 7) == 7
    preset = {"settings": {"maxChatsPerSummary": number, "memoryTokensRatio": number}}
    settings = HypaV3Settings.of({"hypaV3Presets": (preset,), "hypaV3PresetId": number})
    assert (settings.batch, settings.memory_ratio) == (6, 0.2)
