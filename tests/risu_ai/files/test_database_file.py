from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tavernkit.errors import FileFormatError, LimitExceededError, WarningLog
from tavernkit.risu_ai import Builder, Database

CHATS = [
    {"name": "old", "message": [{"role": "user", "data": "Once."}]},
    {"name": "new", "message": [{"role": "user", "data": "Now."}], "fmIndex": -1},
]
STORED: dict[str, Any] = {
    "username": "Ann",
    "selectedPersona": 1,
    "characters": [
        {
            "name": "Mira",
            "chaId": "c1",
            "desc": "A smith.",
            "firstMessage": "Hello.",
            "chats": CHATS,
            "chatPage": 1,
            "globalLore": [
                {"key": "", "alwaysActive": True, "content": "@@end\n<char> hums.", "activationPercent": 100}
            ],
        },
        {"name": "Forge", "chaId": "g1", "type": "group", "characters": ["c1"], "chats": []},
        "nobody",
    ],
}


def test_settings_characters_and_chats_are_read(tmp_path: Path) -> None:
    path = tmp_path / "database.json"
    path.write_text(json.dumps(STORED), encoding="utf-8")
    log = WarningLog()
    database = Database.load(path, warn=log)
    assert (database.settings.username, database.settings.selected_persona) == ("Ann", 1)
    assert [each.name for each in database.characters] == ["Mira", "Forge"]
    assert any("character 2 is left out" in message for message in log.messages)
    mira = database.character("c1")
    assert mira is not None
    assert mira is database.character("Mira")
    assert [chat.name for chat in mira.stored_chats] == ["old", "new"]
    assert database.character("Nobody") is None


def test_a_build_goes_on_with_the_open_chat_or_another() -> None:
    database = Database.from_json(STORED, warn=WarningLog())
    mira = database.characters[0]
    builder = Builder()
    assert any(block.content == "Now." for block in builder.build(**database.inputs(mira)).blocks)
    old = builder.build(**database.inputs(mira, mira.stored_chats[0]))
    assert any(block.content == "Once." for block in old.blocks)


@pytest.mark.parametrize(("stated", "greeting"), [({}, "Hello."), ({"firstMsgIndex": 0}, "Hey.")])
def test_a_chat_that_names_no_greeting_is_opened_with_the_old_choice_of_the_character(
    stated: dict[str, int], greeting: str
) -> None:
    mira = {**STORED["characters"][0], **stated, "alternateGreetings": ["Hey."], "chatPage": 0}
    database = Database.from_json({"characters": [mira]})
    plan = Builder().build(**database.inputs(database.characters[0]))
    assert greeting in [block.content for block in plan.blocks]


def test_a_group_has_its_members_and_an_empty_chat() -> None:
    database = Database.from_json(STORED, warn=WarningLog())
    inputs = database.inputs(database.characters[1])
    assert inputs["members"] == database.characters[:1]
    assert inputs["history"].messages == ()  # type: ignore[attr-defined]


def test_lore_of_old_versions_is_brought_up_to_date() -> None:
    database = Database.from_json(STORED, warn=WarningLog())
    lore = database.characters[0].lore
    assert lore is not None
    assert lore[0]["content"] == "@@probability 100\n@@depth 0\n{{char}} hums."
    chat = {**CHATS[1], "localLore": [{"key": "a", "content": "<user>"}, 3]}
    stored = {"characters": [{"name": "Mira", "chats": [chat], "chatPage": 0}]}
    found = Database.from_json(stored, warn=WarningLog()).characters[0].stored_chat
    assert found is not None
    assert [each["content"] for each in found.local_lore] == ["{{user}}"]


def test_a_file_without_a_database_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "database.json"
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(FileFormatError, match="no RisuAI database"):
        Database.load(path)
    monkeypatch.setattr("tavernkit.risu_ai.files.database_file.MAX_DATABASE_BYTES", 2)
    with pytest.raises(LimitExceededError):
        Database.load(path)
