"""Numbers of RisuAI's memory at which it does something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from tavernkit._values import FrozenJson
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._memory import MemoryOutcome
from tavernkit.risu_ai.errors import MemoryFailedError
from tavernkit.testing._risu_ai import letter_counts
from tests.risu_ai.memory.chats import COUNTER, Summariser, run_memory, spoken, start

SUPA: Mapping[str, FrozenJson] = {"supaModelType": "subModel"}
HYPA: Mapping[str, FrozenJson] = {**SUPA, "hypaMemory": True}


class Embedder:
    """Keeps the texts it is asked about."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.texts += texts
        return letter_counts(texts)


@pytest.mark.parametrize(("room", "remembers"), [(10, False), (9, True)])
def test_a_chat_may_come_within_ten_tokens_of_the_context(room: int, remembers: bool) -> None:
    items = [start(), *spoken("a" * 30, "b")]
    outcome = run_memory(items, SUPA, max_context=COUNTER.messages(items) + room)
    assert (outcome.items[0].memo == "supaMemory") is remembers


@pytest.mark.parametrize(
    ("max_context", "content", "stored"),
    [(17, "XY\n\n", {}), (16, "XY", {"supaMemoryData": "m1\nXY", "lastMemory": "m1"})],
)
def test_a_summary_that_just_fills_the_context_is_stored_again(
    max_context: int, content: str, stored: dict[str, FrozenJson]
) -> None:
    # ten to spare, four for the last message, two for the summary, whose stored text has five characters
    items = [start(), *spoken("a" * 30, "b")]
    outcome = run_memory(items, SUPA, {"supaMemoryData": "m1\nXY"}, max_context=max_context)
    assert (outcome.items[0].content, outcome.stored) == (content, stored)


@pytest.mark.parametrize(
    ("size", "first"), [(None, "m0 m1"), (1200, "m0 m1"), (20, "m0"), (True, "m0 m1"), ("20", "m0 m1")]
)
def test_a_chunk_has_a_third_of_the_context_or_less_if_the_user_wants(size: FrozenJson, first: str) -> None:
    asked = Summariser("S")
    items = spoken(*[f"m{n}".ljust(17) for n in range(6)])
    run_memory(items, {**SUPA, "maxSupaChunkSize": size}, max_context=125, summarise=asked)
    assert " ".join(str(asked.texts[0]).split()[1::2]) == first


@pytest.mark.parametrize(("size", "stuck"), [(715, False), (714, True)])
def test_chunks_shrink_by_three_tenths_as_long_as_they_have_500_tokens(size: int, stuck: bool) -> None:
    run = partial(run_memory, spoken(*["x" * 97] * 6), {**SUPA, "maxSupaChunkSize": size}, max_context=3000, rest=2600)
    if stuck:
        with pytest.raises(MemoryFailedError, match="no more of the chat"):
            run()
    else:
        assert [item.memo for item in run().items] == ["supaMemory", "m5"]


@pytest.mark.parametrize(("settings", "paragraphs", "condensed"), [(SUPA, 3, False), (SUPA, 4, True), (HYPA, 3, True)])
def test_a_summary_of_many_paragraphs_is_condensed(
    settings: Mapping[str, FrozenJson], paragraphs: int, condensed: bool
) -> None:
    asked = Summariser("S")
    data = "m0\n" + "\n\n".join("abcd"[:paragraphs])
    items = [start(), *spoken("a" * 27, "b" * 60, "c")]
    run_memory(items, settings, {"supaMemoryData": data}, max_context=100, summarise=asked)
    assert ("\n\n".join("abcd"[:paragraphs]) in asked.texts) is condensed


def test_past_events_resemble_the_first_four_messages_that_somebody_said() -> None:
    data = 'hypa:\n[{"id":"m1","supa":"So far","hypa":["b","zz"]}]'
    first, *rest = spoken("a" * 100, "z", "q", "q", "q", "bbbbb")
    note = PromptMessage(role="system", content="bbbbb", memo="note")
    outcome = run_memory([start(), first, *rest[:1], note, *rest[1:]], HYPA, {"supaMemoryData": data}, max_context=100)
    assert outcome.items[0].content == "So far\n\npast events: zz,b"


@pytest.mark.parametrize("record", ['{"id":"m1"}', '{"id":"m1","supa":null,"hypa":"x"}'])
def test_records_without_texts_are_empty(record: str) -> None:
    items = [start(), *spoken("a" * 100, "b")]
    outcome = run_memory(items, HYPA, {"supaMemoryData": f"hypa:\n[{record}]"}, max_context=100)
    assert outcome.items[0].content == "\n\n"


