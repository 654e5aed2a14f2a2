"""Chats of an imported data folder are built as the library builds them from the folder."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tavernkit.conversation import Conversation
from tavernkit.silly_tavern import DataFolder, TextPlan
from tavernkit.testing import ScriptedModel
from tests.budget.tokenizer_files import write_tokenizer
from tests.server.conftest import Client, StartApp
from tests.server.test_imports import finished
from tests.silly_tavern import generated_folder as made

STEP = 7
"""Every seventh chat is enough: all features and all kinds of characters are among them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated folder with a part of its chats."""
    whole = made.generate(tmp_path_factory.mktemp("sillytavern"))
    for index in range(made.CHATS):
        if index % STEP:
            name = made.name_of(index % made.CHARACTERS)
            (whole / "chats" / name / f"{made.chat_name(index)}.jsonl").unlink()
    return whole


async def sessions(client: Client) -> dict[str, dict[str, Any]]:
    found: list[dict[str, Any]] = []
    query = "limit=100"
    while query:
        page = (await client.get(f"/api/sessions?{query}")).json()
        found += page["data"]
        query = f"limit=100&before={page['next']}" if page["next"] else ""
    return {each["session"].rpartition(":")[2]: each for each in found}


async def built(client: Client, session: str, **more: Any) -> Any:
    body = {"session_id": session, "messages": [{"role": "user", "content": "Go on."}], "tavernkit": more}
    answer = await client.post("/api/build", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_every_chat_is_built_as_the_library_builds_it(start: StartApp, folder: Path) -> None:
    data = DataFolder(folder)
    async with start(ScriptedModel(name="gpt-4o"), from_sillytavern=folder) as client:
        known = await sessions(client)
        seen: set[int] = set()
        for index in range(0, made.CHATS, STEP):
            name = made.name_of(index % made.CHARACTERS)
            plan = data.builder(name, made.chat_name(index)).build(message="Go on.", warn=None)
            mine = await built(client, known[made.chat_name(index)]["id"])
            assert mine["payload"] == plan.to_messages("openai"), made.chat_name(index)
            assert made.FEATURES[index % len(made.FEATURES)][1] in str(mine["payload"])
            seen.add(index % len(made.FEATURES))
        assert len(seen) == len(made.FEATURES)
        for group_id in data.groups():
            for chat in data.group_chats(group_id):
                for member in data.group(group_id).members:
                    plan = data.builder(chat=chat, group=group_id).build(speaker=member, message="Go on.", warn=None)
                    speaker = Path(member).stem.lower().replace(" ", "-")
                    mine = await built(client, known[chat]["id"], speaker=speaker)
                    assert mine["payload"] == plan.to_messages("openai"), (chat, member)


async def test_a_chat_without_messages_begins_with_the_greetings(start: StartApp, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "default-user"
    shutil.copytree(folder, copy)
    header = json.dumps(made.header({}))
    (copy / "chats" / made.name_of(0) / "empty.jsonl").write_text(header)
    (copy / "group chats" / "group 1 chat 0.jsonl").write_text(header)
    data = DataFolder(copy)
    async with start(ScriptedModel(name="gpt-4o"), from_sillytavern=copy) as client:
        known = await sessions(client)
        plan = data.builder(made.name_of(0), "empty").build(message="Go on.", warn=None)
        assert "Mind the lamp, Mira." in str(plan.to_messages("openai"))
        assert (await built(client, known["empty"]["id"]))["payload"] == plan.to_messages("openai")
        member = data.group("g1").members[0]
        plan = data.builder(group="g1").build(speaker=member, message="Go on.", warn=None)
        speaker = Path(member).stem.lower().replace(" ", "-")
        mine = await built(client, known["group 1 chat 0"]["id"], speaker=speaker)
        assert mine["payload"] == plan.to_messages("openai")


async def test_pictures_of_the_folder_reach_the_model_and_nothing_is_warned_about(
    start: StartApp, folder: Path
) -> None:
    model = ScriptedModel("A gull.", name="gpt-4o")
    async with start(model, from_sillytavern=folder) as client:
        known = await sessions(client)
        index = next(each for each in range(0, made.CHATS, STEP) if made.FEATURES[each % 10][0] is made.picture)
        base = f"/api/sessions/{known[made.chat_name(index)]['id']}"
        answer = await client.post(f"{base}/messages", json={"content": "Go on."})
        assert answer.status_code == 200, answer.text
        assert answer.json()["warnings"] == []
    assert "data:image/png;base64," in str(model.requests[0])


async def test_a_new_chat_with_a_character_of_the_served_folder_has_its_settings(start: StartApp, folder: Path) -> None:
    async with start(ScriptedModel(name="gpt-4o"), from_sillytavern=folder) as client:
        await client.post("/api/characters", files={"file": ("o.json", '{"name": "Other", "description": "O."}')})
        prompts: dict[str, str] = {}
        for model in (made.name_of(0).lower().replace(" ", "-"), "other"):
            session = (await client.post("/api/sessions", json={"model": model})).json()["id"]
            prompts[model] = str((await built(client, session))["payload"])
    assert "Book 0 says of the lamp" in prompts["lyra-vale"]
    assert "Book 0 says of the lamp" not in prompts["other"]


async def test_a_new_chat_in_the_served_folder_is_opened_with_the_persona_that_is_connected(
    start: StartApp, folder: Path
) -> None:
    model = ScriptedModel("The tide.", name="gpt-4o", repeat_last=True)
    async with start(model, from_sillytavern=folder) as client:
        prompts: dict[str, str] = {}
        for name in ("wren-vale", "lyra-vale", "pell-vale"):
            session = (await client.post("/api/sessions", json={"model": name})).json()["id"]
            await client.post(f"/api/sessions/{session}/messages", json={"content": "What of the well?"})
            prompts[name] = str(model.requests[-1])
    assert "Ann is number 2." in prompts["wren-vale"]
    assert "Ann has washed ashore." in prompts["wren-vale"]
    assert "Mira lost her boat." in prompts["lyra-vale"]
    # The settings allow the scripts of one card only: this one's would shout.
    assert "What of the well?" in prompts["pell-vale"]


async def test_scripts_that_do_not_run_are_not_said_to_run(start: StartApp, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "default-user"
    shutil.copytree(folder, copy)
    async with start(ScriptedModel(name="gpt-4o"), from_sillytavern=copy) as client:
        made.write_character(copy, 11)
        (copy / "characters" / f"{made.name_of(11)}.png").rename(copy / "characters" / "Other.png")
        progress = await client.service.folders.read(copy)
    assert not any("regex scripts" in each for each in progress.warnings)


async def test_changed_settings_and_files_are_read_again(start: StartApp, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "default-user"
    shutil.copytree(folder, copy)
    index = next(each for each in range(0, made.CHATS, STEP) if made.FEATURES[each % 10][0] is made.files)
    async with start(ScriptedModel(name="gpt-4o"), from_sillytavern=copy) as client:
        session = (await sessions(client))[made.chat_name(index)]["id"]
        assert "Notes on the tide" in str((await built(client, session))["payload"])
        (copy / "user" / "files" / "tide.txt").write_text("The tide turned.", "utf-8")
        await client.service.folders.read(copy)
        assert "The tide turned." in str((await built(client, session))["payload"])


async def test_secrets_of_settings_are_not_kept(start: StartApp, tmp_path: Path) -> None:
    copy = tmp_path / "default-user"
    made.write_json(
        copy / "settings.json",
        {
            "oai_settings": {"proxy_password": "hunter2", "temp_openai": 0.5},
            "extension_settings": {"translate": {"key": "hunter2"}, "note": {"default": "N"}},
            "textgenerationwebui_settings": {"server_urls": {"ooba": "http://hunter2"}},
        },
    )
    made.write_character(copy, 0)
    async with start(from_sillytavern=copy) as client, client.service.database.read() as connection:
        from tavernkit.server.storage.items import item_file

        kept = await item_file(connection, "folder", "served")
    assert b"temp_openai" in kept
    assert b"hunter2" not in kept


async def test_an_uploaded_folder_keeps_its_settings_to_its_own_chats(start: StartApp, tmp_path: Path) -> None:
    whole = made.generate(tmp_path / "whole")
    small = tmp_path / "small" / "default-user"
    name = made.name_of(4)
    parts = ("settings.json", f"characters/{name}.png", f"chats/{name}/chat 4.jsonl", "worlds", "User Avatars", "user")
    for part in parts:
        target = small / part
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (whole / part).is_dir() else shutil.copy)(whole / part, target)
    archive = Path(shutil.make_archive(str(tmp_path / "small"), "zip", small.parent))
    upload = archive.read_bytes()  # noqa: ASYNC240  # a test may
    plan = DataFolder(small).builder(name, "chat 4").build(message="Go on.", warn=None)
    async with start(ScriptedModel(name="gpt-4o")) as client:
        job = await finished(client, {"file": ("st.zip", upload)})
        assert job["status"] == "done", job
        mine = await built(client, (await sessions(client))["chat 4"]["id"])
        fresh = (await client.post("/api/sessions", json={"model": name.lower().replace(" ", "-")})).json()["id"]
        assert "Book 0 says" not in str((await built(client, fresh))["payload"])
    assert mine["payload"] == plan.to_messages("openai")
    assert "Own note." in str(mine["payload"])
    assert "Notes on the tide, page 2." in str(mine["payload"])


class TextModel(ScriptedModel):
    """A server that takes texts."""

    dialect = "text"


def text_folder(folder: Path, copy: Path, api: str) -> Path:
    """The folder with settings that select text completion, instruct mode on and a preset's regex script allowed."""
    copy.mkdir()
    for path in folder.iterdir():
        if path.name != "settings.json":
            (copy / path.name).symlink_to(path)
    settings = made.settings() | {"main_api": api, "max_context": 1500}
    settings["power_user"] |= {
        "instruct": {"enabled": True, "input_sequence": "### You:", "output_sequence": "### {{char}}:", "wrap": True},
        "sysprompt": {"enabled": True, "content": "Be {{char}}, in a few words."},
    }
    settings["extension_settings"]["preset_allowed_regex"] = {api: ["Calm"]}
    samplers = {"temp": 0.7, "top_p": 0.9, "preset": "Calm", "server_urls": {"ooba": "http://hunter2"}}
    own = {"regex_scripts": [made.script("of the preset", "/old/", "ancient")]}
    settings["textgenerationwebui_settings"] = {**samplers, "type": "koboldcpp", "extensions": own}
    settings["kai_settings"] = {**samplers, "api_server": "http://hunter2"}
    settings["nai_settings"] = {"temperature": 0.6, "model_novel": "kayra-v1"}
    made.write_json(copy / "settings.json", settings)
    return copy


