"""Conversations inside SillyTavern's data folder and RisuAI's saves: what is written back, and what is left alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tavernkit.conversation import Conversation, StoreConflictError, StoreError
from tavernkit.errors import ConfigError
from tavernkit.risu_ai import ChatFile as RisuChatFile
from tavernkit.risu_ai import Save
from tavernkit.silly_tavern import ChatFile
from tavernkit.testing import ScriptedModel


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def card(name: str, **fields: object) -> dict[str, Any]:
    data = {"name": name, "description": f"{name} keeps the lamp.", "first_mes": f"I am {name}.", **fields}
    return {"spec": "chara_card_v2", "spec_version": "2.0", "data": data}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings = {
        "username": "Mira",
        "mine": {"kept": [1]},
        "extension_settings": {"variables": {"global": {"gold": 3}}, "other": True},
    }
    write(tmp_path / "settings.json", settings)
    write(tmp_path / "characters" / "Lyra.json", card("Lyra", system_prompt="Gold: {{addglobalvar::gold::1}}."))
    write(tmp_path / "characters" / "Bram.json", card("Bram"))
    line = {"name": "Lyra", "is_user": False, "mes": "Good evening."}
    for name in ("first", "second"):
        write(tmp_path / "chats" / "Lyra" / f"{name}.jsonl", f'{{"chat_metadata":{{}},"odd":1}}\n{json.dumps(line)}')
    group = {"id": "g1", "name": "Harbour", "members": ["Lyra.json", "Bram.json"], "chat_id": "g", "chats": ["g"]}
    write(tmp_path / "groups" / "g1.json", {**group, "activation_strategy": 1, "mine": 2})
    write(tmp_path / "group chats" / "g.jsonl", f'{{"chat_metadata":{{}}}}\n{json.dumps(line)}')
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def settings_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "settings.json").read_text())


async def test_a_chat_of_a_folder_goes_on_there(folder: Path) -> None:
    model = ScriptedModel("Aye.")
    chat = Conversation.from_sillytavern(folder, "lyra", "first", model=model)
    await chat.send("Hello?")
    prompt = json.dumps(model.requests[0]["messages"])
    assert "Lyra keeps the lamp." in prompt
    saved = ChatFile.load(folder / "chats" / "Lyra" / "first.jsonl")
    assert [(line.name, line.mes) for line in saved.messages[1:]] == [("Mira", "Hello?"), ("Lyra", "Aye.")]
    assert saved.header["odd"] == 1
    settings = settings_of(folder)
    assert int(settings["extension_settings"]["variables"]["global"]["gold"]) > 3
    assert (settings["mine"], settings["extension_settings"]["other"]) == ({"kept": [1]}, True)
    assert not any(path.name.endswith(".state.json") for path in contents(folder))
    again = ScriptedModel("Aye.")
    await Conversation.from_sillytavern(folder, "lyra", "second", model=again).send("Hello?")
    assert (
        settings_of(folder)["extension_settings"]["variables"]["global"]["gold"]
        != settings["extension_settings"]["variables"]["global"]["gold"]
    )


async def test_a_damaged_chat_is_kept_in_our_own_folder_and_reported_once(folder: Path) -> None:
    path = folder / "chats" / "Lyra" / "first.jsonl"
    damaged = path.read_bytes() + b"\nno JSON"
    path.write_bytes(damaged)
    warnings: list[str] = []
    chat = Conversation.from_sillytavern(folder, "Lyra", "first", model=ScriptedModel("Aye."), warn=warnings.append)
    await chat.send("Hello?")
    assert (folder / "tavernkit" / "Lyra" / "first (damaged).jsonl").read_bytes() == damaged
    assert len([each for each in warnings if "line 3" in each]) == 1
    assert sum("a copy of it is kept" in each for each in warnings) == 1


async def test_settings_are_left_alone_when_no_global_variable_changes(folder: Path) -> None:
    before = (folder / "settings.json").read_bytes()
    await Conversation.from_sillytavern(folder, "Bram", model=ScriptedModel("Aye.")).send("Hello?")
    assert (folder / "settings.json").read_bytes() == before


async def test_a_new_chat_is_named_as_in_sillytavern(folder: Path) -> None:
    moment = datetime(2026, 5, 4, 3, 2, 1, 9000, tzinfo=UTC)
    chat = Conversation.from_sillytavern(folder, "Bram.json", model=ScriptedModel("Aye."), now=lambda: moment)
    await chat.send("Hello?")
    assert [path.name for path in (folder / "chats" / "Bram").iterdir()] == ["Bram - 2026-05-04@03h02m01s009ms.jsonl"]
    assert [line["mes"] for line in chat.lines] == ["I am Bram.", "Hello?", "Aye."]
    named = Conversation.from_sillytavern(folder, "Bram", "mine")
    await named.save()
    assert (folder / "chats" / "Bram" / "mine.jsonl").exists()
    with pytest.raises(ConfigError, match="name of a file"):
        Conversation.from_sillytavern(folder, "Bram", "../../mine")


async def test_a_branch_stands_beside_its_chat(folder: Path) -> None:
    chat = Conversation.from_sillytavern(folder, "Lyra", "first")
    write(folder / "chats" / "Lyra" / "first - Branch #1.jsonl", "{}")
    branch = await chat.branch(0)
    assert branch.store.load() is not None
    saved = ChatFile.load(folder / "chats" / "Lyra" / "first - Branch #2.jsonl")
    assert saved.metadata.get("main_chat") == "first"


async def test_another_store_leaves_the_folder_alone(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = contents(folder)
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "copy.jsonl"
    chat = Conversation.from_sillytavern(folder, "Lyra", "first", store=elsewhere, model=ScriptedModel("Aye."))
    await chat.send("Hello?")
    assert contents(folder) == before
    assert [line.mes for line in ChatFile.load(elsewhere).messages] == ["Good evening.", "Hello?", "Aye."]


async def test_a_chat_that_sillytavern_changed_is_not_overwritten(folder: Path) -> None:
    path = folder / "chats" / "Lyra" / "first.jsonl"
    chat = Conversation.from_sillytavern(folder, "Lyra", "first", model=ScriptedModel("Aye."))
    path.write_text(path.read_text() + '\n{"name":"Mira","is_user":true,"mes":"From SillyTavern."}')
    before = contents(folder)
    with pytest.raises(StoreConflictError):
        await chat.send("{{setglobalvar::gold::7}}Hello?")
    assert contents(folder) == before


async def test_a_group_of_a_folder(folder: Path) -> None:
    model = ScriptedModel("I.", "And I.")
    chat = Conversation.from_sillytavern(folder, group="Harbour", model=model)
    await chat.send("Who is there?")
    assert [line["name"] for line in chat.lines] == ["Lyra", "Mira", "Lyra", "Bram"]
    chat.chat.mute("Bram")  # pyright: ignore[reportAttributeAccessIssue]  # SillyTavern's own
    branch = await chat.branch(1)
    group = json.loads((folder / "groups" / "g1.json").read_text())
    assert (group["disabled_members"], group["mine"]) == (["Bram.json"], 2)
    assert group["chats"] == ["g", "g - Branch #1"]
    assert len(branch.lines) == 2


def test_who_is_not_there_is_told(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"choose one of Bram\.json, Lyra\.json"):
        Conversation.from_sillytavern(folder, "Nobody")
    with pytest.raises(ConfigError, match="choose one of Harbour"):
        Conversation.from_sillytavern(folder, group="Nobody")
    with pytest.raises(ConfigError, match="pass character= or group="):
        Conversation.from_sillytavern(folder)


DATABASE: dict[str, Any] = {
    "username": "Ann",
    "custom": {"kept": 1},
    "characters": [
        {
            "name": "Bel",
            "chaId": "1",
            "desc": "Bel keeps bees.",
            "firstMessage": "Hm?",
            "chats": [
                {"name": "first", "id": "a", "message": [{"role": "user", "data": "Hello, Bel."}], "mine": 1},
                {"name": "second", "id": "b", "message": []},
            ],
            "chatPage": 0,
        }
    ],
}


@pytest.mark.parametrize("name", ["backup.bin", "database.bin", "save.json"])
async def test_a_chat_of_a_risuai_save_goes_on_there(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    Save.from_json(DATABASE).save(path)
    model = ScriptedModel("Yes.")
    chat = Conversation.from_risuai(path, "Bel", "first", model=model)
    await chat.send("Do you?")
    assert "Bel keeps bees." in json.dumps(model.requests[0]["messages"])
    save = Save.load(path)
    assert [message.data for message in save.chat("Bel", "first").messages] == ["Hello, Bel.", "Do you?", "Yes."]
    assert save.chat("Bel", "first").raw["mine"] == 1
    assert save.chat("Bel", "second").messages == ()
    assert save.database["custom"] == {"kept": 1}
    assert [each.name for each in contents(tmp_path) if each.parent == tmp_path and each.is_file()] == [name]
    again = Conversation.from_risuai(path, "Bel", "first")
    assert await again.undo()
    assert [message.data for message in Save.load(path).chat("Bel", "first").messages] == ["Hello, Bel."]
    branch = await chat.branch(0)
    await branch.edit(0, "Edited.")
    assert Save.load(path).chats("Bel")[0].name.startswith("first (Branch")


async def test_a_chat_of_a_save_can_be_kept_in_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "backup.bin"
    Save.from_json(DATABASE).save(path)
    before = path.read_bytes()
    for text in ("One?", "Two?"):
        model = ScriptedModel("Yes.")
        await Conversation.from_risuai(path, "Bel", store=tmp_path / "bel.json", model=model).send(text)
    assert path.read_bytes() == before
    messages = RisuChatFile.load(tmp_path / "bel.json").chats[0].messages
    assert [message.data for message in messages] == ["Hello, Bel.", "One?", "Yes.", "Two?", "Yes."]


def test_a_data_folder_of_risuai_is_only_read(tmp_path: Path) -> None:
    (tmp_path / "database").mkdir()
    Save.from_json(DATABASE).save(tmp_path / "database" / "database.bin")
    with pytest.raises(StoreError, match="pass store="):
        Conversation.from_risuai(tmp_path, "Bel")
    assert Conversation.from_risuai(tmp_path, "Bel", store=tmp_path / "bel.json").lines
