from __future__ import annotations

import hashlib
import io
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tavernkit.cards._assets import Asset
from tavernkit.cards._png import placeholder_png
from tavernkit.cards._risum import Module, write_risum
from tavernkit.cards.errors import RisumError
from tavernkit.errors import ConfigError, FileFormatError
from tavernkit.risu_ai import ChatFile, Preset, RisuMessage, read_module, write_module
from tavernkit.risu_ai._chat.chat_log import with_messages
from tavernkit.risu_ai._files.chat_file import ChatFileError, chat_json, chat_variables, read_chats, write_chats
from tavernkit.risu_ai._files.database_codec import encode_database

CHAT: dict[str, Any] = {
    "message": [{"role": "user", "data": "Hi", "chatId": "m0", "time": 5, "extra": True}],
    "note": "N",
    "fmIndex": -1,
    "scriptstate": {"$gold": "3"},
    "unknown": 1,
}
MODULE: dict[str, Any] = {"name": "M", "description": "d", "id": "old", "lorebook": [{"key": "a"}], "assets": []}


def one(chat: dict[str, Any]) -> bytes:
    return json.dumps({"type": "risuChat", "ver": 2, "data": chat, "folders": [{"id": "f"}]}).encode()


def test_a_chat_is_read_and_written_without_loss(tmp_path: Path):
    path = tmp_path / "chat.json"
    path.write_bytes(one(CHAT))
    file = ChatFile.load(path)
    assert file.chats[0].note == "N"
    assert chat_variables(file.chats[0]) == {"gold": "3"}
    file.save(path)
    written = json.loads(path.read_text("utf-8"))
    assert (written["type"], written["data"], written["folders"]) == ("risuChat", CHAT, [{"id": "f"}])


def test_several_chats_are_written_as_all_chats():
    file = read_chats(json.dumps({"type": "risuAllChats", "ver": 1, "data": [CHAT, CHAT, 5]}).encode(), warn=print)
    assert len(file.chats) == 2
    assert json.loads(write_chats(file))["type"] == "risuAllChats"


def test_changes_of_a_chat_are_written():
    (chat,) = read_chats(one(CHAT)).chats
    grown = with_messages(chat, (*chat.messages, RisuMessage(role="char", data="Yo", saying="c1")))
    written = chat_json(grown, {"gold": "4"})
    assert written["message"] == [CHAT["message"][0], {"role": "char", "data": "Yo", "saying": "c1"}]
    assert written["scriptstate"] == {"$gold": "4"}
    assert written["unknown"] == 1


@pytest.mark.parametrize("data", [b"[]", b'{"type": "risu"}', b'{"type": ["risuChat"]}', b"3"])
def test_other_files_are_no_chats(data: bytes):
    with pytest.raises(ChatFileError):
        read_chats(data)


def test_an_unknown_version_of_a_chat_is_reported():
    warnings: list[str] = []
    read_chats(json.dumps({"type": "risuChat", "ver": 7, "data": CHAT}).encode(), warn=warnings.append)
    assert "version 7" in warnings[0]


@pytest.mark.parametrize("ending", [".risum", ".json"])
def test_a_module_gets_a_new_id_when_it_is_imported(ending: str):
    data = write_module(MODULE, ending)
    assert read_module(data).id != "old"
    assert read_module(data, new_id=lambda: "fixed").id == "fixed"
    assert read_module(data, new_id=None).raw["lorebook"] == ({"key": "a"},)


def test_a_module_without_an_id_gets_one_of_the_kind_risu_ai_makes():
    data = write_module({"name": "M"}, ".json")
    made = read_module(data, new_id=None)
    assert uuid.UUID(made.id).version == 4
    assert read_module(data, new_id=None).id == made.id == made.raw["id"]
    assert read_module(write_module(MODULE, ".json"), new_id=None).id == "old"


def test_assets_of_an_imported_module_get_the_paths_of_their_contents():
    out = io.BytesIO()
    pictures = (Asset.from_bytes(b"A", type="x-risu-asset", name="a", ext="webp"),)
    write_risum(out, Module.from_json({**MODULE, "assets": [["a", "", "webp"]]}).replace(assets=pictures))
    path = f"assets/{hashlib.sha256(b'A').hexdigest()}.png"
    assert read_module(out.getvalue()).assets == (("a", path, "webp"),)
    assert read_module(out.getvalue(), new_id=None).assets == (("a", "", "webp"),)


def test_lorebook_and_regex_files_become_modules(tmp_path: Path):
    path = tmp_path / "Ports.json"
    path.write_text(json.dumps({"type": "risu", "ver": 1, "data": [{"key": "sea"}]}), "utf-8")
    assert read_module(path).name == "Ports"
    assert read_module(path).lore == ({"key": "sea"},)
    foreign = json.dumps({"entries": {"0": {"key": ["sea"], "content": "Salt.", "constant": True}}}).encode()
    assert read_module(foreign).lore[0]["content"] == "Salt."
    scripts = json.dumps({"type": "regex", "data": [{"in": "a"}]}).encode()
    assert read_module(scripts, name="S").raw["regex"] == ({"in": "a"},)


@pytest.mark.parametrize("data", [b"[]", b'{"type": "other"}', b'{"type": "regex", "data": 1}'])
def test_other_files_are_no_modules(data: bytes):
    with pytest.raises(RisumError):
        read_module(data)


def test_an_unknown_ending_of_a_module_is_refused():
    with pytest.raises(ConfigError):
        write_module(MODULE, ".zip")


@pytest.mark.parametrize("load", [Preset.load, ChatFile.load, read_module])
def test_a_file_of_another_kind_is_called_by_its_name(load: Callable[[bytes], object]) -> None:
    with pytest.raises(FileFormatError, match="this is a PNG picture, perhaps a card"):
        load(placeholder_png(1, 1))
    with pytest.raises(FileFormatError, match=r"this is a save \(`risu_ai.Save.load`\)"):
        load(encode_database({"characters": []}))
