"""Sessions of more messages than a turn reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tavernkit.examples import example_path
from tavernkit.server.adapters.silly_tavern_lines import user_line
from tavernkit.server.limits import MAX_MESSAGES
from tavernkit.server.sessions import changes
from tavernkit.server.storage import chats
from tavernkit.server.storage import lines as stored_lines
from tavernkit.server.storage.chats import Selection
from tavernkit.silly_tavern._conversation.numbered_lines import moved
from tavernkit.testing import ScriptedModel
from tests.server.conftest import Client, StartApp
from tests.server.test_sessions import CHAT, lines_of, says, sent_to

PLATFORMS = ["silly_tavern", "risu_ai"]


@pytest.fixture
def short_reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Turns read six messages at most, and leave out two more at a time."""
    with monkeypatch.context() as patch:
        patch.setattr(stored_lines, "MAX_MESSAGES", 6)
        patch.setattr(stored_lines, "UNREAD_STEP", 2)
        patch.setattr(changes, "MAX_CACHED_CHAT_LINES", 0)  # as small against the others as it is
        yield patch


async def talk(client: Client, turns: int, **more: object) -> list[Any]:
    return [(await client.post(CHAT, json=says(f"m{number}", user="s", **more))).json() for number in range(turns)]


def spoken(model: ScriptedModel, number: int) -> list[str]:
    return [message["content"] for message in sent_to(model, number) if message["content"][:1] in ("m", "r")]


@pytest.mark.usefixtures("short_reading")
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_turn_reads_the_last_messages_and_says_so(start: StartApp, platform: str) -> None:
    model = ScriptedModel(*(f"r{number}" for number in range(8)))
    async with start(model) as client:
        replies = await talk(client, 8, tavernkit={"platform": platform})
        kept = [line[1] for line in await lines_of(client)]
        built = await client.post("/api/build", json={"session_id": replies[0]["tavernkit"]["session_id"]})
    said = [text for number in range(8) for text in (f"m{number}", f"r{number}")]
    assert kept[-16:] == said
    assert [message["content"] for message in sent_to(model, 2)][-1] == "m2"
    assert spoken(model, 2) == said[:5]  # nothing is left out yet
    last = spoken(model, 7)
    assert last == said[15 - len(last) : 15]
    assert 5 <= len(last) <= 7
    unread = len(kept) - 1 - len(last)  # before the last reply
    told = f"the session is long: its first {unread} messages are no longer read for prompts"
    assert replies[7]["tavernkit"]["warnings"] == [told]
    assert "warnings" not in replies[2]["tavernkit"]
    assert built.json()["warnings"]


@pytest.mark.usefixtures("short_reading")
async def test_what_is_not_read_can_be_read_changed_and_removed(start: StartApp) -> None:
    async with start(ScriptedModel(*(f"r{number}" for number in range(8)))) as client:
        session = (await talk(client, 8))[0]["tavernkit"]["session_id"]
        path = f"/api/sessions/{session}/messages"
        whole = (await client.get(path)).json()
        assert (len(whole["data"]), whole["next"]) == (17, None)
        pages, before = [], None
        while True:
            page = (await client.get(path, params={"limit": 5, **({"before": before} if before else {})})).json()
            pages, before = [*page["data"], *pages], page["next"]
            if before is None:
                break
        assert pages == whole["data"]
        ids = [message["id"] for message in pages]
        await client.patch(f"{path}/{ids[1]}", json={"content": "changed"})
        await client.put(f"{path}/{ids[0]}/swipe", json={"swipe": 1})
        await client.delete(f"{path}/{ids[2]}")
        branch = (await client.post(f"/api/sessions/{session}/actions/branch", json={"message_id": ids[15]})).json()
        copied = (await client.get(f"/api/sessions/{branch['id']}/messages")).json()["data"]
        now = (await client.get(path)).json()["data"]
        assert [each["content"] for each in now] == [each["content"] for each in copied] + ["r7"]
        assert [each["content"] for each in copied[1:4]] == ["changed", "m1", "r1"]
        assert now[0]["swipe"] == 1
        await client.delete(f"{path}/{ids[3]}?following=true")
        assert [each["content"] for each in (await client.get(path)).json()["data"]][1:] == ["changed"]
        missing = await client.patch(f"{path}/{ids[3]}", json={"content": "gone"})
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "message_not_found")


