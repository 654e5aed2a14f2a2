from __future__ import annotations

from collections.abc import Mapping

import pytest

from tavernkit._values import FrozenJson, FrozenObject
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai.errors import MemoryFailedError
from tests.risu_ai.memory.chats import Summariser, greeting, run_memory, spoken, start

RECENT: Mapping[str, FrozenJson] = {
    "memoryTokensRatio": 0.4,
    "maxChatsPerSummary": 2,
    "recentMemoryRatio": 1,
    "similarMemoryRatio": 0,
}


def settings(**changes: FrozenJson) -> FrozenObject:
    return {"hypaV3": True, "hypaV3Presets": [{"settings": {**RECENT, **changes}}], "hypaV3PresetId": 0}


def summary(text: str, *memos: str | None, **more: FrozenJson) -> FrozenObject:
    return {"text": text, "chatMemos": list(memos), "isImportant": False, **more}


def metrics(stored: object) -> dict[str, list[int]]:
    assert isinstance(stored, dict)
    return {name.removeprefix("last").removesuffix("Summaries").lower(): ids for name, ids in stored["metrics"].items()}


def test_the_preset_is_chosen_by_its_number() -> None:
    presets = [{"settings": RECENT}, {"settings": {**RECENT, "recentMemoryRatio": 0.8, "similarMemoryRatio": 0.3}}]
    chosen: FrozenObject = {"hypaV3": True, "hypaV3Presets": presets, "hypaV3PresetId": 1}
    with pytest.raises(MemoryFailedError) as caught:
        run_memory(spoken("a"), chosen, max_context=100)
    assert caught.value.code == "memory_ratios_over_one"


def test_user_messages_can_be_left_out_of_summaries_but_still_go() -> None:
    asked = Summariser("S")
    items = [start(), *spoken(*["x" * 17] * 7)]
    outcome = run_memory(items, settings(doNotSummarizeUserMessage=True), max_context=180, summarise=asked)
    assert asked.texts == [f"assistant: {'x' * 17}"]
    assert [item.memo for item in outcome.items] == ["supaMemory", "m3", "m4", "m5", "m6"]


def test_stored_summaries_keep_what_the_chat_says_about_them_and_new_ones_have_no_tags() -> None:
    old = summary("old", "m0", categoryId="c", tags=["t"])
    data: dict[str, FrozenJson] = {"hypaV3Data": {"summaries": [old], "categories": [{"id": "c"}]}}
    stored = run_memory(spoken(*["x" * 17] * 8), settings(), data, max_context=180).stored["hypaV3Data"]
    assert isinstance(stored, dict)
    assert stored["categories"] == [{"id": "c"}]
    first, second, *_ = stored["summaries"]  # type: ignore[misc]
    assert first == old
    assert second == {"text": "S", "chatMemos": ["m1", "m2"], "isImportant": False, "tags": []}


def test_a_summary_of_the_greeting_counts_as_present() -> None:
    data: dict[str, FrozenJson] = {"hypaV3Data": {"summaries": [summary("old", None, "m0")]}}
    outcome = run_memory([start(), greeting(), *spoken("a", "b")], settings(), data, max_context=400)
    assert [item.memo for item in outcome.items] == ["supaMemory", "m1"]


def test_orphaned_summaries_stay_when_they_are_to_be_preserved_and_the_chat_starts_over() -> None:
    data: dict[str, FrozenJson] = {"hypaV3Data": {"summaries": [summary("old", "gone")]}}
    outcome = run_memory(spoken("a", "b"), settings(preserveOrphanedMemory=True), data, max_context=400)
    assert "old" in outcome.items[0].content
    assert [item.memo for item in outcome.items[1:]] == ["m0", "m1"]


def test_the_experimental_kind_inserts_nothing_while_there_are_no_summaries() -> None:
    examples = [PromptMessage(role="user", content="x" * 60, name="example_user") for _ in range(2)]
    items = [*examples, *spoken("a", "b", "c")]
    outcome = run_memory(items, settings(useExperimentalImpl=True), max_context=110)
    assert [item.memo for item in outcome.items] == ["m0", "m1", "m2"]
    assert outcome.total == 12
    standard = run_memory(items, settings(), max_context=110)
    assert standard.items[0].content == "<Past Events Summary>\n\n</Past Events Summary>"


def test_an_empty_block_is_inserted_even_where_it_does_not_fit() -> None:
    items = [start(), *spoken("x" * 30, "y" * 30, "z" * 10)]
    outcome = run_memory(items, settings(memoryTokensRatio=0.1), max_context=100)
    assert [item.memo for item in outcome.items] == ["supaMemory", "m0", "m1", "m2"]
    assert outcome.items[0].content == "<Past Events Summary>\n\n</Past Events Summary>"
    assert outcome.total > 100