@pytest.mark.parametrize("api", ["textgenerationwebui", "kobold", "novel"])
async def test_folders_that_select_text_completion_give_the_librarys_texts(
    start: StartApp, folder: Path, tmp_path: Path, api: str
) -> None:
    copy = text_folder(folder, tmp_path / "default-user", api)
    data = DataFolder(copy)
    async with start(TextModel("Aye."), from_sillytavern=copy) as client:
        known = await sessions(client)
        for index in range(0, made.CHATS, STEP if api == "textgenerationwebui" else 5 * STEP):
            name, chat = made.name_of(index % made.CHARACTERS), made.chat_name(index)
            plan = data.builder(name, chat).build(message="Go on.", warn=None)
            assert isinstance(plan, TextPlan)
            mine = await built(client, known[chat]["id"])
            assert mine["request"]["prompt"] == plan.prompt, chat
            assert mine["request"] == {**plan.request("text").body(), "model": mine["request"]["model"]}, chat
            assert "ancient" in plan.prompt
        group = next(iter(data.groups()))
        chat, member = data.group_chats(group)[0], data.group(group).members[0]
        plan = data.builder(chat=chat, group=group).build(speaker=member, message="Go on.", warn=None)
        mine = await built(client, known[chat]["id"], speaker=Path(member).stem.lower().replace(" ", "-"))
        assert isinstance(plan, TextPlan)
        assert mine["request"]["prompt"] == plan.prompt


