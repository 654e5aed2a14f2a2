from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from tavernkit._values import FrozenJson, JsonObject
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._memory import MemoryOutcome, uses_memory
from tavernkit.risu_ai._memory.contract import Similarity, paragraphs
from tavernkit.risu_ai.errors import MemoryFailedError
from tavernkit.testing._risu_ai import first_words, letter_counts
from tests.risu_ai.memory.chats import COUNTER, Summariser, run_memory, spoken, start


def items() -> list[PromptMessage]:
    return [start(), *spoken(*(f"message number {n}" for n in range(12)))]


def run(
    settings: Mapping[str, FrozenJson],
    chat: Mapping[str, FrozenJson] | None = None,
    *,
    max_context: int = 200,
    summarise: Callable[[Sequence[JsonObject]], str] = first_words,
) -> MemoryOutcome:
    return run_memory(items(), settings, chat, max_context=max_context, summarise=summarise)


HYPA_V3: Mapping[str, FrozenJson] = {
    "hypaV3": True,
    "hypaV3Presets": [{"settings": {"memoryTokensRatio": 0.5, "recentMemoryRatio": 1, "similarMemoryRatio": 0}}],
}
KINDS: list[Mapping[str, FrozenJson]] = [
    {"supaModelType": "subModel"},
    {"hypav2": True, "hypaAllocatedTokens": 100, "hypaChunkSize": 60},
    HYPA_V3,
    {"hanuraiEnable": True, "hanuraiTokens": 60},
]


@pytest.mark.parametrize("settings", KINDS, ids=["supa", "hypaV2", "hypaV3", "hanurai"])
def test_every_kind_shortens_a_long_chat_and_puts_memory_first(settings: Mapping[str, FrozenJson]) -> None:
    outcome = run(settings)
    assert outcome.items[0].memo == "supaMemory"
    assert outcome.items[-1].memo == "m11"
    assert COUNTER.messages(outcome.items) < COUNTER.messages(items())


@pytest.mark.parametrize("settings", KINDS[:3], ids=["supa", "hypaV2", "hypaV3"])
def test_what_was_stored_is_used_in_the_next_turn(settings: Mapping[str, FrozenJson]) -> None:
    first = run(settings)
    asked = Summariser("later")
    chat: dict[str, FrozenJson] = dict(first.stored)
    second = run(settings, chat, summarise=asked)
    assert not asked.requests
    assert [item.memo for item in second.items[1:]] == [item.memo for item in first.items[1:]]


def test_a_short_chat_needs_no_summary() -> None:
    outcome = run({"supaModelType": "subModel"}, max_context=5000)
    assert len(outcome.items) == 13
    assert not outcome.stored


def test_ratios_over_one_are_refused() -> None:
    preset: FrozenJson = [{"settings": {"recentMemoryRatio": 0.8, "similarMemoryRatio": 0.4}}]
    with pytest.raises(MemoryFailedError) as caught:
        run({"hypaV3": True, "hypaV3Presets": preset})
    assert caught.value.code == "memory_ratios_over_one"


def test_a_lost_message_of_a_running_summary_is_an_error() -> None:
    with pytest.raises(MemoryFailedError) as caught:
        run({"supaModelType": "subModel"}, {"supaMemoryData": "gone\nold story"})
    assert caught.value.code == "memory_message_not_found"


def test_an_empty_summary_is_an_error() -> None:
    with pytest.raises(MemoryFailedError) as caught:
        run(HYPA_V3, summarise=lambda messages: "<Thoughts>hm</Thoughts> ")
    assert caught.value.code == "empty_summary"


def test_nothing_left_to_summarise_says_how_much_is_too_much() -> None:
    with pytest.raises(MemoryFailedError) as caught:
        run(HYPA_V3, max_context=40)
    assert caught.value.code == "memory_cannot_summarize"
    assert caught.value.details["max_context"] == 40


def test_memory_is_off_unless_a_kind_is_chosen() -> None:
    assert not uses_memory({})
    assert not uses_memory({"supaModelType": "none"})
    assert uses_memory({"hypav2": True})


def test_similar_texts_rank_by_weight_and_ties_keep_their_order() -> None:
    ranked = Similarity(letter_counts, ["zz", "ab", "ba", "ab"]).ranked([("a", 1.0), ("z", 0.1)])
    assert ranked == ["ab", "ba", "zz"]
    assert Similarity(letter_counts, []).ranked([("a", 1.0)]) == []
    assert paragraphs("a\n\n \n\nb ") == ["a", "b"]


def test_scores_of_older_messages_are_divided_so_that_rounding_breaks_ties_as_in_javascript() -> None:
    # 0 + 2/2 + 2/3 is a hair less than 5/3, though not if multiplied by a third
    ranked = Similarity(letter_counts, ["bbcc", "ccccc"]).ranked_by_newest(["a", "b", "c"])
    assert ranked == ["ccccc", "bbcc"]
