from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from tavernkit._values import FrozenJson
from tavernkit.risu_ai.errors import MemoryFailedError
from tests.risu_ai.memory.chats import Summariser, greeting, run_memory, spoken, start

SUPA: Mapping[str, FrozenJson] = {"supaModelType": "subModel"}
HYPA: Mapping[str, FrozenJson] = {**SUPA, "hypaMemory": True}


def test_examples_go_first_and_may_be_enough() -> None:
    example = spoken("x" * 80)[0]
    outcome = run_memory([example, start(), *spoken("a", "b")], SUPA, max_context=80)
    assert [item.memo for item in outcome.items] == ["supaMemory", "NewChat", "m0", "m1"]
    assert outcome.items[0].content == "\n\n"
    assert not outcome.stored


def test_a_chunk_ends_before_the_item_that_does_not_fit_and_memory_starts_there() -> None:
    asked = Summariser("S")
    items = [start(), *spoken(*["x" * 17] * 6)]
    outcome = run_memory(items, SUPA, max_context=125, rest=20, summarise=asked)
    assert asked.texts == [
        f"Ann: [Start a new chat]\n\nAnn: {'x' * 17}\n\n",
        f"Bel: {'x' * 17}\n\nAnn: {'x' * 17}\n\n",
    ]
    assert outcome.stored["supaMemoryData"] == "m3\nS\n\nS"
    assert outcome.last_memory == "m3"
    assert outcome.items[0].content == "S\n\nS"


def test_a_message_larger_than_a_chunk_makes_one_alone_and_memory_starts_at_it() -> None:
    asked = Summariser("S")
    outcome = run_memory([start(), *spoken("x" * 90, "b", "c")], SUPA, max_context=100, summarise=asked)
    assert asked.texts == ["Ann: [Start a new chat]\n\n", f"Ann: {'x' * 90}\n\n"]
    assert [item.memo for item in outcome.items] == ["supaMemory", "m1", "m2"]
    assert outcome.stored["supaMemoryData"] == "m0\nS\n\nS"


def test_a_system_message_larger_than_a_chunk_is_an_error() -> None:
    with pytest.raises(MemoryFailedError) as caught:
        run_memory([start(), *spoken("x" * 40)], SUPA, max_context=45)
    assert caught.value.code == "memory_cannot_summarize"


def test_memory_that_starts_at_the_greeting_is_stored_with_javascripts_name_for_no_id() -> None:
    outcome = run_memory([start(), greeting("x" * 40), *spoken("b" * 40, "c")], SUPA, max_context=110)
    assert outcome.stored["supaMemoryData"] == "undefined\nS"
    assert outcome.last_memory is None


def test_when_the_chat_runs_out_the_summary_is_condensed_once_and_then_there_is_no_room() -> None:
    asked = Summariser("long " * 10, "short")
    items = [start(), *spoken("a" * 30, "b" * 30)]
    data: dict[str, FrozenJson] = {"supaMemoryData": "m1\nwords and words and words"}
    with pytest.raises(MemoryFailedError) as caught:
        run_memory(items, SUPA, data, max_context=120, rest=100, summarise=asked)
    assert caught.value.code == "memory_cannot_summarize"
    assert asked.texts == ["words and words and words"]


def test_a_condensed_summary_may_make_room_enough() -> None:
    data: dict[str, FrozenJson] = {"supaMemoryData": "m1\n" + "words " * 20}
    outcome = run_memory([start(), *spoken("a", "b")], SUPA, data, max_context=120, rest=85)
    assert outcome.items[0].content == "S"
    assert [item.memo for item in outcome.items] == ["supaMemory", "m1"]
    assert outcome.stored["supaMemoryData"] == "m1\nS"


def test_large_chunks_shrink_until_something_of_the_chat_is_left() -> None:
    asked = Summariser("S")
    items = [start(), *spoken(*["x" * 97] * 7)]
    outcome = run_memory(items, SUPA, max_context=3600, rest=3200, summarise=asked)
    # 721 tokens fit into chunks of 1200 and 840 at once, not into one of 588.
    assert asked.texts[0] == ""
    assert [item.memo for item in outcome.items] == ["supaMemory", "m5", "m6"]