async def test_a_folder_of_text_completion_is_answered_by_an_upstream_that_takes_texts(
    start: StartApp, folder: Path, tmp_path: Path
) -> None:
    copy = text_folder(folder, tmp_path / "default-user", "textgenerationwebui")
    models: dict[str, ScriptedModel] = {"chat": ScriptedModel(), "text": TextModel("Aye.")}
    upstreams = {"chat": {}, "text": {"dialect": "text"}}
    async with start(models=models, upstreams=upstreams, from_sillytavern=copy) as client:
        base = f"/api/sessions/{(await sessions(client))['chat 0']['id']}"
        answer = await client.post(f"{base}/messages", json={"content": "Go on."})
        assert (answer.status_code, answer.json()["warnings"]) == (200, [])
    assert "### Lyra Vale:" in str(models["text"].requests[0]["prompt"])


async def test_without_such_an_upstream_messages_are_sent_and_that_is_said(
    start: StartApp, folder: Path, tmp_path: Path
) -> None:
    copy = text_folder(folder, tmp_path / "default-user", "textgenerationwebui")
    model = ScriptedModel("Aye.", name="gpt-4o")
    async with start(model, from_sillytavern=copy) as client:
        base = f"/api/sessions/{(await sessions(client))['chat 0']['id']}"
        answer = await client.post(f"{base}/messages", json={"content": "Go on."})
        shown = await built(client, base.rpartition("/")[2], dialect="text")
    assert "select text completion" in answer.json()["warnings"][0]
    assert "messages" in model.requests[0]
    assert "### Lyra Vale:" in str(shown["payload"])


