"""Imports of whole collections."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tavernkit.examples import example_path
from tavernkit.risu_ai import Save
from tavernkit.server.errors import ServiceError
from tavernkit.server.imports import jobs, sources
from tavernkit.server.imports.found import Progress
from tavernkit.server.limits import MAX_JOB_WARNINGS
from tavernkit.server.storage.tables import Job
from tavernkit.testing import ScriptedModel
from tests.server.conftest import Client, StartApp

CARD = example_path("aria.json")
ROOT = "data/default-user"


async def contents(client: Client, session_id: str) -> list[str]:
    found = (await client.get(f"/api/sessions/{session_id}/messages")).json()["data"]
    return [message["content"] for message in found]


async def finished(client: Client, files: dict[str, Any]) -> dict[str, Any]:
    job = (await client.post("/api/imports", files=files)).json()
    for task in list(client.service.imports._tasks):
        await task
    return (await client.get(f"/api/imports/{job['id']}")).json()


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


async def test_a_sillytavern_folder_is_imported_as_one_job(client: Client) -> None:
    chat = example_path("chat.jsonl").read_bytes()
    group = {"id": "1", "name": "Crew", "members": ["Keeper.json", "gone.png"]}
    settings = {
        "power_user": {"personas": {"a.png": "Ann"}, "persona_descriptions": {"a.png": {"description": "D"}}},
        "oai_settings": {"chat_completion_source": "custom", "custom_include_body": "min_p: 0.2"},
    }
    archive = zipped(
        {
            "data/default-user/settings.json": json.dumps(settings).encode(),
            "data/default-user/characters/Keeper.json": CARD.read_bytes(),
            "data/default-user/characters/broken.png": b"broken",
            "data/default-user/worlds/Tide.json": example_path("tidewatch.json").read_bytes(),
            "data/default-user/OpenAI Settings/Mine.json": example_path("preset.json").read_bytes(),
            "data/default-user/groups/1.json": json.dumps(group).encode(),
            "data/default-user/chats/Keeper/one.jsonl": chat,
        }
    )
    job = await finished(client, {"file": ("st.zip", archive)})
    assert job["status"] == "done", job
    assert job["done"] == job["total"]
    counts = {"character": 1, "book": 1, "preset": 1, "persona": 1, "group": 1, "session": 1}
    assert job["result"]["imported"] == counts
    assert any("broken.png" in warning for warning in job["result"]["warnings"])
    assert any("settings.json: custom_include_body" in warning for warning in job["result"]["warnings"])
    sessions = (await client.get("/api/sessions")).json()["data"]
    assert len(await contents(client, sessions[0]["id"])) == 4 + len(chat.splitlines()) - 5


async def test_an_archive_cannot_reach_out_or_explode(client: Client, tmp_path: Path) -> None:
    out = await finished(client, {"file": ("a.zip", zipped({"../../evil.json": b"{}"}))})
    bomb = await finished(client, {"file": ("b.zip", zipped({"a.json": b"0" * 50_000_000}))})
    junk = await finished(client, {"file": ("c.zip", b"PK junk")})
    assert [job["status"] for job in (out, bomb, junk)] == ["failed"] * 3
    assert "points outside" in out["result"]["warnings"][0]
    assert "suspiciously" in bomb["result"]["warnings"][0]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
async def test_a_damaged_archive_fails_with_a_reason(client: Client, method: int) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("aria.json", CARD.read_bytes())
    damaged = bytearray(buffer.getvalue())
    damaged[60:80] = b"\xff" * 20
    job = await finished(client, {"file": ("a.zip", bytes(damaged))})
    assert job["status"] == "failed"
    assert job["result"]["warnings"][0].startswith("the archive cannot be read: ")


async def test_removing_what_was_unpacked_does_not_keep_others_waiting(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed_in: list[threading.Thread] = []
    monkeypatch.setattr(jobs.shutil, "rmtree", lambda *_, **__: removed_in.append(threading.current_thread()))
    await finished(client, {"file": ("aria.json", CARD.read_bytes())})
    assert len(removed_in) == 1
    assert removed_in[0] is not threading.current_thread()


async def test_files_of_risuai_are_imported(client: Client) -> None:
    preset = {"name": "Risu", "promptTemplate": [], "formatingOrder": ["main"], "mainPrompt": "Be."}
    archive = zipped({"cards/aria.json": CARD.read_bytes(), "risu.json": json.dumps(preset).encode(), "x.txt": b"?"})
    job = await finished(client, {"file": ("risu.zip", archive)})
    assert job["result"]["imported"] == {"character": 1, "preset": 1}
    assert any("x.txt" in warning for warning in job["result"]["warnings"])


def card_of(name: str) -> bytes:
    card = json.loads(CARD.read_text())
    card["data"]["name"] = name
    return json.dumps(card).encode()


def chat_lines(*lines: dict[str, Any]) -> bytes:
    header = {"user_name": "Ann", "character_name": "unused", "chat_metadata": {"variables": {"gold": 3}}}
    return "\n".join(json.dumps(line) for line in (header, *lines)).encode()


async def test_groups_come_with_their_chats(start: StartApp) -> None:
    chat = chat_lines(
        {"name": "Ann", "is_user": True, "mes": "Hello both"},
        {"name": "Bel", "is_user": False, "mes": "Hello Ann", "original_avatar": "Bel.json"},
    )
    group = {"id": "77", "name": "Crew", "members": ["Aria.json", "Bel.json"], "chat_id": "c1", "chats": ["c1", "gone"]}
    model = ScriptedModel("More of it.")
    archive = zipped(
        {
            f"{ROOT}/characters/Aria.json": CARD.read_bytes(),
            f"{ROOT}/characters/Bel.json": card_of("Bel"),
            f"{ROOT}/groups/77.json": json.dumps(group).encode(),
            f"{ROOT}/group chats/c1.jsonl": chat,
        }
    )
    async with start(model) as client:
        job = await finished(client, {"file": ("st.zip", archive)})
        assert job["result"]["imported"] == {"character": 2, "group": 1, "session": 1}
        assert any("gone" in warning for warning in job["result"]["warnings"])
        made = (await client.get("/api/sessions")).json()["data"][0]
        assert (made["group"], made["variables"]) == ("crew", {"gold": 3})
        assert await contents(client, made["id"]) == ["Hello both", "Hello Ann"]
        swiped = (await client.post(f"/api/sessions/{made['id']}/swipe", json={})).json()
    assert swiped["speaker"] == "Bel"


async def test_chats_keep_the_persona_they_are_locked_to(client: Client) -> None:
    line = {"name": "Ann", "is_user": True, "mes": "Hi", "extra": {"files": [{"url": "user/files/a.txt"}]}}
    locked = json.dumps({"chat_metadata": {"persona": "b.png"}}).encode() + b"\n" + json.dumps(line).encode()
    settings = {
        "user_avatar": "a.png",
        "power_user": {"personas": {"a.png": "Ann", "b.png": "Bo"}},
        "extension_settings": {"note": {"default": "N"}, "memory": {"position": 1}},
    }
    archive = zipped(
        {
            f"{ROOT}/settings.json": json.dumps(settings).encode(),
            f"{ROOT}/User Avatars/a.png": b"",
            f"{ROOT}/User Avatars/b.png": b"",
            f"{ROOT}/characters/Aria.json": CARD.read_bytes(),
            f"{ROOT}/chats/Aria/locked.jsonl": locked,
            f"{ROOT}/chats/Aria/open.jsonl": chat_lines({"name": "Ann", "is_user": True, "mes": "Hi"}),
        }
    )
    job = await finished(client, {"file": ("st.zip", archive)})
    sessions = (await client.get("/api/sessions")).json()["data"]
    assert sorted(each["persona"] for each in sessions) == ["ann", "bo"]
    warnings = job["result"]["warnings"]
    assert warnings == ["the chat 'locked': the file 'user/files/a.txt' is not there, or too large"]


@pytest.mark.parametrize(("stored", "used"), [(1, 0), (4, 4), (None, 0)])
async def test_personas_keep_their_place(client: Client, stored: int | None, used: int) -> None:
    details = {"description": "D", "position": stored, "depth": 3, "role": 1, "lorebook": "Tide"}
    settings = {"power_user": {"personas": {"a.png": "Ann"}, "persona_descriptions": {"a.png": details}}}
    archive = zipped({f"{ROOT}/settings.json": json.dumps(settings).encode(), f"{ROOT}/characters/x.txt": b""})
    await finished(client, {"file": ("st.zip", archive)})
    shown = (await client.get("/api/personas/ann")).json()["content"]
    assert (shown["position"], shown["depth"], shown["role"], shown["books"]) == (used, 3, 1, ["tide"])


async def test_global_regex_scripts_are_added_to_those_that_are_there(client: Client) -> None:
    def script(script_id: str, find: str) -> dict[str, object]:
        return {"id": script_id, "scriptName": find, "findRegex": find, "replaceString": "", "placement": [1]}

    await client.put("/api/regex", json=[script("1", "old"), script("2", "kept")])
    settings = {"extension_settings": {"regex": [script("1", "new"), script("3", "more")]}}
    archive = zipped({f"{ROOT}/settings.json": json.dumps(settings).encode(), f"{ROOT}/characters/x.txt": b""})
    job = await finished(client, {"file": ("st.zip", archive)})
    assert job["result"]["imported"] == {"regex": 2}
    assert [each["findRegex"] for each in (await client.get("/api/regex")).json()] == ["new", "kept", "more"]


async def test_scripts_that_were_off_stay_off_or_are_told(client: Client) -> None:
    card = json.loads(CARD.read_text())
    script = {"scriptName": "s", "findRegex": "a", "replaceString": "b", "placement": [1]}
    card["data"]["extensions"] = {"regex_scripts": [script]}
    settings = {
        "extension_settings": {
            "regex": [script],
            "disabledExtensions": ["regex"],
            "character_allowed_regex": ["Allowed.json"],
        }
    }
    archive = zipped(
        {
            f"{ROOT}/settings.json": json.dumps(settings).encode(),
            f"{ROOT}/characters/Allowed.json": json.dumps(card).encode(),
            f"{ROOT}/characters/Other.json": json.dumps(card).encode(),
        }
    )
    job = await finished(client, {"file": ("st.zip", archive)})
    assert [each["disabled"] for each in (await client.get("/api/regex")).json()] == [True]
    told = [warning for warning in job["result"]["warnings"] if "not allowed" in warning]
    assert len(told) == 1
    assert "Other.json" in told[0]


def shouting(name: str, find: str) -> dict[str, Any]:
    return {"scriptName": name, "findRegex": f"/{find}/g", "replaceString": f"<{name}>", "placement": [1]}


def with_script(name: str) -> bytes:
    card = json.loads(card_of(name))
    card["data"]["extensions"] = {"regex_scripts": [shouting(name, "fog")]}
    return json.dumps(card).encode()


async def prompt_of_new_chat(client: Client, **chosen: Any) -> str:
    session = (await client.post("/api/sessions", json=chosen)).json()["id"]
    body = {"session_id": session, "messages": [{"role": "user", "content": "fog and rain"}]}
    return str((await client.post("/api/build", json=body)).json()["payload"])


@pytest.mark.parametrize("switched_on", [True, False])
async def test_new_chats_run_only_the_scripts_that_the_archives_settings_allow(
    client: Client, *, switched_on: bool
) -> None:
    preset = {"prompts": [], "extensions": {"regex_scripts": [shouting("preset", "rain")]}}
    settings = {
        "main_api": "textgenerationwebui",  # lists of scripts do not depend on the API in use
        "extension_settings": {
            "character_allowed_regex": ["Ann.json"],
            "preset_allowed_regex": {"openai": ["Fine"], "textgenerationwebui": ["Other"]},
            "disabledExtensions": [] if switched_on else ["regex"],
        },
    }
    archive = zipped(
        {
            f"{ROOT}/settings.json": json.dumps(settings).encode(),
            f"{ROOT}/OpenAI Settings/Fine.json": json.dumps(preset).encode(),
            f"{ROOT}/OpenAI Settings/Other.json": json.dumps(preset).encode(),
            f"{ROOT}/characters/Ann.json": with_script("Ann"),
            f"{ROOT}/characters/Bel.json": with_script("Bel"),
        }
    )
    job = await finished(client, {"file": ("st.zip", archive)})
    refused = {each.partition(":")[0] for each in job["result"]["warnings"] if "do not run" in each}
    assert refused >= {"characters/Bel.json", "OpenAI Settings/Other.json"}
    assert len(refused) == (2 if switched_on else 4)
    assert ("<Ann> and rain" in await prompt_of_new_chat(client, model="ann")) is switched_on
    assert "fog and rain" in await prompt_of_new_chat(client, model="bel")
    fine = await prompt_of_new_chat(client, model="bel", tavernkit={"preset": "fine"})
    assert ("fog and <preset>" in fine) is switched_on
    assert "fog and rain" in await prompt_of_new_chat(client, model="bel", tavernkit={"preset": "other"})
    # Whoever uploads the card itself allows its scripts.
    await client.post("/api/characters", files={"file": ("bel.json", with_script("Bel"))})
    assert "<Bel> and rain" in await prompt_of_new_chat(client, model="bel-2")
    await client.put("/api/characters/bel", files={"file": ("bel.json", with_script("Bel"))})
    assert "<Bel> and rain" in await prompt_of_new_chat(client, model="bel")


async def test_scripts_that_are_not_allowed_stay_so_in_an_export(client: Client) -> None:
    refused = {"versions": [["character", "bel", 1, 5.0], "broken", [["list"]], []]}
    archive = zipped(
        {
            "tavernkit-export.json": b"{}",
            "settingss/refused-scripts.json": json.dumps(refused).encode(),
            "characters/ann.json": with_script("Ann"),
            "characters/bel.json": with_script("Bel"),
        }
    )
    job = await finished(client, {"file": ("export.zip", archive)})
    assert job["result"]["warnings"] == []
    assert "<Ann> and rain" in await prompt_of_new_chat(client, model="ann")
    assert "fog and rain" in await prompt_of_new_chat(client, model="bel")


RISU_CHAT = {
    "message": [{"role": "user", "data": "hi"}, {"role": "char", "data": "hello", "chatId": "x"}],
    "name": "First",
    "fmIndex": -1,
    "scriptstate": {"$gold": "3"},
    "note": "Mind the fog.",
}


async def test_chats_of_a_risuai_export_find_their_characters(start: StartApp) -> None:
    every = {"type": "risuAllChats", "ver": 2, "data": [RISU_CHAT, {**RISU_CHAT, "name": "Second"}]}
    one = {"type": "risuChat", "ver": 2, "data": {**RISU_CHAT, "name": "Third"}}
    model = ScriptedModel("on we go")
    archive = zipped(
        {
            "Aria_2026_chats.json": json.dumps(every).encode(),
            "Bel/chat.json": json.dumps(one).encode(),
            "whose.json": json.dumps(one).encode(),
            "cards/aria.json": CARD.read_bytes(),
            "cards/bel.json": card_of("Bel"),
        }
    )
    async with start(model) as client:
        job = await finished(client, {"file": ("risu.zip", archive)})
        assert job["result"]["imported"] == {"character": 2, "session": 3}
        assert any("whose.json" in warning for warning in job["result"]["warnings"])
        made = {each["session"].rsplit(": ")[-1]: each for each in (await client.get("/api/sessions")).json()["data"]}
        assert {name: each["character"] for name, each in made.items()} == {
            "First": "aria-2",
            "Second": "aria-2",
            "Third": "bel",
        }
        first = made["First"]
        assert (first["platform"], first["variables"], first["details"]["fmIndex"]) == ("risu_ai", {"gold": "3"}, -1)
        await client.post(f"/api/sessions/{first['id']}/messages", json={"content": "{{getvar::gold}} coins"})
        assert await contents(client, first["id"]) == ["hi", "hello", "3 coins", "on we go"]
    assert "Mind the fog." in json.dumps(model.requests[0])


async def test_a_chat_alone_goes_to_the_character_it_names(client: Client) -> None:
    one = json.dumps({"type": "risuChat", "ver": 2, "data": RISU_CHAT})
    risu = await finished(client, {"file": ("aria_chat.json", one)})
    lines = chat_lines({"name": "Ann", "is_user": True, "mes": "Hi"}).replace(b"unused", b"Aria")
    tavern = await finished(client, {"file": ("some chat.jsonl", lines)})
    other = await finished(client, {"file": ("nobody_chat.json", one)})
    assert [job["result"]["imported"] for job in (risu, tavern, other)] == [{"session": 1}, {"session": 1}, {}]
    assert other["result"]["warnings"]


async def test_damaged_lines_of_a_chat_are_told_to_whoever_imports_it(client: Client) -> None:
    chat = chat_lines({"name": "Ann", "is_user": True, "mes": "Hi"}) + b"\n{broken\n"
    archive = zipped(
        {
            f"{ROOT}/settings.json": b"{}",
            f"{ROOT}/characters/Aria.json": CARD.read_bytes(),
            f"{ROOT}/chats/Aria/one.jsonl": chat,
        }
    )
    job = await finished(client, {"file": ("st.zip", archive)})
    alone = await finished(client, {"file": ("aria.jsonl", chat.replace(b"unused", b"Aria"))})
    for each in (job, alone):
        (warning,) = each["result"]["warnings"]
        assert "skipped" in warning
        assert "tavernkit-import-" not in warning  # where the server unpacks is not told
        assert each["result"]["imported"]["session"] == 1


async def test_a_file_that_breaks_its_reader_is_left_out_alone(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    read_item = sources.read_item

    def reading(kind: Any, filename: str, data: bytes) -> Any:
        if filename == "bad.json":
            raise RecursionError("too deep")
        return read_item(kind, filename, data)

    monkeypatch.setattr(sources, "read_item", reading)
    archive = zipped({"bad.json": card_of("Bad"), "good.json": card_of("Good")})
    job = await finished(client, {"file": ("cards.zip", archive)})
    assert (job["status"], job["done"], job["result"]["imported"]) == ("done", 2, {"character": 1})
    assert job["result"]["warnings"] == ["bad.json is left out; the log says why"]


async def test_an_import_that_unpacks_for_long_is_not_taken_for_interrupted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked, renewed = threading.Event(), asyncio.Event()
    update_job = jobs.update_job

    def unpacking(*_: object) -> list[object]:
        assert unpacked.wait(30)
        return []

    async def noting(connection: Any, job_id: str, **values: object) -> None:
        await update_job(connection, job_id, **values)
        if not values:
            renewed.set()

    monkeypatch.setattr(jobs, "find_work", unpacking)
    monkeypatch.setattr(jobs, "update_job", noting)
    monkeypatch.setattr(jobs, "LEASE_SECONDS", 0.03)
    await client.post("/api/imports", files={"file": ("a.zip", b"PK")})
    (task,) = client.service.imports._tasks
    try:
        await asyncio.wait_for(renewed.wait(), 30)
    finally:
        unpacked.set()
    await task


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Imports last until it is set."""
    event = threading.Event()

    def unpacking(*_: object) -> list[object]:
        assert event.wait(30)
        return []

    monkeypatch.setattr(jobs, "find_work", unpacking)
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0.01)
    yield event
    event.set()


