"""Saves beyond the vectors: what is damaged, foreign or stored beside the database, and writing."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit._values import thaw
from tavernkit.cards._source import BytesSource
from tavernkit.errors import ConfigError, LimitExceededError, StrictModeError, TavernKitError, WarningLog
from tavernkit.risu_ai import DatabaseError, RisuChat, RisuMessage, Save
from tavernkit.risu_ai._files import backup_file, database_codec
from tavernkit.risu_ai._files.backup_file import COLD_MARK, read_index, write_backup
from tavernkit.risu_ai._files.database_codec import BLOCKS, MARK, Decoder, encode_database
from tavernkit.risu_ai._files.message_pack import pack
from tavernkit.risu_ai._files.settings import BuiltInTexts
from tavernkit.risu_ai._files.start_up import start_up

CHATS: list[Any] = [
    {"name": "old", "id": "x1", "message": [{"role": "user", "data": "Once."}]},
    {"name": "new", "id": "x2", "message": [{"role": "user", "data": "Now."}, {"role": "char", "data": "Yes."}]},
]
LORE = {"key": "", "alwaysActive": True, "content": "@@end\n<char> hums.", "activationPercent": 100}
STORED: dict[str, Any] = {
    "formatversion": 5,
    "username": "Ann",
    "mainPrompt": "Be brief.",
    "personas": [
        {"id": "p1", "name": "Ann", "personaPrompt": "stale"}, {"id": "p2", "name": "Bo", "personaPrompt": "Bo sails."},
    ],
    "selectedPersona": 0,
    "personaPrompt": "Ann counts.",
    "botPresets": [{"name": "one"}, {"name": "two", "mainPrompt": "Be long.", "maxContext": 9000}],
    "botPresetsId": 0,
    "custom": {"kept": [1, None]},
    "characters": [
        {"name": "Mira", "chaId": "c1", "desc": "A smith.", "firstMessage": "Hello.", "chats": CHATS, "chatPage": 1,
         "globalLore": [LORE], "image": "assets/mira.png", "alternateGreetings": ["Hey."]},
        {"name": "Forge", "chaId": "g1", "type": "group", "characters": ["c1"], "chats": [], "globalLore": [LORE]},
    ],
}  # fmt: skip


def backup(stored: Mapping[str, Any] = STORED, **assets: bytes) -> bytes:
    out = io.BytesIO()
    write_backup(out, [(f"{name}.png", data) for name, data in assets.items()], encode_database(stored))
    return out.getvalue()


def load(data: bytes | Path, **options: Any) -> Save:
    return Save.load(data, **{"warn": WarningLog(), **options})


def prompts(save: Save, *which: Any, **options: Any) -> list[str]:
    return [block.content for block in save.builder(*which, **options).build().blocks]


FORMS = {
    "backup": backup(),
    "packed": encode_database(STORED),
    "blocks": encode_database(STORED, blocks=True),
    "raw": MARK + b"\7" + pack(STORED),
    "stream": MARK + b"\x09" + gzip.compress(pack(STORED)),
    "JSON": json.dumps(STORED).encode(),
    "old": gzip.compress(json.dumps(STORED).encode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same(form: str) -> None:
    save = load(FORMS[form])
    assert [each.name for each in save.characters] == ["Mira", "Forge"]
    assert save.database["custom"] == {"kept": [1, None]}
    assert [preset.name for preset in save.presets] == ["one", "two"]
    assert [persona.name for persona in save.personas] == ["Ann", "Bo"]
    texts = prompts(save, "Mira")
    assert "Now." in texts
    assert "*says nothing*" in texts


def test_assets_are_read_when_they_are_asked_for() -> None:
    save = load(backup(mira=b"M", other=b"OO"))
    assert {name: asset.size for name, asset in save.assets.items()} == {"mira.png": 1, "other.png": 2}
    assert save.assets["other.png"].read() == b"OO"
    assert list(save.used_assets) == ["mira.png"]


def test_a_backup_can_be_saved_over_itself_though_its_assets_are_read_from_it(tmp_path: Path) -> None:
    path = tmp_path / "backup.bin"
    path.write_bytes(backup(mira=b"M", other=b"OO"))
    load(path).save(path)
    saved = load(path)
    assert {name: asset.read() for name, asset in saved.assets.items()} == {"mira.png": b"M", "other.png": b"OO"}
    assert [each.name for each in saved.characters] == [each.name for each in load(backup()).characters]


def test_a_backup_of_four_gigabytes_is_read_without_loading_it(tmp_path: Path) -> None:
    path = tmp_path / "backup.bin"
    name, size = b"huge.png", 2**32 - 1
    with path.open("wb") as out:
        out.write(struct.pack("<I", len(name)) + name + struct.pack("<I", size))
        out.seek(size, io.SEEK_CUR)  # a hole: it takes no place on the disk
        out.write(backup())
    save = load(path)
    assert save.character("Mira").name == "Mira"
    assert save.assets["huge.png"].size == size
    with pytest.raises(LimitExceededError):
        save.assets["huge.png"].read()


@pytest.mark.parametrize(
    ("which", "found"),
    [("Mira", "Now."), (("Mira", "old"), "Once."), (("c1", "x1"), "Once."), ((0, 0), "Once.")],
)
def test_characters_and_chats_are_chosen_by_name_id_or_place(which: Any, found: str) -> None:
    assert found in prompts(load(backup()), *(which if isinstance(which, tuple) else [which]))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"character": "Bel"}, "choose one of Mira, Forge"),
        ({"character": 7}, "choose one of Mira"),
        ({"character": "Mira", "chat": "none"}, "choose one of old, new"),
        ({"character": "Mira", "persona": "Cy"}, "choose one of Ann, Bo"),
        ({"character": "Mira", "preset": 2}, "choose one of one, two"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(backup()).builder(**choice)


@pytest.mark.parametrize("page", [None, 7, "1", True])
def test_a_missing_or_wrong_page_opens_the_first_chat(page: Any) -> None:
    mira = {**STORED["characters"][0], "chatPage": page}
    assert "Once." in prompts(load(backup({**STORED, "characters": [mira]})), "Mira")


def test_a_persona_can_be_chosen_and_the_one_in_use_is_live() -> None:
    save = load(backup())
    assert "Ann counts." in prompts(save, "Mira", persona="Ann")
    switched = save.builder("Mira", persona=1).make_context().settings
    assert (switched.username, switched.persona_prompt) == ("Bo", "Bo sails.")
    assert switched.personas[0].prompt == "Ann counts."


def test_a_preset_can_be_chosen_and_the_one_in_use_is_live() -> None:
    save = load(backup())
    assert "Be brief." in prompts(save, "Mira", preset="one")[0]
    assert "Be long." in prompts(save, "Mira", preset="two")[0]
    assert save.builder("Mira", preset=1).make_context().settings.preset.max_context == 9000


def test_choosing_a_persona_or_a_preset_stores_the_one_in_use_first() -> None:
    mira = {**STORED["characters"][0], "chats": [{**CHATS[0], "bindedPersona": "p1"}]}
    save = load(backup({**STORED, "characters": [mira]}))
    assert "stale" in prompts(save, "Mira")  # the copy is used until it is stored again
    assert "Ann counts." in prompts(save, "Mira", persona=0)
    stored = save.builder("Mira", preset=1).make_context().settings.presets
    assert [(preset.name, preset.main_prompt) for preset in stored] == [("one", "Be brief."), ("two", "Be long.")]


@pytest.mark.parametrize(("stated", "greeting"), [({}, "Hello."), ({"firstMsgIndex": 0}, "Hey.")])
def test_a_chat_that_names_no_greeting_is_opened_with_the_old_choice_of_the_character(
    stated: dict[str, int], greeting: str
) -> None:
    mira = {**STORED["characters"][0], **stated}
    assert greeting in prompts(load(backup({"characters": [mira]})), "Mira")


def test_lore_is_brought_up_to_date_for_characters_and_modules_only() -> None:
    chat = {**CHATS[0], "localLore": [LORE]}
    stored = {**STORED, "characters": [{**STORED["characters"][0], "chats": [chat]}, STORED["characters"][1]]}
    save = load(backup({**stored, "modules": [{"name": "M", "id": "m", "lorebook": [LORE]}]}))
    mira, forge = save.character("Mira"), save.character("Forge")
    updated = "@@probability 100\n@@depth 0\n{{char}} hums."
    assert mira.lore is not None
    assert forge.lore is not None
    assert mira.lore[0]["content"] == save.modules[0].lore[0]["content"] == updated
    assert forge.lore[0]["content"] == save.chats("Mira")[0].local_lore[0]["content"] == LORE["content"]


def test_an_empty_message_says_nothing_unless_the_user_spoke_last_or_it_is_off() -> None:
    save = load(backup())
    assert "*says nothing*" not in prompts(save, "Mira", "old")
    assert "*says nothing*" not in prompts(load(backup({**STORED, "useSayNothing": False})), "Mira")
    sent = save.builder("Mira").send(lambda _: "Hm.")
    assert [message.data for message in sent.chat.messages[-2:]] == ["*says nothing*", "Hm."]


def test_a_group_has_its_members_and_a_chat() -> None:
    inputs = load(backup()).inputs("Forge")
    assert [each.name for each in inputs["members"]] == ["Mira"]  # type: ignore[attr-defined]
    assert inputs["history"].name == "Chat 1"  # type: ignore[attr-defined]


def cold(form: str) -> tuple[bytes, dict[str, bytes]]:
    chat = {"name": "cold", "id": "x", "note": "kept", "message": [{"role": "char", "data": f"{COLD_MARK}u-1"}]}
    messages = [{"role": "user", "data": "Frozen."}]
    content = {"dict": {"message": messages, "scriptstate": {"$a": "1"}}, "list": messages, "number": 3}[form]
    stored = {**STORED, "characters": [{**STORED["characters"][0], "chats": [chat]}]}
    return backup(stored), {"coldstorage_u-1.json": gzip.compress(json.dumps(content).encode())}


@pytest.mark.parametrize("form", ["dict", "list"])
def test_a_chat_comes_back_from_cold_storage(form: str) -> None:
    data, files = cold(form)
    (chat,) = load(data, companions=files).chats("Mira")
    assert ([message.data for message in chat.messages], chat.note) == (["Frozen."], "kept")


@pytest.mark.parametrize(("form", "changed"), [("dict", None), ("dict", b"junk"), ("number", b"")])
def test_a_cold_chat_without_its_file_keeps_its_mark_with_a_warning(form: str, changed: bytes | None) -> None:
    data, files = cold(form)
    files = {} if changed is None else {name: changed or content for name, content in files.items()}
    log = WarningLog()
    assert f"{COLD_MARK}u-1" in prompts(load(data, companions=files, warn=log), "Mira")
    assert any("cold storage" in message for message in log.messages)


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "a\\b", "", "n\0"])
def test_names_of_files_never_lead_out_of_the_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(b"[]"))
    folder = tmp_path / "data"
    (folder / "coldstorage").mkdir(parents=True)
    chat = {"id": "x", "message": [{"role": "char", "data": COLD_MARK + name}]}
    log = WarningLog()
    save = load(backup({"characters": [{"name": "M", "chats": [chat]}]}), companions=folder, warn=log)
    assert save.chats("M")[0].messages[0].data == COLD_MARK + name
    assert "is not there" in log.messages[0]


@pytest.mark.parametrize("hexadecimal", [False, True])
def test_a_data_folder_is_read_with_all_that_is_in_it(tmp_path: Path, hexadecimal: bool) -> None:
    remote = json.dumps(STORED["characters"][0]).encode()
    out = bytearray(encode_database({**STORED, "characters": []}, blocks=True))
    body = json.dumps({"v": 1, "type": 2, "name": "c1"}).encode()
    out += bytes([6, 0, 2]) + b"c1" + struct.pack("<I", len(body)) + body
    for key, data in {"database/database.bin": out, "remotes/c1.local.bin": remote, "assets/mira.png": b"M"}.items():
        path = tmp_path / (key.encode().hex() if hexadecimal else key)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    save = load(tmp_path)
    assert [each.name for each in save.characters] == ["Mira"]
    assert save.assets["mira.png"].read() == b"M"


def test_the_folder_of_the_database_and_a_folder_from_a_drive_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "data" / "database").mkdir(parents=True)
    (tmp_path / "data" / "assets").mkdir()
    (tmp_path / "data" / "assets" / "mira.png").write_bytes(b"M")
    (tmp_path / "data" / "database" / "database.bin").write_bytes(FORMS["blocks"])
    drive = tmp_path / "drive"
    drive.mkdir()
    (drive / "1700000000-database.risudat").write_bytes(encode_database({"characters": []}))
    (drive / "1700000001-database.risudat").write_bytes(FORMS["packed"])
    (drive / "mira.png.bin").write_bytes(b"M")
    (drive / "assets_so__ld_dpng.png").write_bytes(b"O")
    for folder in (tmp_path / "data" / "database", drive):
        save = load(folder)
        assert [each.name for each in save.characters] == ["Mira", "Forge"]
        assert save.assets["mira.png"].read() == b"M"
    assert save.assets["o_ld.png"].read() == b"O"


@pytest.mark.parametrize(("name", "hint"), [("x.txt", ""), ("database/dbbackup-17.bin", "dbbackup-17.bin")])
def test_a_folder_without_a_database_says_what_it_lacks(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DatabaseError, match=f"no database/database.bin.*{hint}"):
        load(tmp_path)


def test_a_block_that_is_stored_elsewhere_and_not_given_is_missing_with_a_warning() -> None:
    body = b'{"v": 1, "type": 2, "name": "c9"}'
    log = WarningLog()
    save = load(encode_database(STORED, blocks=True) + b"\6\0\0" + struct.pack("<I", len(body)) + body, warn=log)
    assert len(save.characters) == 2
    assert "remotes/c9.local.bin is missing" in log.messages[0]


FOREIGN = {
    "card picture": (b"\x89PNG\r\n\x1a\n" + bytes(20), "a PNG picture"),
    "archive": (b"PK\3\4" + bytes(20), "an archive"),
    "module": (b"o\0" + bytes(20), "a module"),
    "plugin": (b"//@name x", "a plugin"),
    "chat": (b'{"type": "risuChat"}', "a chat"),
    "card": (b'{"spec": "chara_card_v2"}', "a character card"),
    "triggers": (b"[1]", "a list"),
    "settings report": (b'{"mainPrompt": ""}', "it has no characters"),
    "preset": (gzip.compress(pack({"type": "preset", "preset": b""})), "a preset"),
    "broken JSON": (b'{"a": ', "not JSON"),
    "assets only": (struct.pack("<I", 5) + b"a.png" + struct.pack("<I", 1) + b"A", "1 assets and no database"),
    "text": ("# A read-me, and more of it é.".encode(), "a text"),
    "chat of SillyTavern": (b'{"user_name": "Ann", "chat_metadata": {}}\n{"mes": "Hi"}\n', "a chat of SillyTavern"),
    "JSON lines": (b'{"a": 1}\n{"a": 2}\n', "JSON lines"),
    "a backup without its data": (struct.pack("<I", 5) + b"a.png" + struct.pack("<I", 9) + b"A", "no database"),
    "cold chat": (gzip.compress(b'{"message": [], "scriptstate": {}}'), "cold storage"),
    "old cold chat": (gzip.compress(b'[{"role": "user", "data": "Hi"}]'), "cold storage"),
    "one character": (b'{"chaId": "c1", "name": "Mira", "chats": []}', "one character of a database"),
    "chat as a page": (b'<!DOCTYPE html><div class="idat">{}</div>', "a web page"),
    "newer database": (MARK + b"\x0a" + pack({}), "a database of version 10"),
    "junk": (b"\xffjunk", "an unknown file that begins with the bytes ff 6a 75 6e 6b"),
    "nothing": (b"", "this is an empty file"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_another_file_is_named_with_what_to_export_instead(kind: str) -> None:
    data, message = FOREIGN[kind]
    with pytest.raises(DatabaseError, match=message) as caught:
        load(data)
    assert "Save Local Backup" in str(caught.value)


@pytest.mark.parametrize("form", ["raw", "packed", "stream"])
def test_what_stands_before_the_damage_is_read_and_strict_mode_refuses(form: str) -> None:
    stored = {**STORED, "padding": random.Random(0).randbytes(3000).hex()}
    whole = {"raw": MARK + b"\7" + pack(stored), "packed": encode_database(stored)}
    data = (whole | {"stream": MARK + b"\x09" + gzip.compress(pack(stored))})[form]
    log = WarningLog()
    save = load(data[:-400], warn=log)
    assert save.characters[0].name == "Mira"
    assert any("damaged" in message for message in save.warnings)
    assert save.warnings == log.messages
    for options in ({"salvage": False}, {"strict": True}):
        with pytest.raises(DatabaseError):
            load(data[:-400], **options)


@pytest.mark.parametrize("change", ["checksum", "size", "content"])
def test_compressed_data_is_read_up_to_the_damage(change: str) -> None:
    stored = {**STORED, "padding": random.Random(0).randbytes(9000).hex()}
    data = bytearray(encode_database(stored))
    data[{"checksum": -8, "size": -4, "content": -5000}[change]] ^= 0xFF
    log = WarningLog()
    save = load(bytes(data), warn=log)
    assert [each.name for each in save.characters] == ["Mira", "Forge"]
    assert not any("0 bytes" in message for message in log.messages)


def test_a_wrong_length_before_the_database_costs_only_assets() -> None:
    data = bytearray(backup(a=b"1234", b=b"5678"))
    at = data.index(b"b.png") + 5
    for wrong in (2**31, 7):  # beyond the end, and into the next entry
        data[at : at + 4] = struct.pack("<I", wrong)
        log = WarningLog()
        save = load(bytes(data), warn=log)
        assert [each.name for each in save.characters] == ["Mira", "Forge"]
        assert save.assets["a.png"].read() == b"1234"
        assert any("the database was found at offset" in message for message in log.messages)
        with pytest.raises(DatabaseError):
            load(bytes(data), salvage=False)


def test_blocks_that_the_directory_names_and_the_file_lacks_are_named() -> None:
    root = json.dumps({"username": "Ann", "__directory": ["preset", "c1", "c9"]}).encode()
    whole = encode_database({**STORED, "characters": STORED["characters"][:1]}, blocks=True)
    data = BLOCKS + b"\1\0\4root" + struct.pack("<I", len(root)) + root + whole[len(BLOCKS) :]
    log = WarningLog()
    assert [each.name for each in load(data, warn=log).characters] == ["Mira"]
    assert log.messages == ("the file has no block 'c9', which its directory names",)


def test_a_damaged_block_costs_that_block() -> None:
    data = encode_database(STORED, blocks=True).replace(b'"A smith."', b"'A smith.'")
    log = WarningLog()
    assert [each.name for each in load(data, warn=log).characters] == ["Forge"]
    assert "the character block 'c1'" in log.messages[0]
    with pytest.raises(DatabaseError):
        load(data, salvage=False)


def test_a_file_cut_in_its_root_gives_the_settings_before_the_cut() -> None:
    stored = {**STORED, "maxContext": 4321}
    data = encode_database(stored, blocks=True)
    at = data.index(b"4321") + 2  # half of a number looks like a whole one
    log = WarningLog()
    save = load(data[:at], warn=log)
    assert save.database["username"] == "Ann"
    assert save.database["custom"] == {"kept": [1, None]}
    assert save.database["maxContext"] == 4000
    assert "up to 'custom'" in log.messages[0]
    assert "characters, presets or modules, they are lost" in log.messages[1]
    with pytest.raises(DatabaseError):
        load(data[:at], salvage=False)


@pytest.mark.parametrize("damage", ["lost", "added", "too long", "too short", "beyond the end", "name"])
@pytest.mark.parametrize("nested_at", range(100, 140, 5))
def test_blocks_behind_a_damaged_root_are_found_without_its_length(damage: str, nested_at: int) -> None:
    stored = {"first": "a" * nested_at, "nested": {"a": [{"b": "\0\1"}]}, **STORED, "filler": "x" * 70_000}
    data = bytearray(encode_database(stored, blocks=True))
    length = data.index(b"root") + 4
    if damage == "lost":
        del data[data.index(b"Be brief") : data.index(b"Be brief") + 3]
    elif damage == "added":
        data[data.index(b"Be brief") : data.index(b"Be brief")] = b"junk"
    elif damage == "name":
        data[length - 5] = 9
    else:
        data[length : length + 4] = struct.pack("<I", {"too long": 71_500, "too short": 90}.get(damage, 2**31))
    log = WarningLog()
    save = load(bytes(data), warn=log)
    assert [each.name for each in save.characters] == ["Mira", "Forge"]
    assert [preset.name for preset in save.presets] == ["one", "two"]
    assert len(log.messages) == 1 + (damage == "name")
    assert "seems wrong: the next block was found at byte" in log.messages[0]
    if damage != "name":  # the text of the root is whole
        assert save.database["custom"] == {"kept": [1, None]}


def test_a_root_with_broken_text_gives_the_settings_before_it() -> None:
    data = encode_database(STORED, blocks=True).replace(b'"custom"', b'"custom\x02')
    log = WarningLog()
    save = load(data, warn=log)
    assert save.database["personaPrompt"] == "Ann counts."
    assert "custom" not in save.database
    assert [each.name for each in save.characters] == ["Mira", "Forge"]
    assert len(log.messages) == 1
    assert "the root block 'root' at byte 9 is read in part" in log.messages[0]


@pytest.mark.parametrize("place", ["checksum", "content"])
def test_a_compressed_block_is_read_up_to_the_damage(place: str) -> None:
    filler = random.Random(0).randbytes(3000).hex()
    root = bytearray(gzip.compress(json.dumps({"username": "Ann", "filler": filler, "mainPrompt": "x"}).encode()))
    root[{"checksum": -8, "content": -300}[place]] ^= 0xFF
    whole = encode_database({"characters": STORED["characters"]}, blocks=True)
    rest = whole[whole.index(b"\4\0\6preset") :]
    log = WarningLog()
    save = load(BLOCKS + b"\1\1\4root" + struct.pack("<I", len(root)) + root + rest, warn=log)
    assert [each.name for each in save.characters] == ["Mira", "Forge"]
    assert save.database["username"] == "Ann"
    assert (save.database["mainPrompt"] == "x") == (place == "checksum")
    assert len(log.messages) == 1


def test_presets_before_the_damage_are_read() -> None:
    data = encode_database(STORED, blocks=True).replace(b'"Be long."', b"Be long.  ")
    log = WarningLog()
    assert [preset.name for preset in load(data, warn=log).presets] == ["one"]
    assert "after its first 1 items" in log.messages[0]


def test_a_block_of_an_unknown_kind_is_reported() -> None:
    data = encode_database(STORED, blocks=True).replace(b"\2\0\2c1", b"B\0\2c1")
    log = WarningLog()
    assert [each.name for each in load(data, warn=log).characters] == ["Forge"]
    assert log.messages[0].startswith("the 66 block 'c1' at byte ")


def test_searches_for_blocks_are_bounded() -> None:
    claims_all = b"\2\0\1a" + struct.pack("<I", 2**31) + b'{"'
    data = BLOCKS + claims_all * 1000 + encode_database(STORED, blocks=True)[len(BLOCKS) :]
    log = WarningLog()
    assert not load(data, warn=log).characters
    assert len(log.messages) < 60


def test_a_packed_database_cut_before_its_characters_gives_its_settings() -> None:
    data = MARK + b"\7" + pack({**{key: each for key, each in STORED.items() if key != "characters"}, "characters": []})
    log = WarningLog()
    save = load(data[:-20], warn=log)
    assert save.database["username"] == "Ann"
    assert not save.characters
    assert "the characters come after the damage and are missing" in log.messages
    with pytest.raises(DatabaseError):
        load(data[:-20], salvage=False)


def test_a_cut_backup_says_where_and_how_much_is_missing() -> None:
    data = backup() + struct.pack("<I", 5) + b"a.png" + struct.pack("<I", 10) + b"1234"
    log = WarningLog()
    assert load(data, warn=log).characters
    assert f"offset {len(backup())}: 6 bytes of the data of 'a.png' are missing" in log.messages[0]
    with pytest.raises(StrictModeError):
        load(data, strict=True)


@pytest.mark.parametrize("assets", [{}, {"a": b"1234"}], ids=["first", "later"])
def test_a_database_that_the_end_of_a_backup_cuts_is_read_as_far_as_it_goes(assets: dict[str, bytes]) -> None:
    stored = {**STORED, "padding": random.Random(0).randbytes(3000).hex()}
    data = backup(stored, **assets)[:-400]
    log = WarningLog()
    save = load(data, warn=log)
    assert [each.name for each in save.characters] == ["Mira", "Forge"]
    assert "'database.risudat' are missing" in log.messages[0]
    assert any("damaged" in message for message in log.messages)
    with pytest.raises(DatabaseError):
        load(data, salvage=False)


def test_limits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_file, "MAX_BACKUP_ENTRIES", 1)
    with pytest.raises(DatabaseError, match="only the first 1 entries"):
        load(backup(a=b"", b=b""), salvage=False)
    assert [*load(backup(a=b"", b=b"")).assets] == ["a.png"]
    monkeypatch.setattr(database_codec, "MAX_DATABASE_BLOCKS", 2)
    with pytest.raises(LimitExceededError, match="more than 2 blocks"):
        load(FORMS["blocks"])
    monkeypatch.setattr(database_codec, "MAX_UNPACKED_DATABASE", 50)
    with pytest.raises(LimitExceededError):
        load(FORMS["packed"])
    deep = MARK + b"\7" + b"\x81\xa1a" * 600 + b"\xc0"
    with pytest.raises(DatabaseError, match="nests deeper than 512"):
        load(deep)


def test_deleted_characters_go_after_three_days() -> None:
    day = 24 * 60 * 60
    trashed = [{"name": str(days), "chaId": str(days), "trashTime": -days * day * 1000 + 10**12} for days in (2, 4)]
    save = load(backup({"characters": trashed}), now=datetime.fromtimestamp(10**9, UTC))
    assert [each.name for each in save.characters] == ["2"]
    assert save.database["characterOrder"] == []


@pytest.mark.parametrize("name", ["copy.bin", "database.bin", "copy.json"])
def test_a_save_is_written_and_read_again(name: str, tmp_path: Path) -> None:
    save = load(backup(mira=b"M"))
    chat = RisuChat(id="x2", messages=(RisuMessage(role="user", data="Stored."),), raw={"name": "new"})
    save.with_chat("Mira", chat, {"mood": "good"}).save(tmp_path / name)
    again = load(tmp_path / name)
    assert again.chat("Mira", "x2").messages[0].data == "Stored."
    assert again.chat("Mira", "x2").raw["scriptstate"] == {"$mood": "good"}
    assert [each.id for each in again.chats("Mira")] == ["x1", "x2"]
    assert again.database["custom"] == {"kept": [1, None]}
    assert [*again.assets] == (["mira.png"] if name == "copy.bin" else [])


@pytest.mark.parametrize("name", ["copy.bin", "database.bin", "copy.json"])
def test_dates_bytes_and_what_is_no_number_are_written_and_used(name: str, tmp_path: Path) -> None:
    odd = {"when": datetime(2025, 3, 4, tzinfo=UTC), "picture": b"\1\2", "nothing": float("nan")}
    save = load(MARK + b"\7" + pack({**STORED, **odd, "characters": [{**STORED["characters"][0], **odd}]}))
    assert json.dumps(thaw([save.settings.raw["when"], save.characters[0].raw["picture"]]))
    save.save(tmp_path / name)
    again = load(tmp_path / name)
    assert again.character("Mira").raw["when"] == "2025-03-04T00:00:00.000Z"
    assert again.settings.raw["picture"] == {"0": 1, "1": 2}
    assert again.settings.raw["nothing"] is None


def test_a_new_chat_is_put_first() -> None:
    save = load(backup()).with_chat("Mira", RisuChat(id="x3"))
    assert [each.id for each in save.chats("Mira")] == ["x3", "x1", "x2"]


KEYS = st.text().filter(lambda key: key != "__proto__")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text().filter(lambda key: not key.startswith("__")), JSON, max_size=5))
@settings(max_examples=50)
def test_what_is_encoded_is_decoded(stored: dict[str, Any]) -> None:
    assert Decoder().decode(encode_database(stored)) == stored


@given(st.binary(max_size=200), st.sampled_from([b"", MARK + b"\7", MARK + b"\x08", MARK + b"\x09", BLOCKS, b"{"]))
@settings(max_examples=200)
def test_any_bytes_are_read_or_refused(data: bytes, start: bytes) -> None:
    with contextlib.suppress(TavernKitError):
        load(start + data)


@given(st.integers(0, len(FORMS["blocks"]) - 1), st.sampled_from(sorted(FORMS)), st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_damage_at_any_place_is_survived(place: int, form: str, byte: int) -> None:
    data = FORMS[form]
    place %= len(data)
    for damaged in (data[:place], data[:place] + bytes([byte]) + data[place + 1 :]):
        try:
            save = load(damaged)
            for each in save.characters:
                save.inputs(each.id)
        except TavernKitError:
            pass


@given(st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=9)), max_size=5), st.integers(0, 200))
def test_a_backup_that_is_cut_anywhere_has_its_complete_entries(entries: list[tuple[str, bytes]], cut: int) -> None:
    out = io.BytesIO()
    write_backup(out, [(name.replace("/", "").replace("\\", ""), data) for name, data in entries], b"D")
    data = out.getvalue()
    index = read_index(BytesSource(data[: len(data) - min(cut, len(data))]))
    assert [each.size for each in index.entries] == [len(each) for _, each in [*entries, ("", b"D")]][
        : len(index.entries)
    ]
    assert bool(index.problem) or len(index.entries) == len(entries) + 1 or cut


def test_settings_of_memory_presets_are_completed() -> None:
    database: Any = {"hypaV3Presets": [{"name": "Ours", "settings": {"summarizationPrompt": "Sum up."}}, None, {}]}
    start_up(database, now=0.0, texts=BuiltInTexts(), warn=lambda _: None)
    ours, nothing, empty = database["hypaV3Presets"]
    assert ours["settings"]["summarizationPrompt"] == "Sum up."
    assert (ours["settings"]["memoryTokensRatio"], ours["settings"]["maxChatsPerSummary"]) == (0.2, 6)
    assert nothing is None
    assert empty["settings"]["summarizationModel"] == "subModel"
