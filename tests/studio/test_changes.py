"""What changed between two prompts."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tavernkit.studio._changes import message_changes, text_changes

said = st.lists(st.tuples(st.sampled_from(["user", "system"]), st.text(alphabet="ab \n🦊", max_size=8)), max_size=7)


def kinds(rows: Any) -> list[str]:
    return [row["kind"] for row in rows]


def test_unlike_messages_are_not_one_that_changed() -> None:
    before = [("system", "You are Aria, a keeper."), ("system", "The lamp burns."), ("user", "Hello")]
    after = [("system", "Scene: a storm by the sea."), ("system", "The lamp burns low."), ("user", "Hello")]
    rows: Any = message_changes(before, after)
    assert kinds(rows) == ["removed", "added", "changed", "same"]
    # Whoever sees the new prompt only still sees what is gone.
    assert rows[0]["parts"] == [{"kind": "removed", "text": "You are Aria, a keeper."}]


def test_a_single_message_in_the_place_of_another_is_changed() -> None:
    rows = message_changes([("user", "One"), ("user", "x")], [("user", "Two"), ("user", "x")])
    assert kinds(rows) == ["changed", "same"]


@given(said, said)
def test_every_message_is_named_once_and_in_order(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> None:
    rows: Any = message_changes(before, after)
    assert [row["before"] for row in rows if row["before"] is not None] == list(range(len(before)))
    assert [row["index"] for row in rows if row["index"] is not None] == list(range(len(after)))
    for row in rows:
        if row["kind"] == "same":
            assert before[row["before"]] == after[row["index"]]
        if row["kind"] == "changed":
            old = "".join(part["text"] for part in row["parts"] if part["kind"] != "added")
            new = "".join(part["text"] for part in row["parts"] if part["kind"] != "removed")
            assert (old, new) == (before[row["before"]][1], after[row["index"]][1])


@given(st.text(max_size=30), st.text(max_size=30))
def test_parts_give_both_texts(before: str, after: str) -> None:
    parts: Any = text_changes(before, after)
    assert "".join(part["text"] for part in parts if part["kind"] != "added") == before
    assert "".join(part["text"] for part in parts if part["kind"] != "removed") == after