async def test_a_branch_is_copied_in_parts(start: StartApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.server.sessions.changes.COPIED_AT_ONCE", 2)
    async with start(ScriptedModel("r0", "r1", "r2", "again")) as client:
        session = (await talk(client, 3))[0]["tavernkit"]["session_id"]
        messages = (await client.get(f"/api/sessions/{session}/messages")).json()["data"]
        body = {"message_id": messages[5]["id"], "session": "other"}
        assert (await client.post(f"/api/sessions/{session}/actions/branch", json=body)).status_code == 201
        assert (await client.post(CHAT, json=says("other", user="other"))).status_code == 200
        kept = [line[1] for line in await lines_of(client, "other")]
    assert kept[1:] == ["m0", "r0", "m1", "r1", "m2", "other", "again"]


async def test_lore_that_is_timed_ends_when_it_would(start: StartApp, short_reading: pytest.MonkeyPatch) -> None:
    entry = json.loads(example_path("tidewatch.json").read_text())["entries"]["0"]
    book = {"entries": {"0": {**entry, "key": ["m1"], "content": "STICKY", "sticky": 5, "cooldown": 4}}}
    texts = [f"m{number}" for number in range(4, 0, -1)] + [f"m{number}" for number in range(1, 9)]

    async def seen(session: str) -> list[tuple[bool, Any]]:
        found: list[tuple[bool, Any]] = []
        for number, text in enumerate(texts):
            body = says(f"{text}.", user=session, tavernkit={"books": ["timed"]})
            reply = (await client.post(CHAT, json=body)).json()
            state = (await client.get(f"/api/sessions/{reply['tavernkit']['session_id']}")).json()
            sent = json.dumps(model.requests[-1])
            found.append(("STICKY" in sent, state["details"]["timedWorldInfo"]))
            assert number < 4 or bool(reply["tavernkit"].get("warnings")) == (session == "long")
        return found

    model = ScriptedModel(*("ok." for _ in range(len(texts) * 2)))
    async with start(model) as client:
        stored = await client.put("/api/books/timed", files={"file": ("timed.json", json.dumps(book))})
        assert stored.status_code == 200, stored.text
        short = await seen("long")
        short_reading.undo()
        whole = await seen("whole")
    assert [shown for shown, _ in short] == [shown for shown, _ in whole]
    assert [timed for _, timed in short] == [timed for _, timed in whole]
    assert {shown for shown, _ in whole} == {True, False}
    assert any(timed["cooldown"] for _, timed in whole)


def test_timed_effects_are_moved_whatever_they_hold() -> None:
    timed: Any = {
        "sticky": {"a": {"start": 12, "end": 15, "hash": 1}, "b": 3},
        "cooldown": {"c": {"end": None}},
        "x": 1,
    }
    details: Any = {"note": "n", "timedWorldInfo": timed}
    assert moved(moved(details, -10), 10) == details
    there: Any = moved(details, -10)
    assert there["timedWorldInfo"]["sticky"] == {"a": {"start": 2, "end": 5, "hash": 1}, "b": 3}
    assert moved(details, 0) is details
    assert moved({"timedWorldInfo": "odd"}, 5) == {"timedWorldInfo": "odd"}


async def test_a_session_of_more_than_ten_thousand_messages_goes_on(start: StartApp) -> None:
    lines = [user_line(f"old {number}", user_name="User") for number in range(MAX_MESSAGES + 1500)]
    model = ScriptedModel("One.", "Two.")
    async with start(model) as client:
        async with client.service.database.write() as connection:
            chat = await chats.create_chat(connection, "local", "s", Selection(character="aria"), lines)
        reply = (await client.post(CHAT, json=says("Hi", user="s"))).json()
        swiped = (await client.post(f"/api/sessions/{chat.id}/swipe", json={})).json()
        first = (await client.get(f"/api/sessions/{chat.id}/messages")).json()
        older = (await client.get(f"/api/sessions/{chat.id}/messages", params={"before": first["next"]})).json()
    assert reply["choices"][0]["message"]["content"] == "One."
    assert "its first 2000 messages" in reply["tavernkit"]["warnings"][0]
    assert swiped["text"] == "Two."
    assert (len(first["data"]), first["data"][-1]["swipes"]) == (MAX_MESSAGES, ["One.", "Two."])
    assert [message["content"] for message in older["data"][:2]] == ["old 0", "old 1"]
    assert (len(older["data"]), older["next"]) == (1502, None)