async def test_more_imports_than_may_run_are_told_to_come_back(
    start: StartApp, unpacked: threading.Event, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(uploads))
    files = {"file": ("a.zip", b"PK")}
    limits = {"max_imports": 2, "busy_seconds": 0.02}
    async with start(**limits) as one, start(**limits) as two:  # two processes, as far as the database knows
        begun = [await one.post("/api/imports", files=files), await two.post("/api/imports", files=files)]
        refused = [await one.post("/api/imports", files=files), await two.post("/api/imports", files=files)]
        assert len(list(uploads.iterdir())) == 2
        unpacked.set()
        await asyncio.gather(*one.service.imports._tasks, *two.service.imports._tasks)
        after = await one.post("/api/imports", files=files)
        await asyncio.gather(*one.service.imports._tasks)
    assert [each.status_code for each in (*begun, after)] == [202] * 3
    for each in refused:
        assert (each.status_code, each.json()["error"]["code"]) == (503, "too_many_imports")
        assert int(each.headers["retry-after"]) >= 1


async def test_an_import_waits_for_room(start: StartApp, unpacked: threading.Event) -> None:
    files = {"file": ("a.zip", b"PK")}
    async with start(max_imports=1) as client:
        await client.post("/api/imports", files=files)
        second = asyncio.create_task(client.post("/api/imports", files=files))
        done, _ = await asyncio.wait([second], timeout=0.05)
        assert not done
        unpacked.set()
        assert (await second).status_code == 202
        await asyncio.gather(*client.service.imports._tasks)


