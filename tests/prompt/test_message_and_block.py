from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tavernkit.prompt import Block, Message


def test_message_to_dict_leaves_out_an_empty_name() -> None:
    assert Message("user", "Hi", name="").to_dict() == {"role": "user", "content": "Hi"}
    assert Message("user", "Hi", name="Ann").to_dict() == {"role": "user", "content": "Hi", "name": "Ann"}


def test_message_serialises_everything_that_is_set() -> None:
    message = Message(
        "assistant",
        "Hello",
        swipes=["Hello", "Hi"],
        swipe_id=0,
        send_date=datetime(2026, 1, 2, tzinfo=UTC),
        metadata={"tool_calls": [{"id": "c1"}]},
    )
    assert message.to_serializable_dict() == {
        "role": "assistant",
        "content": "Hello",
        "swipes": ["Hello", "Hi"],
        "swipe_id": 0,
        "send_date": "2026-01-02T00:00:00+00:00",
        "metadata": {"tool_calls": [{"id": "c1"}]},
    }


def test_what_the_caller_changes_later_does_not_reach_the_message() -> None:
    calls = [{"id": "c1"}]
    message = Message("assistant", "", metadata={"tool_calls": calls})
    calls.append({"id": "c2"})
    calls[0]["id"] = "changed"
    assert message.to_serializable_dict()["metadata"] == {"tool_calls": [{"id": "c1"}]}
    with pytest.raises(TypeError):
        message.metadata["tool_calls"] = ()  # type: ignore[index]


def test_block_has_the_documented_defaults() -> None:
    block = Block("system", "text")
    assert (block.enabled, block.removable, block.insertion_point) == (True, True, "relative")
    assert (block.depth, block.order, block.priority) == (0, 100, 100)
    assert block.token_budget_group == "default"
    assert block.id != Block("system", "text").id


def test_block_replace_keeps_the_id() -> None:
    block = Block("system", "text")
    assert block.disable().id == block.id
    assert block.disable().disabled
    assert block.disable().enable().enabled


def test_block_hands_its_message_metadata_to_the_message() -> None:
    block = Block("tool", "42", message_metadata={"tool_call_id": "c1"}, metadata={"source": {"kind": "history"}})
    message = block.to_message()
    assert dict(message.metadata or {}) == {"tool_call_id": "c1"}
    assert block.source == {"kind": "history"}
    assert block.to_dict()["metadata"] == {"source": {"kind": "history"}}
