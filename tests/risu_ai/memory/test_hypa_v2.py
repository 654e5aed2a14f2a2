from __future__ import annotations

from collections.abc import Mapping

import pytest

from tavernkit._values import FrozenJson
from tavernkit.risu_ai.errors import MemoryFailedError
from tests.risu_ai.memory.chats import Summariser, run_memory, spoken, start

V2: Mapping[str, FrozenJson] = {"hypav2": True, "hypaAllocatedTokens": 100, "hypaChunkSize": 60}


def test_only_what_was_collected_makes_room() -> None:
    asked = Summariser("S")
    items = [start(), *spoken("x" * 27, "", "y" * 27, "z" * 27, "a", "b", "c", "d")]
    outcome = run_memory(items, V2, max_context=180, summarise=asked)
    assert asked.texts == [f"user: {'x' * 27}\nuser: {'y' * 27}"]
    assert [item.memo for item in outcome.items] == ["supaMemory", "m3", "m4", "m5", "m6", "m7"]


def test_new_chunks_go_on_from_the_stored_ones() -> None:
    main = {"id": 3, "text": "M", "chatMemos": ["m0"], "lastChatMemo": "m0"}
    data: FrozenJson = {"lastMainChunkID": 3, "mainChunks": [main], "chunks": [{"mainChunkID": 3, "text": "M"}]}
    items = [start(), *spoken(*["x" * 17] * 8)]
    outcome = run_memory(items, V2, {"hypaV2Data": data}, max_context=200, summarise=Summariser("P\n\nQ"))
    stored = outcome.stored["hypaV2Data"]
    assert isinstance(stored, dict)
    assert stored["lastMainChunkID"] == 4
    assert stored["chunks"] == [
        {"mainChunkID": 3, "text": "M"},
        {"mainChunkID": 4, "text": "P"},
        {"mainChunkID": 4, "text": "Q"},
    ]
    assert "<Past Events Summary>\n\nM\n\nP\n\nQ</Past Events Summary>" in outcome.items[0].content


def test_chunks_that_name_no_message_leave_the_chat_whole() -> None:
    data: FrozenJson = {"lastMainChunkID": 1, "mainChunks": [{"id": 1, "text": "M"}], "chunks": []}
    outcome = run_memory([start(), *spoken("a", "b")], V2, {"hypaV2Data": data}, max_context=400)
    assert len(outcome.items) == 4


def test_a_summariser_may_fail_twice_in_a_row() -> None:
    items = [start(), *spoken(*["x" * 17] * 8)]
    asked = Summariser("", " ", "S")
    assert "S" in run_memory(items, V2, max_context=240, summarise=asked).items[0].content
    assert len(asked.requests) == 3
    silent = Summariser("")
    with pytest.raises(MemoryFailedError) as caught:
        run_memory(items, V2, max_context=240, summarise=silent)
    assert caught.value.code == "empty_summary"
    assert len(silent.requests) == 3


def test_each_message_is_named_once() -> None:
    items = [start(), *spoken(*["x" * 20] * 8)]
    items[2].memo = items[1].memo
    chosen = {"hypav2": True, "hypaAllocatedTokens": 40, "hypaChunkSize": 60}
    stored = run_memory(items, chosen, max_context=200).stored["hypaV2Data"]
    assert isinstance(stored, dict)
    assert stored["mainChunks"][0]["chatMemos"] == ["m0"]  # type: ignore[index, call-overload]