def test_punctuation_of_the_stored_summary_goes_unless_that_is_switched_off() -> None:
    data: dict[str, FrozenJson] = {"supaMemoryData": "m1\nOne, two!"}
    items = [start(), *spoken("a" * 100, "b")]
    for setting, text in ((None, "One two"), (True, "One two"), (0, "One, two!"), (False, "One, two!")):
        settings: Mapping[str, FrozenJson] = {**SUPA, "removePunctuationHypa": setting}
        assert run_memory(items, settings, data, max_context=100).items[0].content == f"{text}\n\n"


def test_stored_data_of_four_characters_is_none() -> None:
    outcome = run_memory([start(), *spoken("a" * 60, "b")], SUPA, {"supaMemoryData": "m1\nX"}, max_context=80)
    assert outcome.stored["supaMemoryData"] == "m0\nS"


def test_a_chat_ml_prompt_is_expanded_with_the_chunk_in_it() -> None:
    asked = Summariser("S")
    prompt = "<|im_start|>system\nFor {{user}}: {{slot}}|{{slot}}<|im_end|>"
    run_memory(
        [start(), *spoken("a" * 60, "b")],
        {**SUPA, "supaMemoryPrompt": prompt},
        max_context=80,
        summarise=asked,
        expand=lambda text: text.replace("{{user}}", "Ann"),
    )
    chunk = "Ann: [Start a new chat]\n\n"
    assert list(asked.requests[0]) == [{"role": "system", "content": f"For Ann: {chunk}|{chunk}"}]


def test_hypa_memory_uses_the_first_record_whose_message_is_there_and_recalls_past_events() -> None:
    data = 'hypa:\n[{"id":"gone","supa":"x","hypa":[]},{"id":"m1","supa":"So far.","hypa":["zz","bb","b","bbb"]}]'
    items = [start(), *spoken("a" * 100, "bbbb", "c")]
    outcome = run_memory(items, HYPA, {"supaMemoryData": data}, max_context=100)
    assert outcome.items[0].content == "So far\n\npast events: bbb,bb,b"
    assert outcome.items[0].memo == "supaMemory"
    assert [item.memo for item in outcome.items[1:]] == ["m1", "m2"]
    assert not outcome.stored


def test_hypa_memory_remembers_every_summary_and_is_stored_as_risu_ai_writes_it() -> None:
    data = 'hypa:\n[{"id":"m0","supa":"one\\n\\ntwo\\n\\nthree","hypa":["old"]}]'
    asked = Summariser("new\n\nnews", "condensed")
    items = [start(), *spoken("a" * 27, "b" * 60, "c")]
    outcome = run_memory(items, HYPA, {"supaMemoryData": data}, max_context=100, summarise=asked)
    assert outcome.items[0].content == "condensed\n\nnew\nnews"
    records = [
        {"id": "m1", "supa": "condensed\n\nnew\nnews", "hypa": ["old", "new\nnews"]},
        {"id": "m0", "supa": "one\n\ntwo\n\nthree", "hypa": ["old"]},
    ]
    assert outcome.stored["supaMemoryData"] == "hypa:\n" + json.dumps(records, indent=2)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("hypa:\n[", "memory_unreadable"),
        ('hypa:\n[{"id":NaN}]', "memory_unreadable"),
        ("hypa:\n5", "memory_message_not_found"),
        ('hypa:\n[{"id":"gone"}, 3]', "memory_message_not_found"),
        ("gone\nstory", "memory_message_not_found"),
    ],
)
def test_stored_memory_that_cannot_be_used_is_an_error(data: str, code: str) -> None:
    with pytest.raises(MemoryFailedError) as caught:
        run_memory([start(), *spoken("a" * 60, "b")], HYPA, {"supaMemoryData": data}, max_context=80)
    assert caught.value.code == code
