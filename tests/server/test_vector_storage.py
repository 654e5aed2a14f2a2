"""Vector Storage in chats of imported folders: an upstream embeds, and the prompts are the library's."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tavernkit import silly_tavern as st
from tavernkit.embeddings import VectorIndex
from tavernkit.models import ModelError
from tavernkit.server.adapters.vectors import vectors_of
from tavernkit.server.logs import request_id
from tavernkit.server.upstreams.upstream import Upstream
from tavernkit.testing import ScriptedModel
from tests.server.conftest import StartApp
from tests.server.test_imported_folders import TextModel, built, sessions
from tests.silly_tavern import generated_folder as made

MESSAGE = "Go on."
"""What the tests' client says; the search text is made of it and the messages before."""
CHATS = (2, 5, 6, 13, 29)
UPSTREAMS = {"scripted": {"embedding_model": "words"}}


class Words:
    """Makes vectors of how often a text has some words."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[float(text.lower().count(thing)) for thing in made.THINGS] for text in texts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated folder with Vector Storage on for everything, and a part of its chats."""
    whole = made.generate(tmp_path_factory.mktemp("sillytavern"))
    for path in (whole / "chats").rglob("*.jsonl"):
        if path.stem not in map(made.chat_name, CHATS):
            path.unlink()
    shutil.rmtree(whole / "groups")
    settings = made.settings()
    switches = {"enabled_chats": True, "enabled_files": True, "enabled_world_info": True, "enabled_for_all": True}
    numbers = {"query": 3, "protect": 2, "insert": 2, "score_threshold": 0.1, "max_entries": 3, "size_threshold": 0}
    settings["extension_settings"]["vectors"] = {**switches, **numbers}
    settings["extension_settings"]["attachments"] = [made.attachment(thing) for thing in made.THINGS]
    made.write_json(whole / "settings.json", settings)
    return whole


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An upstream's embeddings; gives the texts that it was asked for."""
    texts: list[str] = []

    async def call(self: Upstream, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        assert (self.config.embedding_model, method, path) == ("words", "POST", "/embeddings")
        given: Any = (body or {})["input"]
        texts.extend(given)
        rows = [{"index": index, "embedding": each} for index, each in enumerate(Words().embed(given))]
        return {"data": rows[::-1], "usage": {"prompt_tokens": 7}}

    monkeypatch.setattr(Upstream, "call", call)
    return texts


def library_plan(folder: Path, index: int) -> st.ChatPlan:
    builder = st.DataFolder(folder).builder(made.name_of(index % made.CHARACTERS), made.chat_name(index))
    first = builder.build(message=MESSAGE, warn=None)
    found = VectorIndex()
    st.index_chat(first.vector_texts, found, Words())
    results = st.search_vectors(first.vector_calls, found, Words())
    assert {"chat", "world:Book 0"} <= set(results.hits)
    return builder.build(message=MESSAGE, vectors=results, warn=None)


async def test_prompts_are_the_librarys(start: StartApp, folder: Path, asked: list[str]) -> None:
    async with start(ScriptedModel(name="gpt-4o"), upstreams=UPSTREAMS, from_sillytavern=folder) as client:
        known = await sessions(client)
        for index in CHATS:
            plan = library_plan(folder, index)
            mine = await built(client, known[made.chat_name(index)]["id"])
            assert mine["payload"] == plan.to_messages("openai"), index
            assert "Past events:" in str(mine["payload"])
            assert "Related information:" in str(mine["payload"])
            assert mine["warnings"] == []


async def test_texts_of_text_completion_are_too(
    start: StartApp, folder: Path, tmp_path: Path, asked: list[str]
) -> None:
    copy = tmp_path / "default-user"
    shutil.copytree(folder, copy)
    settings = json.loads((copy / "settings.json").read_text("utf-8"))
    made.write_json(copy / "settings.json", {**settings, "main_api": "textgenerationwebui"})
    async with start(TextModel(), upstreams=UPSTREAMS, from_sillytavern=copy) as client:
        known = await sessions(client)
        plan = library_plan(copy, 6)
        assert isinstance(plan, st.TextPlan)
        assert (await built(client, known[made.chat_name(6)]["id"]))["request"]["prompt"] == plan.prompt


async def test_only_what_is_new_is_embedded_and_a_removed_session_leaves_nothing(
    start: StartApp, folder: Path, tmp_path: Path, asked: list[str]
) -> None:
    model = ScriptedModel("The mill burns.", "Ash.", name="gpt-4o")
    async with start(model, upstreams=UPSTREAMS, from_sillytavern=folder) as client:
        session = (await sessions(client))[made.chat_name(6)]["id"]
        for text in ("What of the mill?", "And now?"):
            before = len(asked)
            answer = await client.post(f"/api/sessions/{session}/messages", json={"content": text})
            assert (answer.status_code, answer.json()["warnings"]) == (200, [])
        assert [each for each in sorted(asked[before:]) if "\n" not in each] == ["And now?", "The mill burns."]
        usage = (await client.get("/api/usage?by=model")).json()["data"]
        assert any(row["model"] == "words" and row["input_tokens"] for row in usage)
        assert (tmp_path / "vectors" / f"{session}.sqlite").is_file()
        await client.delete(f"/api/sessions/{session}")
        assert not (tmp_path / "vectors" / f"{session}.sqlite").exists()


async def test_a_missing_or_failing_upstream_is_reported(
    start: StartApp, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> Any:
        raise ModelError("no vectors today")

    monkeypatch.setattr(Upstream, "call", fails)
    for upstreams, reason in (
        ({"scripted": {}}, "no upstream has an embedding_model"),
        (UPSTREAMS, "no vectors today"),
    ):
        model = ScriptedModel("Aye.", name="gpt-4o")
        async with start(model, upstreams=upstreams, from_sillytavern=folder) as client:
            session = (await sessions(client))[made.chat_name(6)]["id"]
            answer = await client.post(f"/api/sessions/{session}/messages", json={"content": MESSAGE})
            assert reason in " ".join(answer.json()["warnings"])
            assert reason in " ".join((await built(client, session))["warnings"])


async def test_searches_leave_threads_to_those_they_wait_for(
    start: StartApp, folder: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking up the name of an upstream's server takes one of asyncio's threads."""
    embed = Upstream.call

    async def call(self: Upstream, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        await asyncio.to_thread(lambda: None)
        asked_by.add(request_id.get())
        return await embed(self, method, path, body)

    asked_by = set[str | None]()
    monkeypatch.setattr(Upstream, "call", call)
    model = ScriptedModel("Aye.", name="gpt-4o")
    async with start(model, upstreams=UPSTREAMS, from_sillytavern=folder) as client:
        session = (await sessions(client))[made.chat_name(6)]["id"]
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        async with asyncio.timeout(20):
            answer = await client.post(f"/api/sessions/{session}/messages", json={"content": MESSAGE})
    assert (answer.status_code, answer.json()["warnings"]) == (200, [])
    assert asked_by == {answer.headers["x-request-id"]}


async def test_a_damaged_index_is_reported(start: StartApp, folder: Path, tmp_path: Path, asked: list[str]) -> None:
    model = ScriptedModel("Aye.", name="gpt-4o")
    async with start(model, upstreams=UPSTREAMS, from_sillytavern=folder) as client:
        session = (await sessions(client))[made.chat_name(6)]["id"]
        (tmp_path / "vectors").mkdir()
        (tmp_path / "vectors" / f"{session}.sqlite").write_bytes(b"no database" * 100)
        answer = await client.post(f"/api/sessions/{session}/messages", json={"content": MESSAGE})
    assert answer.status_code == 200
    assert answer.json()["warnings"] == ["Vector Storage found nothing: file is not a database"]


def test_vectors_that_were_not_asked_for_are_refused() -> None:
    row: Any = {"index": 1, "embedding": [1, 2]}
    with pytest.raises(ValueError, match="gave 1 vectors for 2 texts"):
        vectors_of({"data": [row]}, 2)
    with pytest.raises(ValueError, match="gave 0 vectors for 1 texts"):
        vectors_of(["?"], 1)
    assert vectors_of({"data": [row, {"index": 0, "embedding": [0.5]}]}, 2) == [[0.5], [1.0, 2.0]]