@pytest.mark.parametrize("reply", [0, 70])
@pytest.mark.parametrize(("room", "asks"), [(3000, 0), (2999, 1)])
def test_hypa_v2_keeps_three_thousand_tokens_and_makes_chunks_as_large(room: int, asks: int, reply: int) -> None:
    asked = Summariser("S")
    items = [start(), *spoken(*["x" * 1497] * 3, *"abcd")]
    max_context = COUNTER.messages(items) + room
    outcome = run_memory(items, {"hypav2": True}, max_context=max_context, reply=reply, summarise=asked)
    uncounted = COUNTER.message(start()) * asks  # the start line goes as well, but nothing is taken off for it
    assert outcome.total == COUNTER.messages(outcome.items) + reply + uncounted
    assert [str(text).count("\n") for text in asked.texts] == [1] * asks


def test_hypa_v2_marks_documents_and_the_last_three_messages_for_the_embedding() -> None:
    embedder = Embedder()
    data: FrozenJson = {"mainChunks": [{"id": 1, "text": "M"}], "chunks": [{"mainChunkID": 1, "text": "part"}]}
    run_memory(
        [start(), *spoken("a", "b", "c", "d")], {"hypav2": True}, {"hypaV2Data": data}, max_context=4000, embed=embedder
    )
    assert embedder.texts == ["search_document: part", "search_query: d", "search_query: c", "search_query: b"]


def test_hanurai_trims_its_documents_and_leaves_out_empty_ones() -> None:
    embedder = Embedder()
    items = spoken(" a\n\n\n\n b ", " ", "c", "d", "e")
    run_memory(items, {"hanuraiEnable": True, "hanuraiSplit": True}, max_context=4000, embed=embedder)
    assert embedder.texts[:3] == ["search_document: a", "search_document: b", "search_query: e"]


@pytest.mark.parametrize(("room", "gone"), [(1000, 0), (999, 1)])
def test_hanurai_keeps_a_thousand_tokens(room: int, gone: int) -> None:
    embedder = Embedder()
    items = [start(), *spoken("a", "b", "c", "d")]
    outcome = run_memory(items, {"hanuraiEnable": True}, max_context=COUNTER.messages(items) + room, embed=embedder)
    assert len(outcome.items) == 1 + len(items) - gone
    assert embedder.texts == [
        *("search_document: [Start a new chat]", "search_document: a"),
        *("search_query: d", "search_query: c", "search_query: b"),
    ]


V3: Mapping[str, FrozenJson] = {
    "memoryTokensRatio": 0.4,
    "maxChatsPerSummary": 2,
    "recentMemoryRatio": 1,
    "similarMemoryRatio": 0,
}
EMPTY_BLOCK = "<Past Events Summary>\n\n</Past Events Summary>"


def hypa_v3(**changes: FrozenJson) -> Mapping[str, FrozenJson]:
    return {"hypaV3": True, "hypaV3Presets": [{"settings": {**V3, **changes}}]}


@pytest.mark.parametrize("reply", [0, 70])
@pytest.mark.parametrize(("room", "asks"), [(0, False), (-1, True)])
def test_hypa_v3_takes_its_share_only_when_an_empty_block_does_not_fit_beside_the_chat(
    room: int, asks: bool, reply: int
) -> None:
    asked = Summariser("S")
    items = [start(), *spoken(*["x" * 37] * 8)]
    max_context = COUNTER.messages(items) + COUNTER.text(EMPTY_BLOCK) + 3 + room
    outcome = run_memory(items, hypa_v3(), max_context=max_context, reply=reply, summarise=asked)
    assert bool(asked.requests) is asks
    assert (outcome.items[0].content == EMPTY_BLOCK) is not asks
    assert outcome.total == COUNTER.messages(outcome.items) + reply


def test_hypa_v3_forgets_summaries_of_messages_that_are_gone() -> None:
    summaries = [{"text": text, "chatMemos": memos} for text, memos in (("A", ["m0"]), ("B", ["m1", "gone"]))]
    outcome = run_memory(spoken("a", "b"), hypa_v3(), {"hypaV3Data": {"summaries": summaries}}, max_context=400)
    assert outcome.items[0].content == "<Past Events Summary>\nA\n</Past Events Summary>"
    assert outcome.stored["hypaV3Data"]["summaries"] == summaries[:1]  # type: ignore[index,call-overload]


@pytest.mark.parametrize(
    ("share", "extra", "max_context", "kept"),
    [
        (0.4, 0, 190, 5),  # 180 and the share of 76, less two batches of 40
        (0.4, 0.2, 190, 5),  # one more batch would leave 136, less than the 152 it goes for
        (0.4, 0.3, 190, 3),  # not less than 133, but then only three are left
        (0.4, 0.9, 190, 3),
        (0.5, 0.1, 200, 5),  # just fits after two batches, and a third one would go below 180
    ],
)
def test_hypa_v3_summarises_a_little_more_if_it_shall(share: float, extra: float, max_context: int, kept: int) -> None:
    settings = hypa_v3(memoryTokensRatio=share, extraSummarizationRatio=extra)
    outcome = run_memory(spoken(*["x" * 17] * 9), settings, max_context=max_context)
    assert len(outcome.items) == 1 + kept


