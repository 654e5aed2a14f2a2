"""Folders that are served, and what is done with a whole database."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit.cli.app import run as tavernkit
from tavernkit.examples import example_path
from tavernkit.server import ServerConfig, backups
from tavernkit.server.imports import served_folders, sources
from tavernkit.server.sessions import files
from tavernkit.server.storage import lines as stored_lines
from tavernkit.server.storage.lines import read_lines
from tavernkit.testing import ScriptedModel
from tests.server.conftest import Client, StartApp
from tests.server.databases import database_url

CHAT = "/v1/chat/completions"
CARD: dict[str, Any] = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {"name": "Bel", "description": "A cook."},
}


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


async def models(client: Client) -> list[str]:
    return [each["id"] for each in (await client.get("/v1/models")).json()["data"] if "@" not in each["id"]]


async def test_a_folder_of_cards_is_offered_and_read_again(start: StartApp, tmp_path: Path) -> None:
    folder = tmp_path / "cards"
    write(folder / "bel.json", CARD)
    write(folder / "more" / "other.json", {**CARD, "data": {"name": "Bel", "description": "Another Bel."}})
    shutil.copy(example_path("aria.json"), folder / "a.json")
    (folder / "broken.png").write_bytes(b"no card")
    async with start(characters=folder) as client:
        assert sorted(await models(client)) == ["aria", "bel", "bel-other"]
    async with start(characters=folder) as client:
        versions = {each["id"]: each["version"] for each in (await client.get("/api/characters")).json()["data"]}
        assert versions == {"aria": 1, "bel": 1, "bel-other": 1}
        write(folder / "bel.json", {**CARD, "data": {"name": "Bel", "description": "A chef."}})
        await client.service.folders.read(folder)
        changed = {each["id"]: each["version"] for each in (await client.get("/api/characters")).json()["data"]}
        assert changed == {"aria": 1, "bel": 2, "bel-other": 1}


async def test_other_files_in_a_folder_are_no_problem(start: StartApp, tmp_path: Path) -> None:
    write(tmp_path / "bel.json", CARD)
    (tmp_path / "bad.png").write_bytes(b"no card")
    for name in ("notes.txt", "Bel.state.json", "bel.tavern.yaml", "report.html", "tavernkit-data/kept.db"):
        write(tmp_path / name, {})
    async with start(characters=tmp_path, data=tmp_path / "tavernkit-data") as client:
        folders = client.service.folders
        (warning,) = (await folders.read(tmp_path)).warnings
        assert warning.startswith("bad.png is left out: ")
        before = folders._signature()
        write(tmp_path / "tavernkit-data" / "kept.db", {"turn": 1})
        assert folders._signature() == before
        write(tmp_path / "cid.json", CARD)
        assert folders._signature() != before


async def test_a_file_that_breaks_its_reader_does_not_keep_the_server_from_starting(
    start: StartApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read_item = sources.read_item

    def reading(kind: Any, filename: str, data: bytes) -> Any:
        if filename == "bad.json":
            raise ValueError("unexpected")
        return read_item(kind, filename, data)

    monkeypatch.setattr(sources, "read_item", reading)
    write(tmp_path / "bad.json", CARD)
    write(tmp_path / "bel.json", CARD)
    async with start(characters=tmp_path, example=False) as client:
        assert await models(client) == ["bel"]
    assert "bad.json is left out; the log says why" in caplog.text


async def test_changes_are_picked_up(start: StartApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_folders, "WATCH_SECONDS", 0.01)
    folder = tmp_path / "cards"
    write(folder / "bel.json", CARD)
    async with start(characters=folder, watch=True) as client:
        assert await models(client) == ["bel"]
        write(folder / "cid.json", {**CARD, "data": {"name": "Cid"}})
        while await models(client) != ["bel", "cid"]:  # ends at once, or the test's time does
            pass


async def test_changes_are_picked_up_when_the_database_is_there_again(
    start: StartApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_folders, "WATCH_SECONDS", 0.001)
    folder, store, failures = tmp_path / "cards", served_folders.store, 2
    folder.mkdir()

    async def failing(*arguments: Any) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise sqlite3.OperationalError("database is locked")
        await store(*arguments)

    monkeypatch.setattr(served_folders, "store", failing)
    async with start(characters=folder, watch=True) as client:
        write(folder / "bel.json", CARD)
        async with asyncio.timeout(10):
            while "bel" not in await models(client):
                pass


async def test_a_sillytavern_folder_is_offered_with_its_chats(start: StartApp, tmp_path: Path) -> None:
    root = tmp_path / "default-user"
    write(root / "settings.json", {"power_user": {}})
    write(root / "characters" / "Bel.json", CARD)
    chat = root / "chats" / "Bel" / "first.jsonl"
    chat.parent.mkdir(parents=True)
    chat.write_text('{"user_name": "Ann", "character_name": "Bel"}\n{"name": "Ann", "mes": "Hi", "is_user": true}')
    for _ in range(2):  # what is here already is not imported again
        async with start(from_sillytavern=root) as client:
            assert await models(client) == ["bel"]
            sessions = (await client.get("/api/sessions")).json()["data"]
            assert [each["session"] for each in sessions] == ["folder:bel:first"]
            lines = (await client.get(f"/api/sessions/{sessions[0]['id']}/messages")).json()["data"]
            assert [each["content"] for each in lines] == ["Hi"]


async def test_a_folder_that_is_not_there_is_told(start: StartApp, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="there is no folder"):
        async with start(characters=tmp_path / "nowhere"):
            pass


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_a_session_is_exported_as_its_platform_has_it(start: StartApp, platform: str) -> None:
    async with start(ScriptedModel("One.", "Two.")) as client:
        body: dict[str, Any] = {
            "model": "aria",
            "messages": [{"role": "user", "content": "{{setvar::a::1}}Hi"}],
            "tavernkit": {"platform": platform, "session": "s/1"},
        }
        answers = [(await client.post(CHAT, json=body)).json() for _ in range(2)]
        session = answers[0]["tavernkit"]["session_id"]
        answer = await client.get(f"/api/sessions/{session}/export")
        missing = await client.get("/api/sessions/none/export")
    assert (answer.status_code, missing.status_code) == (200, 404)
    assert "attachment" in answer.headers["content-disposition"]
    if platform == "silly_tavern":
        file = st.ChatFile.loads(answer.text)
        assert [line.mes for line in file.messages][-1] == "Two."
        assert file.header["character_name"] == "Aria"
        assert file.metadata.to_json()["variables"] == {"a": "1"}
    else:
        chat = risu_ai.ChatFile.load(answer.content).chats[0]
        assert [line.data for line in chat.messages][-1] == "Two."


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_a_long_session_is_exported_while_others_are_served(
    start: StartApp, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    name = "_risu_chat" if platform == "risu_ai" else "silly_tavern_file"
    write, read, written_in, reads = getattr(files, name), read_lines, list[threading.Thread](), list[int]()

    def writing(*arguments: Any) -> bytes:
        written_in.append(threading.current_thread())
        return write(*arguments)

    async def reading(*arguments: Any, limit: int, before: int | None = None) -> Any:
        found = await read(*arguments, limit=limit, before=before)
        reads.append(len(found))
        return found

    async with start(ScriptedModel(*["Reply."] * 3)) as client:
        body = {"model": "aria", "greeting": None, "tavernkit": {"platform": platform}}
        path = f"/api/sessions/{(await client.post('/api/sessions', json=body)).json()['id']}"
        for number in range(3):
            assert (await client.post(f"{path}/messages", json={"content": f"m{number}"})).status_code == 200
        whole = (await client.get(f"{path}/export")).content
        monkeypatch.setattr(files, name, writing)
        monkeypatch.setattr(stored_lines, "READ_AT_ONCE", 4)
        monkeypatch.setattr(stored_lines, "read_lines", reading)
        assert (await client.get(f"{path}/export")).content == whole
    assert reads == [4, 2, 0]
    assert written_in[0] is not threading.current_thread()


async def test_lists_of_sessions_can_be_narrowed(start: StartApp, tmp_path: Path) -> None:
    write(tmp_path / "cards" / "bel.json", CARD)
    async with start(characters=tmp_path / "cards") as client:
        for name in ("one", "two"):
            await client.post("/api/sessions", json={"model": "bel", "session": name})
        shutil.copy(example_path("aria.json"), tmp_path / "cards" / "aria.json")
        await client.service.folders.read(tmp_path / "cards")
        await client.post("/api/sessions", json={"model": "aria", "session": "three"})
        found = {
            query: [each["session"] for each in (await client.get(f"/api/sessions?{query}")).json()["data"]]
            for query in ("character=bel", "session=three", "platform=risu_ai", "character=bel&session=one")
        }
        assert (await client.get("/api/sessions?platform=other")).status_code == 422
    assert {query: sorted(names) for query, names in found.items()} == {
        "character=bel": ["one", "two"],
        "session=three": ["three"],
        "platform=risu_ai": [],
        "character=bel&session=one": ["one"],
    }


async def test_an_exported_archive_can_be_imported(start: StartApp, tmp_path: Path) -> None:
    """It has folders for characters and chats as a data folder has, but also much that a data folder lacks."""
    first, second = ({"db": f"sqlite:///{tmp_path / name}", "data": tmp_path} for name in ("one.db", "two.db"))
    script = {"scriptName": "quiet", "findRegex": "!", "replaceString": ".", "placement": [2], "id": "q"}
    async with start(ScriptedModel("One.", "Two.", "Three.", "Four."), **first) as client:
        bel = await client.post("/api/characters", files={"file": ("bel.json", json.dumps(CARD).encode())})
        group = {"name": "Crew", "members": ["aria", bel.json()["id"]]}
        persona = {"name": "Mira", "description": "A sailor."}
        for kind, value in (("groups", group), ("personas", persona)):
            made = await client.post(f"/api/{kind}", json=value)
            assert made.status_code == 201, made.text
        assert (await client.put("/api/settings", json={"trim_sentences": True})).status_code == 200
        assert (await client.put("/api/regex", json=[script])).status_code == 200
        risu = {"platform": "risu_ai"}
        for model, more in (("bel", {}), ("group:crew", {}), ("bel", risu)):
            body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
            options = {"tavernkit": {"session": f"{model} {len(more)}", **more}}
            reply = await client.post(CHAT, json={**body, **options})
            assert reply.status_code == 200, reply.text
        before = await everything(client)
    archive = tmp_path / "archive without a suffix"
    counts = await asyncio.to_thread(backups.export_all, ServerConfig.model_validate(first), archive)
    assert counts["session"] == 3
    told = await asyncio.to_thread(backups.import_path, ServerConfig.model_validate(second), archive)
    assert told["warnings"] == []
    async with start(**second) as client:
        assert await everything(client) == before


async def everything(client: Client) -> dict[str, Any]:
    """What clients see of a library and its sessions."""
    kinds = ("characters", "books", "presets", "personas", "groups")
    found = {kind: {each["id"] for each in (await client.get(f"/api/{kind}")).json()["data"]} for kind in kinds}
    sessions = (await client.get("/api/sessions")).json()["data"]
    texts = {
        (each["platform"], each["character"], each["group"]): [
            line["content"] for line in (await client.get(f"/api/sessions/{each['id']}/messages")).json()["data"]
        ]
        for each in sessions
    }
    group = json.loads((await client.get("/api/groups/crew/file")).content)
    settings = {path: (await client.get(path)).json() for path in ("/api/settings", "/api/regex")}
    return {**found, "sessions": texts, "members": group["members"], **settings}


async def test_a_backup_is_of_one_moment_and_can_be_restored_whatever_clients_store(
    start: StartApp, settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, archive, new = backups._tables, tmp_path / "backup.zip", {"data": tmp_path / "new", **database_url()}
    odd = {"base64": "not bytes"}

    def talking() -> Iterator[Any]:
        """Somebody starts a session while the backup is made."""
        for table in tables():
            yield table
            if table.name == "sessions":
                asyncio.run_coroutine_threadsafe(create("late"), loop).result()

    async with start(ScriptedModel("One.")) as client:

        async def create(name: str) -> str:
            return (await client.post("/api/sessions", json={"model": "aria", "session": name})).json()["id"]

        loop, session = asyncio.get_running_loop(), await create("early")
        assert (await client.patch(f"/api/sessions/{session}", json={"details": odd})).status_code == 200
        monkeypatch.setattr(backups, "_tables", talking)
        counts = await asyncio.to_thread(backups.backup, ServerConfig.model_validate(settings), archive)
    monkeypatch.undo()
    found = await asyncio.to_thread(backups.restore, ServerConfig.model_validate(new), archive)
    assert found == {table: rows for table, rows in counts.items() if rows}
    async with start(**new) as client:
        (restored,) = (await client.get("/api/sessions")).json()["data"]
    assert (restored["session"], restored["details"]) == ("early", odd)


async def test_sessions_that_change_during_an_export_are_in_it(
    start: StartApp, settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_file, archive = backups.chat_file, tmp_path / "export.zip"
    monkeypatch.setattr(backups, "MAX_PAGE", 1)
    async with start(ScriptedModel(*["One."] * 3)) as client:
        ids = [
            (await client.post("/api/sessions", json={"model": "aria", "session": f"s{number}"})).json()["id"]
            for number in range(3)
        ]

        async def say() -> None:
            await client.post(f"/api/sessions/{ids[0]}/messages", json={"content": "Hi"})

        async def talking(connection: Any, chat: Any) -> Any:
            if chat.id == ids[-1]:  # the one that changed last is exported first
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(say(), loop))
            return await chat_file(connection, chat)

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(backups, "chat_file", talking)
        counts = await asyncio.to_thread(backups.export_all, ServerConfig.model_validate(settings), archive)
    assert counts["session"] == 3


def test_the_database_by_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*words: str, data: str = "one") -> str:
        code = tavernkit(["server", *words, "--data", str(tmp_path / data)])
        told = capsys.readouterr()
        assert code == 0, told.err
        return told.out

    def refused(*words: str, data: str = "one") -> str:
        assert tavernkit(["server", *words, "--data", str(tmp_path / data)]) != 0
        return capsys.readouterr().err

    monkeypatch.chdir(tmp_path)
    write(tmp_path / "cards" / "bel.json", CARD)
    assert "up to date" in run("migrate")
    assert "no keys" in run("keys")
    assert run("import", str(tmp_path / "cards")) == "1 character\n"
    imported = json.loads(run("import", str(example_path("aria.json")), "--json"))
    assert (imported["schema_version"], imported["imported"]) == (1, {"character": 1})
    made = json.loads(run("keys", "--create", "bot", "--scope", "chat", "--rate-limit", "5", "--json"))
    assert (made["scopes"], made["rate_limit"], made["key"][:3]) == (["chat"], 5, "tk-")
    assert "chat  bot  5 requests/minute\n" in run("keys")
    assert "more than 0" in refused("keys", "--create", "x", "--daily-cost", "0")
    run("export", str(tmp_path / "all.zip"))
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert {"characters/bel.json", "characters/aria.json"} <= set(archive.namelist())
    # The characters, and where each came from.
    assert "4 items" in run("backup", str(tmp_path / "backup.zip"))
    assert "4 items" in run("restore", str(tmp_path / "backup.zip"), data="two")
    for command, file, key in (
        ("export", "all", "exported"),
        ("backup", "backup", "rows"),
        ("restore", "backup", "rows"),
    ):
        report = json.loads(
            run(command, str(tmp_path / f"{file}.zip"), "--json", data="new" if command == "restore" else "one")
        )
        assert report[key]["character" if command == "export" else "items"] == (2 if command == "export" else 4)
    kept = json.loads(run("keys", "--json", data="two"))
    assert (made["schema_version"], kept["schema_version"], kept["keys"][0]["id"]) == (1, 1, made["id"])
    said = refused("restore", str(tmp_path / "backup.zip"), data="two")
    assert said == "error: the database is not empty: restore into a new one\n"
    assert "pass it to tavernkit server import" in refused("restore", str(tmp_path / "all.zip"), data="three")
    assert "not a backup" in refused("restore", str(tmp_path / "cards" / "bel.json"), data="three")
    assert "nowhere/all.zip cannot be written: No such file" in refused("export", str(tmp_path / "nowhere" / "all.zip"))
    databases = sorted((tmp_path / "one").glob("*.db"))
    card = tmp_path / "cards" / "bel.json"
    for arguments in (("backup",), ("export",), ("export", "--session", "x")):
        assert "file of another kind, and is not overwritten" in refused(*arguments, str(databases[0]))
    for command in ("backup", "export"):
        assert "is not overwritten" in refused(command, str(card))
    assert made["id"] in run("keys")
    assert "revoked" in run("keys", "--revoke", made["id"], data="two")
    assert "there is no" in refused("import", str(tmp_path / "nothing.png"))
    assert "scope" in refused("keys", "--create", "x", "--scope", "everything")