async def test_imports_of_a_process_that_is_gone_take_no_room(start: StartApp, unpacked: threading.Event) -> None:
    unpacked.set()
    async with start(max_imports=1, busy_seconds=0) as client:
        async with client.service.database.write() as connection:
            job = await jobs.create_job(connection, "local", "import")
            await connection.execute(update(Job).where(Job.id == job.id).values(lease_until=0.0))
        assert (await client.post("/api/imports", files={"file": ("a.zip", b"PK")})).status_code == 202
        await asyncio.gather(*client.service.imports._tasks)


async def test_an_upload_that_becomes_no_job_leaves_nothing_behind(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def failing(*_: object) -> None:
        raise ServiceError(503, "no", code="no")

    uploads = tmp_path / "uploads"
    uploads.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(uploads))
    monkeypatch.setattr(client.service.imports, "start", failing)
    assert (await client.post("/api/imports", files={"file": ("a.zip", b"PK")})).status_code == 503
    assert list(uploads.iterdir()) == []


def test_warnings_have_an_end_that_is_told() -> None:
    progress = Progress("job", "owner", Path("upload"))
    for number in range(MAX_JOB_WARNINGS + 3):
        progress.warn(str(number))
    warnings: Any = progress.result()["warnings"]
    assert warnings[-1] == "… and 3 more warnings"