def test_the_experimental_kind_asks_for_nothing_when_the_chat_cannot_be_made_to_fit() -> None:
    asked = Summariser("S")
    items = spoken(*["x" * 17] * 5, *["y" * 60] * 3)
    with pytest.raises(MemoryFailedError) as caught:
        run_memory(items, settings(useExperimentalImpl=True), max_context=150, summarise=asked)
    assert caught.value.code == "memory_cannot_summarize"
    assert asked.texts == []
    with pytest.raises(MemoryFailedError):
        run_memory(items, settings(), max_context=150, summarise=asked)
    assert len(asked.texts) == 3


def test_what_is_left_is_shuffled_as_javascript_sorts_with_a_random_comparer() -> None:
    summaries = [summary(letter, f"m{n}") for n, letter in enumerate("abc")]
    data: dict[str, FrozenJson] = {"hypaV3Data": {"summaries": summaries}}
    dice = iter([0.4, 0.7, 0.1, 0.9])  # second before first; third not before; third before the middle, not the first
    outcome = run_memory(
        spoken(*"abcdefg"),
        settings(recentMemoryRatio=0, similarMemoryRatio=0),
        data,
        max_context=600,
        random=lambda: next(dice),
    )
    assert metrics(outcome.stored["hypaV3Data"])["random"] == [1, 2, 0]
    assert outcome.items[0].content == "<Past Events Summary>\na\n\nb\n\nc\n</Past Events Summary>"


def test_summaries_too_large_for_the_random_share_are_skipped_not_the_end_of_it() -> None:
    summaries = [summary("x" * 200, "m0"), summary("small", "m1")]
    data: dict[str, FrozenJson] = {"hypaV3Data": {"summaries": summaries}}
    outcome = run_memory(spoken(*"abcdefg"), settings(recentMemoryRatio=0, similarMemoryRatio=0), data, max_context=400)
    assert metrics(outcome.stored["hypaV3Data"])["random"] == [1]


def test_important_summaries_end_at_the_first_that_does_not_fit() -> None:
    summaries = [
        summary("first", "m0", isImportant=True),
        summary("x" * 200, "m1", isImportant=True),
        summary("third", "m2", isImportant=True),
    ]
    data: dict[str, FrozenJson] = {"hypaV3Data": {"summaries": summaries}}
    chosen = metrics(run_memory(spoken(*"abcdefg"), settings(), data, max_context=400).stored["hypaV3Data"])
    assert chosen["important"] == [0]
    assert chosen["recent"] == [2]


def test_blank_messages_count_among_the_last_three_that_are_searched_with() -> None:
    data: FrozenObject = {"hypaV3Data": {"summaries": [summary("aaa", "m0"), summary("bbb", "m1")]}}
    items = spoken("x", "x", "bbbbbbb", "a", " ", "a")
    chosen = settings(recentMemoryRatio=0, similarMemoryRatio=1, memoryTokensRatio=0.4)
    outcome = run_memory(items, chosen, data, max_context=150)
    assert "aaa" in outcome.items[0].content
    assert "bbb" not in outcome.items[0].content


@pytest.mark.parametrize(("last", "asked_for"), [(("a", "b"), ["user: a\nassistant: b"]), ((" ", "b"), [])])
def test_similarity_correction_asks_when_more_than_one_message_is_not_blank(
    last: tuple[str, str], asked_for: list[str]
) -> None:
    asked = Summariser("S")
    data: FrozenObject = {"hypaV3Data": {"summaries": [summary("old", "m0", isImportant=True)]}}
    chosen = settings(recentMemoryRatio=0.4, similarMemoryRatio=0.4, enableSimilarityCorrection=True)
    run_memory([*spoken("x", "", ""), *spoken(*last)], chosen, data, max_context=1000, summarise=asked)
    assert asked.texts == asked_for  # although no summary is left to rank


def test_summaries_made_before_memory_gives_up_are_kept() -> None:
    with pytest.raises(MemoryFailedError) as caught:
        run_memory(spoken(*["x" * 40] * 6), settings(), max_context=60, rest=60, summarise=Summariser("S"))
    stored = caught.value.stored["hypaV3Data"]
    assert isinstance(stored, dict)
    assert [each["chatMemos"] for each in stored["summaries"]] == [["m0", "m1"], ["m2"]]  # type: ignore[index, union-attr]


def test_nothing_is_kept_when_nothing_was_summarised() -> None:
    with pytest.raises(MemoryFailedError) as caught:
        run_memory(spoken("x" * 40), settings(), max_context=60, rest=60)
    assert not caught.value.stored