@pytest.fixture
def session_folder(folder: Path, tmp_path: Path) -> Path:
    """The folder with a persona at a depth that names a lore key, and a summary on the last line of the first chat."""
    copy = tmp_path / "default-user"
    shutil.copytree(folder, copy)
    settings = made.settings()
    settings["power_user"] |= {
        "persona_description": "Mira lost her boat to the mill.",
        "persona_description_position": 4,
        "persona_description_depth": 2,
    }
    entry = {"uid": 0, "key": ["boat"], "content": "Boats are rare. ({{lastGenerationType}})", "position": 0}
    (copy / "worlds" / "Book 0.json").write_text(json.dumps({"entries": {"0": entry}}))
    (copy / "settings.json").write_text(json.dumps(settings))
    chat = copy / "chats" / made.name_of(0) / f"{made.chat_name(0)}.jsonl"
    lines = [json.loads(line) for line in chat.read_text().splitlines()]
    lines[1]["extra"]["memory"], lines[-1]["extra"]["memory"] = "They met.", "They parted."
    chat.write_text("\n".join(map(json.dumps, lines)))
    return copy


async def test_a_session_is_a_chat_that_stays_open(start: StartApp, session_folder: Path) -> None:
    """The persona at a depth opens lore from the second prompt on, and the summary is looked for once."""
    own, model = (ScriptedModel("The tide.", name="gpt-4o", repeat_last=True) for _ in range(2))
    chat = Conversation.from_sillytavern(session_folder, made.name_of(0), made.chat_name(0), model=own)
    async with start(model, from_sillytavern=session_folder) as client:
        base = f"/api/sessions/{(await sessions(client))[made.chat_name(0)]['id']}"

        async def both(kind: str) -> str:
            if kind == "send":
                await chat.send("Go on.")
                answer = await client.post(f"{base}/messages", json={"content": "Go on."})
            else:
                await chat.regenerate()
                answer = await client.post(f"{base}/regenerate", json={})
            assert answer.status_code == 200, answer.text
            assert model.requests[-1]["messages"] == own.requests[-1]["messages"]
            return str(model.requests[-1]["messages"])

        message = (await client.get(f"{base}/messages")).json()["data"][0]["id"]
        for hidden in (True, False):  # changes before the first turn do not open the chat
            changed = await client.patch(f"{base}/messages/{message}", json={"hidden": hidden})
            assert changed.status_code == 200, changed.text
        first, second, third = [await both(kind) for kind in ("send", "send", "regenerate")]
        assert "Boats are rare" not in first
        assert "Boats are rare. (normal)" in second
        assert "Boats are rare. (regenerate)" in third
        assert all("[Summary: They met.]" in each for each in (first, second, third))
        exported = (await client.get(f"{base}/export")).text
        assert "tavernkit_run" not in exported
        assert "They parted." in exported
        last = (await client.get(f"{base}/messages")).json()["data"][-1]["id"]
        branch = (await client.post(f"{base}/actions/branch", json={"message_id": last})).json()["id"]
        payload = str((await built(client, branch))["payload"])
        assert "Boats are rare" not in payload
        assert "[Summary: They parted.]" in payload