def chosen(outcome: MemoryOutcome) -> dict[str, list[int]]:
    data: Any = outcome.stored["hypaV3Data"]
    return {name.removeprefix("last").removesuffix("Summaries"): found for name, found in data["metrics"].items()}


def summaries_of(*texts: str) -> Mapping[str, FrozenJson]:
    return {"hypaV3Data": {"summaries": [{"text": text, "chatMemos": [f"m{n}"]} for n, text in enumerate(texts)]}}


@pytest.mark.parametrize(
    ("ratio", "cost", "where"),
    [
        (0.3, 30, "Similar"),
        (0.3, 31, "Random"),  # what recent ones leave is for random ones, as long as these have a share
        (0.3, 75, "Random"),  # 40, and 5 of recent and 30 of similar ones
        (0.3, 76, None),
        (0.5, 75, "Similar"),  # 50 and the 25 that recent ones leave
        (0.5, 76, None),
    ],
)
def test_shares_of_a_hundred_tokens_that_are_left_go_on_to_the_next_kind(
    ratio: float, cost: int, where: str | None
) -> None:
    settings = hypa_v3(memoryTokensRatio=0.148, recentMemoryRatio=ratio, similarMemoryRatio=ratio)
    texts = summaries_of("x" * (cost - 5), "y" * 20)
    found = chosen(run_memory(spoken(*"abcdefg"), settings, texts, max_context=1000))
    assert found.pop("Recent") == [1]
    assert [name for name, taken in found.items() if taken] == [where] * (where is not None)


@pytest.mark.parametrize(("experimental", "best"), [(False, 1), (True, 0)])
def test_paragraphs_of_a_message_share_its_weight_in_the_experimental_kind(experimental: bool, best: int) -> None:
    settings = hypa_v3(
        memoryTokensRatio=0.055, recentMemoryRatio=0, similarMemoryRatio=1, useExperimentalImpl=experimental
    )
    items = spoken("m", "m", "q", "aaaa", "bbb\n\nq")
    assert chosen(run_memory(items, settings, summaries_of("a", "b"), max_context=1000))["Similar"] == [best]


@pytest.mark.parametrize("length", [49, 50])
def test_a_block_that_is_larger_than_its_share_may_be_too_large(length: int) -> None:
    run = partial(run_memory, spoken("m", "x" * length), hypa_v3(memoryTokensRatio=0.1), summaries_of("a"))
    if length == 49:
        assert run(max_context=100).total == 100
    else:
        with pytest.raises(MemoryFailedError, match="even with memory"):
            run(max_context=100)


@pytest.mark.parametrize(("room", "text"), [(8, " a"), (7, "")])
def test_hanurai_stays_below_the_context_with_two_tokens_for_each_text(room: int, text: str) -> None:
    # the text keeps a blank of its mark, and a message takes three tokens
    items = spoken("a", "b", "c", "d")
    settings: Mapping[str, FrozenJson] = {"hanuraiEnable": True, "hanuraiTokens": 0}
    outcome = run_memory(items, settings, max_context=COUNTER.messages(items) + room)
    assert [item.content for item in outcome.items] == [text, *"abcd"]


@pytest.mark.parametrize(
    ("allocation", "main", "details"),
    [
        (17, "", "aaaaaaaaaaaa\n\n"),
        (18, "\n\nAAAAAA", ""),
        (23, "\n\nAAAAAA", ""),
        (24, "\n\nAAAAAA", "aaaaaaaaaaaa\n\n"),
    ],
)
def test_hypa_v2_gives_half_of_its_tokens_to_summaries_and_the_rest_to_details(
    allocation: int, main: str, details: str
) -> None:
    data: FrozenJson = {
        "mainChunks": [{"id": 1, "text": "A" * 6}, {"id": 2, "text": "B" * 60}, {"id": 3, "text": "C"}],
        "chunks": [{"mainChunkID": 1, "text": "a" * 12}, {"mainChunkID": 1, "text": "c"}],
    }
    settings: Mapping[str, FrozenJson] = {"hypav2": True, "hypaAllocatedTokens": allocation}
    outcome = run_memory(spoken(*"aaaa"), settings, {"hypaV2Data": data}, max_context=400)
    assert outcome.items[0].content == (
        f"<Past Events Summary>{main}</Past Events Summary>\n<Past Events Details>{details}</Past Events Details>"
    )
    assert outcome.total == COUNTER.messages(outcome.items)