def a_save(tmp_path: Path) -> bytes:
    message = [{"role": "user", "data": "Hi"}, {"role": "char", "data": "Yo.", "saying": "mira", "chatId": "c"}]
    chat = {"id": "one", "name": "First", "message": message, "scriptstate": {"$gold": "3"}, "note": ""}
    mira = {"chaId": "mira", "name": "Mira", "desc": "Keeps the archive.", "chats": [chat]}
    group = {"chaId": "crew", "type": "group", "name": "Crew", "characters": ["mira", "gone"], "chats": [chat]}
    database = {
        "characters": [mira, group],
        "modules": [{"id": "m", "name": "Weather", "lorebook": []}],
        "botPresets": [{"name": "Plain", "mainPrompt": "Play {{char}}."}],
        "personas": [{"id": "p", "name": "Ann", "personaPrompt": "A traveller."}],
        "username": "Ann",
        "personaPrompt": "A traveller.",
    }
    path = tmp_path / "backup.bin"
    Save.from_json(database).save(path)
    return path.read_bytes()


async def test_a_save_of_risuai_is_imported_whole(client: Client, tmp_path: Path) -> None:
    job = await finished(client, {"file": ("backup.bin", a_save(tmp_path))})
    counts = {"character": 1, "preset": 1, "module": 1, "persona": 1, "group": 1, "session": 2}
    assert job["result"]["imported"] == {**counts, "settings": 1}
    assert "the member 'gone' is not there" in " ".join(job["result"]["warnings"])
    sessions = (await client.get("/api/sessions")).json()["data"]
    assert {session["platform"] for session in sessions} == {"risu_ai"}
    assert await contents(client, sessions[0]["id"]) == ["Hi", "Yo."]
    characters = (await client.get("/api/characters")).json()["data"]
    assert "Mira" in [character["name"] for character in characters]
    again = await finished(client, {"file": ("backup.bin", a_save(tmp_path))})
    assert "session" not in again["result"]["imported"]
    assert again["result"]["warnings"] == ["group 'Crew': the member 'gone' is not there"]  # all is as it was


