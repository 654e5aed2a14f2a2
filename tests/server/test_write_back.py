"""Sessions that are written back into the folder or the save they came from."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tavernkit import silly_tavern as st
from tavernkit.conversation import StoreError
from tavernkit.risu_ai import Save
from tavernkit.server.imports import served_folders, stored_chats
from tavernkit.server.imports.found import Progress
from tavernkit.server.imports.served_folders import import_work
from tavernkit.server.imports.sources import save_work
from tavernkit.testing import ScriptedModel
from tests.conversation.test_installations import DATABASE
from tests.server.conftest import Client, StartApp
from tests.server.test_folders import CARD, write

HEADER = {"user_name": "Ann", "character_name": "Bel", "mine": 1, "chat_metadata": {"note_prompt": "N", "mine": 2}}
LINES: list[dict[str, Any]] = [
    {"name": "Ann", "mes": "Hi", "is_user": True, "mine": 3, "extra": {}},
    {"name": "Bel", "mes": "Hello.", "is_user": False, "extra": {"mine": 4}},
]
MORE: dict[str, Any] = {"name": "Ann", "mes": "Elsewhere", "is_user": True, "extra": {}}


def chat_text(*lines: dict[str, Any]) -> str:
    return "\n".join(json.dumps(each) for each in (HEADER, *lines))


def put(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "default-user"
    write(root / "settings.json", {"power_user": {}})
    write(root / "characters" / "Bel.json", CARD)
    chat = root / "chats" / "Bel" / "first.jsonl"
    chat.parent.mkdir(parents=True)
    put(chat, chat_text(*LINES))
    return root


def first(folder: Path) -> Path:
    return folder / "chats" / "Bel" / "first.jsonl"


def text_of(path: Path) -> str:
    return path.read_text("utf-8")


def texts(path: Path) -> list[str]:
    return [message.mes for message in st.ChatFile.load(path).messages]


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


async def names(client: Client) -> dict[str, str]:
    return {each["session"]: each["id"] for each in (await client.get("/api/sessions")).json()["data"]}


async def say(client: Client, session: str, text: str) -> None:
    answer = await client.post(f"/api/sessions/{session}/messages", json={"content": text})
    assert answer.status_code == 200, answer.text


async def stored(client: Client, session: str) -> list[str]:
    lines = (await client.get(f"/api/sessions/{session}/messages")).json()["data"]
    return [line["content"] for line in lines]


async def test_a_chat_goes_on_in_its_file(start: StartApp, folder: Path) -> None:
    async with start(ScriptedModel("One.", "Two."), from_sillytavern=folder, write_back=True) as client:
        session = (await names(client))["folder:bel:first"]
        for text in ("1", "2"):
            await say(client, session, text)
            await client.service.write_back.write_changed()
        written = [json.loads(line) for line in text_of(first(folder)).splitlines()]
        assert (written[0]["mine"], written[0]["chat_metadata"]["mine"]) == (1, 2)
        assert (written[1]["mine"], written[2]["extra"]["mine"]) == (3, 4)
        assert texts(first(folder)) == ["Hi", "Hello.", "1", "One.", "2", "Two."]
        line = (await client.get(f"/api/sessions/{session}/messages")).json()["data"][-1]
        await client.delete(f"/api/sessions/{session}/messages/{line['id']}")
    assert texts(first(folder)) == ["Hi", "Hello.", "1", "One.", "2"]  # the rest is written when the server stops
    assert [text_of(path) for path in files_in(folder / "tavernkit" / "backups")] == [chat_text(*LINES)]


async def test_a_file_that_is_written_while_the_server_stops_is_known(
    start: StartApp, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_folders, "WRITE_BACK_SECONDS", 0.001)
    begun, stopping, done = threading.Event(), threading.Event(), threading.Event()
    async with start(ScriptedModel("One."), from_sillytavern=folder, write_back=True) as client:
        written = client.service.write_back._written

        def slowly(*arguments: Any) -> Any:
            if begun.is_set():  # the server has not waited for the first
                stopping.set()
                assert done.wait(5)
                return written(*arguments)
            begun.set()
            assert stopping.wait(5)
            result = written(*arguments)
            done.set()
            return result

        client.service.write_back._written = slowly  # type: ignore[method-assign]
        await say(client, (await names(client))["folder:bel:first"], "1")
        assert await asyncio.to_thread(begun.wait, 5)
        asyncio.get_running_loop().call_later(0.1, stopping.set)
    assert texts(first(folder)) == ["Hi", "Hello.", "1", "One."]
    assert files_in(folder / "chats") == [first(folder)]


async def test_a_session_that_cannot_be_written_is_tried_again_until_it_is_removed(
    start: StartApp, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("the disk is full")

    def break_down(*_: object) -> None:
        raise RuntimeError("the database is gone")

    async with start(ScriptedModel("One."), from_sillytavern=folder, write_back=True) as client:
        write_back, session = client.service.write_back, (await names(client))["folder:bel:first"]
        await say(client, session, "1")
        with monkeypatch.context() as patched:
            patched.setattr(write_back, "_written", refuse)
            await write_back.write_changed()
            write_back._since = float("inf")  # it has changed long ago
            patched.setattr(write_back, "_written", break_down)
            with pytest.raises(RuntimeError):
                await write_back.write_changed()
        assert write_back._failed == {(session, "silly_tavern")}
        assert (await client.delete(f"/api/sessions/{session}")).status_code == 204
        caplog.clear()
        await write_back.write_changed()
        assert (write_back._failed, caplog.messages) == (set(), [])


async def test_nothing_is_written_unless_asked_for(start: StartApp, folder: Path) -> None:
    async with start(ScriptedModel("One."), from_sillytavern=folder) as client:
        await say(client, (await names(client))["folder:bel:first"], "1")
    assert text_of(first(folder)) == chat_text(*LINES)


async def test_a_new_session_gets_a_file_and_is_not_imported_again(start: StartApp, folder: Path) -> None:
    async with start(ScriptedModel("One.", "Two."), from_sillytavern=folder, write_back=True) as client:
        made = await client.post("/api/sessions", json={"model": "bel", "session": "mine", "greeting": None})
        await say(client, made.json()["id"], "1")
        other = json.dumps({**CARD, "data": {"name": "Other"}})
        await client.post("/api/characters", files={"file": ("o.json", other)})
        await client.post("/api/sessions", json={"model": "other", "session": "not of the folder"})
        await client.service.write_back.write_changed()
        await client.service.folders.read(folder)
        assert sorted(await names(client)) == ["folder:bel:first", "mine", "not of the folder"]
        await say(client, made.json()["id"], "2")
        await client.service.write_back.write_changed()
    files = files_in(folder / "chats")
    assert len(files) == 2
    assert [texts(path) for path in files if path != first(folder)] == [["1", "One.", "2", "Two."]]


async def test_what_another_program_changed_is_not_overwritten(
    start: StartApp, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = chat_text(*LINES, MORE)
    copy = first(folder).with_name("first (tavernkit).jsonl")
    async with start(ScriptedModel("One.", "Two."), from_sillytavern=folder, write_back=True) as client:
        session = (await names(client))["folder:bel:first"]
        await say(client, session, "1")
        put(first(folder), theirs)
        await client.service.write_back.write_changed()
        assert text_of(first(folder)) == theirs
        assert texts(copy) == ["Hi", "Hello.", "1", "One."]
        assert "first.jsonl was changed by another program and is left alone" in caplog.text
        await client.service.folders.read(folder)
        known = await names(client)
        assert sorted(known) == ["folder:bel:first", "folder:bel:first (from the folder)"]
        assert await stored(client, known["folder:bel:first (from the folder)"]) == ["Hi", "Hello.", "Elsewhere"]
        await say(client, session, "2")
        await client.service.write_back.write_changed()
        assert texts(copy)[-2:] == ["2", "Two."]
    assert text_of(first(folder)) == theirs


async def test_a_session_that_did_not_go_on_follows_its_file(start: StartApp, folder: Path) -> None:
    async with start(ScriptedModel("One."), from_sillytavern=folder, write_back=True) as client:
        session = (await names(client))["folder:bel:first"]
        put(first(folder), chat_text(*LINES, MORE))
        await client.service.folders.read(folder)
        assert await stored(client, session) == ["Hi", "Hello.", "Elsewhere"]
        await say(client, session, "1")
    assert texts(first(folder)) == ["Hi", "Hello.", "Elsewhere", "1", "One."]


async def test_a_file_that_was_removed_stays_away(start: StartApp, folder: Path) -> None:
    async with start(ScriptedModel("One."), from_sillytavern=folder, write_back=True) as client:
        first(folder).unlink()
        await say(client, (await names(client))["folder:bel:first"], "1")
    assert [path.name for path in files_in(folder / "chats")] == ["first (tavernkit).jsonl"]


async def test_messages_that_the_session_never_had_stay(
    start: StartApp, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [{"name": "Ann", "mes": str(number), "is_user": True, "extra": {}} for number in range(12)]
    put(first(folder), chat_text(*many))
    monkeypatch.setattr(stored_chats, "MAX_SESSION_MESSAGES", 10)
    monkeypatch.setattr(stored_chats, "TAKEN_OF_LONGER", 4)
    async with start(ScriptedModel("One."), from_sillytavern=folder, write_back=True) as client:
        session = (await names(client))["folder:bel:first"]
        assert await stored(client, session) == ["8", "9", "10", "11"]
        await say(client, session, "new")
    assert texts(first(folder)) == [*map(str, range(12)), "new", "One."]


async def test_a_full_disk_leaves_the_file_and_the_chat_is_written_later(
    start: StartApp, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_path: Path, _content: bytes) -> None:
        raise StoreError("no space left on device")

    async with start(ScriptedModel("One."), from_sillytavern=folder, write_back=True) as client:
        await say(client, (await names(client))["folder:bel:first"], "1")
        with monkeypatch.context() as patched:
            patched.setattr(served_folders, "save_file", full)
            await client.service.write_back.write_changed()
        assert "no space left" in caplog.text
        assert text_of(first(folder)) == chat_text(*LINES)
        await client.service.write_back.write_changed()
        assert texts(first(folder))[-1] == "One."


@pytest.mark.parametrize("name", ["backup.bin", "save.json"])
async def test_chats_of_a_save_go_on_there(start: StartApp, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    Save.from_json(DATABASE).save(path)
    async with start(ScriptedModel("One.", "Two."), from_risuai=path, write_back=True) as client:
        await import_in(client, path)
        session = next(value for key, value in (await names(client)).items() if key.endswith(":a"))
        await say(client, session, "1")
        await client.service.write_back.write_changed()
        assert said(path) == ["Hello, Bel.", "1", "One."]
        await say(client, session, "2")
    save = Save.load(path)
    assert said(path) == ["Hello, Bel.", "1", "One.", "2", "Two."]
    assert save.chat("Bel", "first").raw["mine"] == 1
    assert save.database["custom"] == {"kept": 1}
    assert [each.name for each in save.chats("Bel")] == [each.name for each in Save.from_json(DATABASE).chats("Bel")]


async def test_a_chat_of_a_save_that_risuai_changed_is_not_overwritten(
    start: StartApp, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "save.json"
    Save.from_json(DATABASE).save(path)
    async with start(ScriptedModel("One."), from_risuai=path, write_back=True) as client:
        await import_in(client, path)
        session = next(value for key, value in (await names(client)).items() if key.endswith(":a"))
        put(path, text_of(path).replace("Hello, Bel.", "Changed."))
        await say(client, session, "1")
    assert said(path) == ["Changed."]
    assert said(path, "first (tavernkit)") == ["Hello, Bel.", "1", "One."]
    assert "was changed by another program" in caplog.text


def said(path: Path, chat: str = "first") -> list[str]:
    return [message.data for message in Save.load(path).chat("Bel", chat).messages]


async def import_in(client: Client, path: Path) -> None:
    progress = Progress("job", client.service.write_back.owner, path.parent)
    await import_work(client.service.database, progress, save_work(path, progress.warn))


async def test_a_branch_of_a_chat_has_a_file_of_its_own(start: StartApp, folder: Path) -> None:
    async with start(ScriptedModel("One."), from_sillytavern=folder, write_back=True) as client:
        session = (await names(client))["folder:bel:first"]
        line = (await client.get(f"/api/sessions/{session}/messages")).json()["data"][0]["id"]
        made = await client.post(f"/api/sessions/{session}/actions/branch", json={"message_id": line})
        await say(client, made.json()["id"], "Otherwise")
        await client.service.write_back.write_changed()
        assert text_of(first(folder)) == chat_text(*LINES)
        (other,) = [path for path in first(folder).parent.iterdir() if path != first(folder)]
        assert texts(other) == ["Hi", "Otherwise", "One."]