async def test_tokenizer_files_of_the_served_installation_count(start: StartApp, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data" / "default-user"
    shutil.copytree(folder, copy)
    settings = made.settings()
    settings["oai_settings"] |= {
        "chat_completion_source": "cohere",
        "cohere_model": "command-r",
        "openai_max_context": 900,
    }
    (copy / "settings.json").write_text(json.dumps(settings))
    cache = tmp_path / "data" / "_cache"
    cache.mkdir()
    (cache / "command-r.json.gz").write_bytes(gzip.compress(write_tokenizer(tmp_path / "t.json").read_bytes()))
    plan = DataFolder(copy).builder(made.name_of(0), made.chat_name(0)).build(message="Go on.", warn=None)
    assert plan.counting_note == ""
    async with start(ScriptedModel(name="gpt-4o"), from_sillytavern=copy) as client:
        mine = await built(client, (await sessions(client))[made.chat_name(0)]["id"])
    assert mine["plan"]["counting_note"] == ""
    assert mine["payload"] == plan.to_messages("openai")


async def test_personas_are_read_as_the_library_reads_them(start: StartApp, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "default-user"
    shutil.copytree(folder, copy)
    settings = made.settings()
    entries: dict[str, dict[str, Any]] = {
        "zoe.png": {"description": "Zoe dives.", "position": 4, "depth": "1", "role": "2"},
        "ann.png": {"description": "Ann sings.", "position": 4, "depth": 1.5, "role": 0},
        "bob.png": {"description": ["no text"], "position": "3", "depth": None, "role": None},
        "ruth.png": {"description": "Ruth waits.", "position": True},
    }
    settings["power_user"] |= {"persona_descriptions": entries, "personas": {**made.PERSONAS, "ruth.png": 5}}
    (copy / "settings.json").write_text(json.dumps(settings))
    chats = [made.chat_name(index) for index in range(0, STEP * len(entries), STEP)]
    names = [made.name_of(index) for index in range(0, STEP * len(entries), STEP)]
    for name, chat, avatar in zip(names, chats, entries, strict=True):
        header, *lines = (copy / "chats" / name / f"{chat}.jsonl").read_text().splitlines()
        locked = json.loads(header)
        locked["chat_metadata"]["persona"] = avatar
        (copy / "chats" / name / f"{chat}.jsonl").write_text("\n".join([json.dumps(locked), *lines]))
    data = DataFolder(copy)
    async with start(ScriptedModel(name="gpt-4o"), from_sillytavern=copy) as client:
        known = await sessions(client)
        for name, chat in zip(names, chats, strict=True):
            plan = data.builder(name, chat).build(message="Go on.", warn=None)
            assert (await built(client, known[chat]["id"]))["payload"] == plan.to_messages("openai"), chat


def packed(folder: Path) -> bytes:
    return Path(shutil.make_archive(str(folder), "zip", folder)).read_bytes()


async def test_an_installation_is_served_and_imported_as_the_folder_of_its_user(
    start: StartApp, folder: Path, tmp_path: Path
) -> None:
    model = ScriptedModel("Aye.", name="gpt-4o", repeat_last=True)
    shutil.copytree(folder, tmp_path / "inst" / "data" / "default-user")
    async with start(model, from_sillytavern=tmp_path / "inst", write_back=True) as client:
        base = f"/api/sessions/{(await sessions(client))[made.chat_name(0)]['id']}"
        assert (await client.post(f"{base}/messages", json={"content": "Go on."})).status_code == 200
    chat = tmp_path / "inst" / "data" / "default-user" / "chats" / made.name_of(0) / f"{made.chat_name(0)}.jsonl"
    assert "Aye." in chat.read_text()
    assert [path.name for path in (tmp_path / "inst").iterdir()] == ["data"]
    made.write_json(tmp_path / "inst" / "data" / "second" / "settings.json", {})
    with pytest.raises(ValidationError, match="pass one of"):
        start(model, from_sillytavern=tmp_path / "inst")
    async with start(model, data=tmp_path / "other", db=f"sqlite:///{tmp_path / 'other.db'}") as client:
        job = await finished(client, {"file": ("inst.zip", packed(tmp_path / "inst"))})
    warning = "only the user default-user is imported: import the folders of the others: second"
    assert warning in job["result"]["warnings"]