def a_save_in_use() -> Save:
    """A save whose stored preset and persona are older than the values in use."""
    message = [{"role": "user", "data": "Hi", "chatId": "a"}, {"role": "char", "data": "Yo.", "chatId": "b"}]
    chats = [{"id": "one", "name": "1", "message": message}, {"id": "two", "message": message, "bindedPersona": "p1"}]
    mira = {"chaId": "mira", "name": "Mira", "desc": "Keeps {{getglobalvar::toggle_what}}.", "chats": chats}
    database = {
        "characters": [mira],
        "mainPrompt": "Play {{char}} for {{user}}.",
        "aiModel": "gpt4o",
        "openAIKey": "secret-1",
        "proxyKey": "secret-2",
        "globalChatVariables": {"toggle_what": "the archive"},
        "botPresets": [{"name": "Other"}, {"name": "Plain", "mainPrompt": "Stale.", "proxyKey": "secret-3"}],
        "botPresetsId": 1,
        "username": "Ann",
        "personaPrompt": "Ann travels.",
        "personas": [
            {"id": "p0", "name": "Ann", "personaPrompt": "Stale."},
            {"id": "p1", "name": "Bo", "personaPrompt": "Bo sails."},
        ],
    }
    return Save.from_json(database)


async def test_sessions_of_a_save_have_the_prompts_of_the_save(start: StartApp, tmp_path: Path) -> None:
    save, path, model = a_save_in_use(), tmp_path / "backup.bin", ScriptedModel("Ok.", "Ok.", name="gpt-4o")
    save.save(path)
    async with start(model) as client:
        await finished(client, {"file": ("backup.bin", path.read_bytes())})
        sessions = {each["session"]: each["id"] for each in (await client.get("/api/sessions")).json()["data"]}
        for number, chat in enumerate(("one", "two")):
            await client.post(f"/api/sessions/{sessions[f'risuai:mira:{chat}']}/messages", json={"content": "Well?"})
            expected = save.builder("Mira", chat).build(message="Well?").posted_messages()
            assert model.requests[number]["messages"] == expected
            assert f"Play Mira for {'Ann' if chat == 'one' else 'Bo'}." in str(expected[0])
        plain = (await client.get("/api/presets/plain")).text
        assert "Play {{char}}" in plain
        assert "secret" not in plain


