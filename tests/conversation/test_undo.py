"""What can be undone, after a restart as well."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit.cards import Character
from tavernkit.conversation import Conversation, ConversationStore, FileStore, SavedChat, SqliteStore
from tavernkit.conversation._undo import UndoHistory
from tavernkit.models import ModelError
from tavernkit.testing import ScriptedModel, failure

CARD = Character(name="Aria", description="Turn {{incvar::n}}.", first_mes="Hello.")
PLATFORMS = ("silly_tavern", "risu_ai")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
SNAPSHOTS = st.dictionaries(st.sampled_from(["lines", "chat_metadata", "chat", "turns", "seed"]), JSON, max_size=4)


def opened(store: ConversationStore, platform: Any, *replies: Any, **more: Any) -> Conversation:
    return Conversation.open(store, card=CARD, user="Ann", platform=platform, model=ScriptedModel(*replies), **more)


def texts(chat: Conversation) -> list[object]:
    return [line.get("mes", line.get("data")) for line in chat.lines if line.get("mes") != "Hello."]


STORES: list[Callable[[Path, str], ConversationStore]] = [
    lambda folder, platform: FileStore(folder / ("a.jsonl" if platform == "silly_tavern" else "a.json")),
    lambda folder, _: SqliteStore(folder / "chats.db", "a"),
]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("make", STORES)
async def test_undo_survives_a_restart(tmp_path: Path, make: Any, platform: str) -> None:
    chat = opened(make(tmp_path, platform), platform, "One.", "Two.", "Three.")
    await chat.send("1")
    before = chat.chat.snapshot()
    await chat.send("2")
    await chat.regenerate()

    again = opened(make(tmp_path, platform), platform)
    assert texts(again) == ["1", "One.", "2", "Three."]
    assert await again.undo()
    assert texts(again) == ["1", "One.", "2", "Two."]
    assert await again.undo()

    third = opened(make(tmp_path, platform), platform)
    assert texts(third) == ["1", "One."]
    assert third.chat.snapshot()[key_of(platform)] == before[key_of(platform)]
    assert await third.undo()
    assert texts(third) == []
    assert not await third.undo()


def key_of(platform: str) -> str:
    return "lines" if platform == "silly_tavern" else "chat"


@pytest.mark.parametrize("make", STORES)
@pytest.mark.parametrize("saves", [False, True])
async def test_deleting_every_line_can_be_undone_after_a_restart(tmp_path: Path, make: Any, saves: bool) -> None:
    chat = opened(make(tmp_path, "silly_tavern"), "silly_tavern", "One.")
    await chat.send("1")
    before = chat.chat.snapshot()
    await chat.delete_from(0)

    again = opened(make(tmp_path, "silly_tavern"), "silly_tavern")
    assert [line["mes"] for line in again.lines] == ["Hello."]  # SillyTavern greets when it opens an empty chat
    if saves:
        await again.save()
        again = opened(make(tmp_path, "silly_tavern"), "silly_tavern")
    assert await again.undo()
    assert again.chat.snapshot()["lines"] == before["lines"]
    assert await again.undo()
    assert texts(again) == []


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_chat_that_another_program_changed_is_not_undone(tmp_path: Path, platform: str) -> None:
    store = STORES[0](tmp_path, platform)
    chat = opened(store, platform, "One.")
    await chat.send("1")
    path = tmp_path / ("a.jsonl" if platform == "silly_tavern" else "a.json")
    path.write_text(path.read_text("utf-8").replace("One.", "Won."), "utf-8")
    again = opened(STORES[0](tmp_path, platform), platform)
    assert texts(again) == ["1", "Won."]
    assert not await again.undo()


async def test_what_a_dying_process_left_behind_can_be_undone(tmp_path: Path) -> None:
    class Dying(FileStore):
        def save(self, chat: SavedChat) -> None:
            if b"One." not in chat.file:  # the process dies before the reply is saved
                super().save(chat)

    chat = opened(Dying(tmp_path / "a.jsonl"), "silly_tavern", "One.")
    await chat.send("1")
    again = opened(FileStore(tmp_path / "a.jsonl"), "silly_tavern")
    assert texts(again) == ["1"]
    assert await again.undo()
    assert texts(again) == []


async def test_a_turn_that_failed_can_be_undone_after_a_restart(tmp_path: Path) -> None:
    chat = opened(FileStore(tmp_path / "a.jsonl"), "silly_tavern", failure(400, "no"))
    with pytest.raises(ModelError):
        await chat.send("1")
    again = opened(FileStore(tmp_path / "a.jsonl"), "silly_tavern")
    assert await again.undo()
    assert texts(again) == []


async def test_the_chats_own_file_knows_nothing_of_it(tmp_path: Path) -> None:
    chat = opened(FileStore(tmp_path / "a.jsonl"), "silly_tavern", "One.")
    await chat.send("1")
    assert "undo" not in (tmp_path / "a.jsonl").read_text("utf-8")
    assert "undo" in json.loads((tmp_path / "a.state.json").read_text("utf-8"))


@settings(max_examples=60, deadline=None)
@given(st.lists(SNAPSHOTS, min_size=2, max_size=6))
def test_every_snapshot_comes_back(snapshots: list[Any]) -> None:
    history = UndoHistory()
    for before, after in pairwise(snapshots):
        history.begin(before)
        history.end(after)
    distinct = [each for at, each in enumerate(snapshots) if at == 0 or each != snapshots[at - 1]]
    assert [history.take() for _ in distinct[1:]] == distinct[-2::-1]
    assert history.take() is None


def test_a_change_of_the_applications_own_is_undone_with_the_operation_before_it() -> None:
    history = UndoHistory()
    for before, after in ((["a"], ["a", "b"]), (["x", "b"], ["x", "b", "c"])):
        history.begin({"lines": [*before]})
        history.end({"lines": [*after]})
    assert [history.take(), history.take()] == [{"lines": ["x", "b"]}, {"lines": ["a"]}]


def test_long_chats_are_not_kept_whole() -> None:
    history = UndoHistory()
    lines = [f"line {number}" for number in range(1000)]
    history.begin({"lines": [*lines]})
    history.end({"lines": [*lines, "new"]})
    assert len(json.dumps(history.to_json({"lines": [*lines, "new"]}))) < 300