@pytest.mark.parametrize(
    ("index", "expected"), [(0, {"name": "Own", "image": "face.png", "unknown": 2}), (1, {"name": "RisuAI"})]
)
async def test_a_save_gives_the_whole_preset_in_use(
    client: Client, tmp_path: Path, index: int, expected: dict[str, object]
) -> None:
    """The database has all values of the preset in use, which need not be stored as a preset."""
    database: dict[str, Any] = {
        "characters": [],
        "mainPrompt": "In use.",
        "temperature": 33,
        "top_k": 7,
        "presetRegex": [{"comment": "r", "in": "a", "out": "b", "type": "editinput"}],
        "unknown": 2,
        "openAIKey": "secret-1",
        "username": "Ann",
        "botPresets": [{"name": "Own", "image": "face.png", "unknown": 1, "regex": []}],
        "botPresetsId": index,
    }
    Save.from_json(database).save(tmp_path / "x.bin")
    await finished(client, {"file": ("x.bin", (tmp_path / "x.bin").read_bytes())})
    stored = {each["name"]: each["id"] for each in (await client.get("/api/presets")).json()["data"]}
    content = (await client.get(f"/api/presets/{stored[expected['name']]}")).json()["content"]
    shared = {"mainPrompt": "In use.", "temperature": 33, "top_k": 7, "regex": database["presetRegex"]}
    assert content | shared | expected == content
    assert not {"username", "characters", "openAIKey", "presetRegex"} & content.keys()


async def test_a_damaged_save_of_risuai_fails_with_a_reason(client: Client) -> None:
    job = await finished(client, {"file": ("backup.bin", b"nothing of the kind")})
    assert job["status"] == "failed"
    assert job["result"]["warnings"][0].startswith("the save cannot be read")


def a_folder(message: str = "Hi", description: str = "Bel keeps bees.") -> bytes:
    """A data folder with one of each, and two chats."""
    card = {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Bel", "description": description}}
    script = {"scriptName": "s", "findRegex": "/a/", "replaceString": "", "placement": [1]}
    settings = {
        "power_user": {"personas": {"a.png": "Ann"}},
        "extension_settings": {"regex": [script]},
    }
    files: dict[str, Any] = {
        "settings.json": settings,
        "characters/Bel.json": card,
        "worlds/tide.json": {"entries": {}},
        "OpenAI Settings/own.json": {"prompts": []},
        "groups/1.json": {"id": "1", "name": "Crew", "members": ["Bel.json"]},
    }
    chat = "\n".join(json.dumps(each) for each in ({"chat_metadata": {}}, {"name": "Ann", "is_user": True, "mes": "x"}))
    chats = {f"{ROOT}/chats/Bel/{name}.jsonl": chat.replace('"x"', f'"{text}"').encode() for name, text in
             {"one": message, "two": "Ho"}.items()}  # fmt: skip
    return zipped({**{f"{ROOT}/{name}": json.dumps(value).encode() for name, value in files.items()}, **chats})


KINDS = ("characters", "books", "presets", "personas", "groups")


async def everything(client: Client) -> list[tuple[str, str, int]]:
    found = [(kind, (await client.get(f"/api/{kind}")).json()["data"]) for kind in KINDS]
    scripts = (await client.get("/api/regex")).json()
    sessions = (await client.get("/api/sessions")).json()["data"]
    items = [(kind, each["id"], each["version"]) for kind, items in found for each in items]
    return [*items, ("regex", "", len(scripts)), *sorted((each["session"], each["id"], 0) for each in sessions)]


async def test_what_is_uploaded_again_is_skipped(client: Client) -> None:
    counts = {"character": 1, "book": 1, "preset": 1, "persona": 1, "regex": 1, "group": 1, "session": 2}
    first = await finished(client, {"file": ("st.zip", a_folder())})
    assert first["result"] == {"imported": counts, "warnings": []}
    before = await everything(client)
    again = await finished(client, {"file": ("st-2.zip", a_folder())})
    assert again["result"] == {"imported": {}, "skipped": counts, "warnings": []}
    assert await everything(client) == before


async def test_what_has_changed_in_an_upload_becomes_a_new_version(client: Client) -> None:
    await finished(client, {"file": ("st.zip", a_folder())})
    before = await everything(client)
    again = (await finished(client, {"file": ("st.zip", a_folder("Hi there", "Bel keeps owls."))}))["result"]
    assert (again["imported"], again["skipped"]["session"]) == ({"character": 1, "session": 1}, 1)
    after = await everything(client)
    assert [each[:2] for each in after] == [each[:2] for each in before]
    (session,) = [each[1] for each in after if each[0].endswith(":one")]
    assert await contents(client, session) == ["Hi there"]
    assert "owls" in (await client.get("/api/characters/bel")).text


async def test_what_has_changed_in_an_upload_and_here_stays(client: Client) -> None:
    await finished(client, {"file": ("st.zip", a_folder())})
    (session,) = [each[1] for each in await everything(client) if each[0].endswith(":one")]
    await client.post(f"/api/sessions/{session}/messages", json={"content": "More."})
    card = {
        "file": ("bel.json", json.dumps({"spec": "chara_card_v2", "data": {"name": "Bel", "description": "Cats."}}))
    }
    await client.put("/api/characters/bel", files=card)
    again = (await finished(client, {"file": ("st.zip", a_folder("Hi there", "Bel keeps owls."))}))["result"]
    assert again["imported"] == {}
    assert [each.rpartition(": ")[2] for each in again["warnings"]] == ["it stays as it is here"] * 2
    assert (await contents(client, session))[:2] == ["Hi", "More."]
    assert "Cats." in (await client.get("/api/characters/bel")).text


async def test_chats_of_risuai_come_once_and_those_of_the_same_name_are_others(client: Client, tmp_path: Path) -> None:
    chats = [{"name": "Same", "message": [{"role": "user", "data": text}]} for text in ("One", "Two")]
    export = json.dumps({"type": "risuAllChats", "ver": 2, "data": chats}).encode()
    for counts in ({"imported": {"session": 2}}, {"imported": {}, "skipped": {"session": 2}}):
        job = await finished(client, {"file": ("aria.json", export)})
        assert job["result"] == {**counts, "warnings": []}
    sessions = (await client.get("/api/sessions")).json()["data"]
    assert sorted([await contents(client, each["id"]) for each in sessions]) == [["One"], ["Two"]]
    nameless = {"characters": [{"chaId": "m", "name": "Mira", "chats": chats}]}
    Save.from_json(nameless).save(tmp_path / "save.bin")
    for counts in ((1, 2), (0, 0)):
        job = await finished(client, {"file": ("save.bin", (tmp_path / "save.bin").read_bytes())})
        imported = job["result"]["imported"]
        assert (imported.get("character", 0), imported.get("session", 0)) == counts


async def test_another_chat_in_a_file_of_the_same_name_is_another_session(client: Client) -> None:
    def chat(text: str) -> dict[str, Any]:
        lines = ({"character_name": "Aria"}, {"name": "Ann", "is_user": True, "mes": text})
        return {"file": ("chat.jsonl", "\n".join(json.dumps(each) for each in lines))}

    for text, counts in (("One", [1, 0]), ("Two", [1, 0]), ("One", [0, 1]), ("Two", [0, 1])):
        result = (await finished(client, chat(text)))["result"]
        assert [result.get(key, {}).get("session", 0) for key in ("imported", "skipped")] == counts
    sessions = (await client.get("/api/sessions")).json()["data"]
    assert sorted([await contents(client, each["id"]) for each in sessions]) == [["One"], ["Two"]]
