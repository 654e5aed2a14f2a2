from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tavernkit.errors import FileFormatError, WarningLog
from tavernkit.silly_tavern import DataFolder, TextPlan
from tavernkit.silly_tavern._files.attached_files import FolderMedia, FolderTexts


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def card(name: str, **fields: Any) -> dict[str, Any]:
    data = {"name": name, "description": f"{name} keeps the lamp.", "extensions": {}, **fields}
    return {"spec": "chara_card_v2", "spec_version": "2.0", "data": data}


def entry(uid: int, content: str, **fields: Any) -> dict[str, Any]:
    return {"uid": uid, "key": [], "content": content, "constant": True, "position": 0, "order": 100, **fields}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(
        tmp_path / "settings.json",
        {
            "username": "Mira",
            "oai_settings": {"openai_model": "gpt-4", "openai_max_context": 4000},
            "power_user": {"persona_description": "A sailor."},
            "world_info_settings": {
                "world_info": {
                    "globalSelect": ["sea", "missing"],
                    "charLore": [{"name": "Lyra", "extraBooks": ["extra"]}],
                }
            },
            "extension_settings": {"note": {"default": ""}},
            "tag_map": {"Lyra.json": ["t1"]},
        },
    )
    for name in ("sea", "linked", "extra", "chatty"):
        write(tmp_path / "worlds" / f"{name}.json", {"entries": {"0": entry(0, f"Lore of {name}.")}})
    write(tmp_path / "characters" / "Lyra.json", card("Lyra", extensions={"world": "linked"}))
    write(tmp_path / "characters" / "Bram.json", card("Bram"))
    line = {"name": "Lyra", "is_user": False, "mes": "Good evening."}
    header = {"chat_metadata": {"world_info": "chatty"}}
    write(tmp_path / "chats" / "Lyra" / "first.jsonl", f"{json.dumps(header)}\n{json.dumps(line)}")
    write(tmp_path / "group chats" / "g-chat.jsonl", f"{json.dumps({'chat_metadata': {}})}\n{json.dumps(line)}")
    write(
        tmp_path / "groups" / "g1.json",
        {"id": "g1", "name": "Harbour", "members": ["Lyra.json", "Bram.json", "Gone.png"], "chat_id": "g-chat"},
    )
    write(tmp_path / "OpenAI Settings" / "Mine.json", {"openai_max_tokens": 111})
    return tmp_path


def test_everything_is_listed_by_name(folder: Path):
    data = DataFolder(folder)
    assert data.characters() == ["Bram.json", "Lyra.json"]
    assert data.chats("Lyra") == ["first"]
    assert data.groups() == ["g1"]
    assert data.presets() == ["Mine"]
    assert data.worlds() == ["chatty", "extra", "linked", "sea"]


def test_a_preset_stands_over_the_settings_in_force(folder: Path):
    preset = DataFolder(folder).preset("Mine")
    assert (preset.openai_max_tokens, preset.openai_max_context) == (111, 4000)


def test_a_characters_chat_is_built_with_all_its_books(folder: Path):
    log = WarningLog()
    plan = DataFolder(folder, warn=log).builder("Lyra", "first").build(message="Hello?")
    texts = [message.content for message in plan.messages]
    lore = next(text for text in texts if "Lore of" in text)
    assert sorted(lore.split("\n")) == ["Lore of chatty.", "Lore of extra.", "Lore of linked.", "Lore of sea."]
    assert "A sailor." in texts
    assert texts[-1] == "Hello?"
    assert log.messages == ("world book 'missing' is left out: there is no 'missing' in " + str(folder / "worlds"),)


def test_a_groups_chat_is_built_with_the_members_that_are_there(folder: Path):
    log = WarningLog()
    data = DataFolder(folder, warn=log)
    plan = data.builder(group="g1").build(message="Hello?", speaker="Bram")
    texts = [message.content for message in plan.messages]
    assert "Bram keeps the lamp." in texts
    assert "[Start a new group chat. Group members: Lyra, Bram]" in texts
    assert any("Gone.png" in message for message in log.messages)


@pytest.mark.parametrize("name", ["../settings", "..", "a/b", "a\\b", "", "x\0"])
def test_names_never_lead_out_of_the_folder(folder: Path, name: str):
    with pytest.raises(FileFormatError):
        DataFolder(folder).world(name)


def test_what_is_not_a_folder_is_refused(tmp_path: Path):
    with pytest.raises(FileFormatError, match="data folder"):
        DataFolder(tmp_path / "nowhere")


def test_a_folder_without_settings_has_those_of_a_fresh_installation(tmp_path: Path):
    data = DataFolder(tmp_path)
    assert data.settings.username == "User"
    assert data.settings.main_api == "koboldhorde"
    assert data.characters() == []
    write(tmp_path / "characters" / "Lyra.json", card("Lyra"))
    assert isinstance(DataFolder(tmp_path, warn=WarningLog()).builder("Lyra").build(message="Hi"), TextPlan)


def test_files_that_are_not_asked_for_are_not_read(folder: Path) -> None:
    """Opening one chat of a huge folder reads what belongs to it, however much lies beside."""
    for number in range(300):
        write(folder / "characters" / f"broken{number}.json", "no JSON")
        write(folder / "worlds" / f"broken{number}.json", "no JSON")
        write(folder / "chats" / "Lyra" / f"broken{number}.jsonl", "no JSON")
    read: list[str] = []
    opened = Path.open

    def noting(path: Path, *arguments: Any, **named: Any) -> Any:
        read.append(path.name)
        return opened(path, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", noting)
        log = WarningLog()
        plan = DataFolder(folder, warn=log).builder("Lyra", "first").build(message="Hi", warn=None)
    assert "Good evening." in str(plan.to_messages())
    assert not any("broken" in name for name in read)
    assert not any("broken" in message for message in log.messages)


def test_what_is_wrong_in_any_file_of_the_folder_is_told_to_the_folders_listener(tmp_path: Path) -> None:
    write(tmp_path / "OpenAI Settings" / "p.json", {"temperature": "hot"})
    write(tmp_path / "instruct" / "i.json", {"name": "i", "input_sequence": 3})
    write(tmp_path / "context" / "c.json", {"name": "c", "story_string": 3})
    write(tmp_path / "sysprompt" / "s.json", {"name": "s", "content": 3})
    write(tmp_path / "group chats" / "one.jsonl", "no JSON")
    log = WarningLog()
    folder = DataFolder(tmp_path, warn=log)
    for read, name in (
        (folder.preset, "p"),
        (folder.instruct_template, "i"),
        (folder.context_template, "c"),
        (folder.system_prompt, "s"),
        (folder.group_chat, "one"),
    ):
        before = len(log.messages)
        read(name)
        assert len(log.messages) > before, name


SCRIPT = {"id": "1", "scriptName": "s", "placement": [1, 2], "promptOnly": True, "findRegex": "/e/g"}


def rewrite(path: Path, **changes: Any) -> None:
    write(path, {**json.loads(path.read_text("utf-8")), **changes})


def test_in_a_group_books_tags_and_scripts_are_the_speakers(folder: Path):
    scripts = {"regex": [{**SCRIPT, "replaceString": "#"}], "character_allowed_regex": ["Lyra.json"]}
    rewrite(folder / "settings.json", extension_settings=scripts)
    own = {"world": "linked", "regex_scripts": [{**SCRIPT, "findRegex": "/G/", "replaceString": "g"}]}
    write(folder / "characters" / "Lyra.json", card("Lyra", extensions=own))
    builder = DataFolder(folder).builder(group="g1")
    texts = {name: [m.content for m in builder.build(speaker=name).messages] for name in ("Lyra", "Bram")}
    assert "Lyra: good #v#ning." in texts["Lyra"]
    assert any("Lore of linked." in text for text in texts["Lyra"])
    assert "Lyra: Good #v#ning." in texts["Bram"]
    assert not any("Lore of linked." in text for text in texts["Bram"])


def test_nobody_is_the_character_of_a_groups_first_message(folder: Path):
    lines = [{"chat_metadata": {}}, {"name": "Lyra", "mes": "{{char}} nods."}, {"name": "Lyra", "mes": "{{char}} too."}]
    write(folder / "group chats" / "g-chat.jsonl", "\n".join(map(json.dumps, lines)))
    texts = [m.content for m in DataFolder(folder).builder(group="g1").build(speaker="Bram").messages]
    assert "Lyra:  nods." in texts
    assert "Lyra: Bram too." in texts


def test_a_chat_that_is_locked_to_a_persona_is_opened_as_it(folder: Path):
    stored = {"personas": {"zoe.png": "Zoe"}, "persona_descriptions": {"zoe.png": {"description": "A diver."}}}
    rewrite(folder / "settings.json", power_user=stored)
    write(folder / "User Avatars" / "zoe.png", "picture")
    write(folder / "User Avatars" / "mira.png", "picture")
    header = json.dumps({"chat_metadata": {"persona": "zoe.png"}})
    write(folder / "chats" / "Lyra" / "first.jsonl", f"{header}\n{json.dumps({'name': 'Lyra', 'mes': 'Hi {{user}}.'})}")
    data = DataFolder(folder)
    assert data.persona("Lyra", "first").reason == "the chat is locked to it"
    texts = [m.content for m in data.builder("Lyra", "first").build().messages]
    assert "A diver." in texts
    assert "Hi Zoe." in texts


def test_a_chat_without_messages_begins_with_the_greeting(folder: Path):
    write(folder / "characters" / "Lyra.json", card("Lyra", first_mes="Late, {{user}}."))
    write(folder / "chats" / "Lyra" / "empty.jsonl", json.dumps({"chat_metadata": {}}))
    texts = [m.content for m in DataFolder(folder).builder("Lyra", "empty").build(message="Hm.").messages]
    assert texts[-2:] == ["Late, Mira.", "Hm."]


def test_a_greeting_is_written_as_sillytavern_writes_it(folder: Path):
    settings = json.loads((folder / "settings.json").read_text())
    script = {"id": "s", "scriptName": "s", "findRegex": "/Late/", "replaceString": "Early", "placement": [2]}
    settings["extension_settings"]["regex"] = [script]
    write(folder / "settings.json", settings)
    write(folder / "characters" / "Lyra.json", card("Lyra", first_mes="", alternate_greetings=["Late, {{user}}."]))
    write(folder / "chats" / "Lyra" / "empty.jsonl", "")
    texts = [m.content for m in DataFolder(folder).builder("Lyra", "empty").build(message="Hm.").messages]
    assert texts[-2:] == ["Early, Mira.", "Hm."]


@pytest.mark.parametrize("there", [True, False])
def test_a_groups_chat_without_messages_begins_with_each_members_greeting(folder: Path, there: bool):
    for name in ("Lyra", "Bram"):
        write(folder / "characters" / f"{name}.json", card(name, first_mes="{{char}} nods at {{user}}."))
    if there:
        write(folder / "group chats" / "g-chat.jsonl", json.dumps({"chat_metadata": {}}))
    else:
        (folder / "group chats" / "g-chat.jsonl").unlink()
    log = WarningLog()
    plan = DataFolder(folder, warn=log).builder(group="g1").build(message="Hm.", speaker="Bram", warn=None)
    texts = [m.content for m in plan.messages if m.role in ("assistant", "user")]
    assert texts == ["Lyra: Lyra nods at Mira.", "Bram: Bram nods at Mira.", "Hm."]
    assert ("its chat 'g-chat' starts empty" in str(log.messages)) is not there


def test_each_warning_is_given_once(folder: Path):
    write(folder / "chats" / "Lyra" / "first.jsonl", '{"chat_metadata": {"persona": "gone.png"}}\nno JSON')
    log = WarningLog()
    data = DataFolder(folder, warn=log)
    for _ in range(2):
        data.builder("Lyra", "first")
        data.persona("Lyra", "first")
    assert len(log.messages) == len(set(log.messages)) == 3
    assert "the chat's lock to the persona gone.png is ignored: it has no file in User Avatars" in log.messages


def test_attached_files_are_read_from_the_folder_and_nowhere_else(folder: Path):
    write(folder / "user" / "files" / "a b.txt", "Tide table.")
    write(folder / "secret.txt", "secret")
    urls = ["/user/files/a%20b.txt", "/user/../secret.txt", "/secret.txt", "/user/files/../../secret.txt"]
    line = {"name": "Mira", "is_user": True, "mes": "Read.", "extra": {"files": [{"url": url} for url in urls]}}
    write(folder / "chats" / "Lyra" / "files.jsonl", f"{json.dumps({'chat_metadata': {}})}\n{json.dumps(line)}")
    plan = DataFolder(folder).builder("Lyra", "files").build(warn=None)
    assert plan.messages[-1].content == "Tide table.\n\nRead."
    assert len([each for each in plan.omissions if each.kind == "attachment"]) == 3


@pytest.mark.parametrize("content", [None, "no JSON", "[]"])
def test_missing_or_broken_settings_are_reported(tmp_path: Path, content: str | None):
    if content is not None:
        write(tmp_path / "settings.json", content)
    log = WarningLog()
    assert DataFolder(tmp_path, warn=log).settings.username == "User"
    assert "settings.json" in log.messages[0]
    assert "fresh installation" in log.messages[-1]


def test_fresh_settings_are_those_that_are_shipped(tmp_path: Path):
    fresh = DataFolder(tmp_path, warn=WarningLog()).settings
    assert fresh.world_info.recursive
    assert fresh.source == {}
    assert fresh.preset.model == "gpt-4-turbo"
    assert (fresh.power_user.instruct.input_suffix, fresh.power_user.tokenizer) == ("\n\n", 99)
    assert "{{wiBefore}}" in fresh.power_user.context.story_string


def test_a_link_below_the_files_does_not_lead_out_of_them(folder: Path):
    write(folder / "secret.txt", "secret")
    (folder / "user" / "files").mkdir(parents=True)
    (folder / "user" / "files" / "a.txt").symlink_to(folder / "secret.txt")
    assert FolderTexts(folder, WarningLog()).get("/user/files/a.txt") is None


def test_a_large_attachment_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tavernkit.silly_tavern._files.attached_files.MAX_ATTACHMENT_BYTES", 3)
    write(folder / "user" / "files" / "a.txt", "long")
    log = WarningLog()
    assert FolderTexts(folder, log).get("/user/files/a.txt") is None
    assert "larger than 3 bytes" in log.messages[0]


def test_names_from_windows_and_macos_are_found(folder: Path):
    accents = {False: "Ren\u00e9e", True: "Rene\u0301e"}
    write(folder / "characters" / f"{accents[True]}.json", card("Ren\u00e9e"))
    (folder / "chats" / "Lyra").rename(folder / "chats" / "LYRA")
    members = ["lyra.JSON", f"{accents[False]}.json"]
    write(folder / "groups" / "g2.json", {"id": "g2", "name": "Pier", "members": members, "chat_id": "G-Chat"})
    log = WarningLog()
    data = DataFolder(folder, warn=log)
    assert data.chats("Lyra") == ["first"]
    assert data.chat("lyra", "FIRST").messages[0].mes == "Good evening."
    texts = [m.content for m in data.builder(group="g2").build(speaker="Ren\u00e9e").messages]
    assert "Ren\u00e9e keeps the lamp." in texts
    assert "Lyra: Good evening." in texts
    assert any("'lyra.JSON'" in message and "'Lyra.json' is used" in message for message in log.messages)


def test_of_two_files_that_differ_in_case_neither_is_guessed(folder: Path):
    write(folder / "characters" / "LYRA.json", card("Other"))
    data = DataFolder(folder)
    assert [data.character(name).name for name in ("Lyra", "LYRA")] == ["Lyra", "Other"]
    with pytest.raises(FileFormatError, match="there is no 'lyra'"):
        data.character("lyra")


def test_files_of_a_file_manager_are_no_personas(folder: Path):
    for name in (".DS_Store", "Thumbs.db", "desktop.ini", "zoe.webp"):
        (folder / "User Avatars").mkdir(exist_ok=True)
        (folder / "User Avatars" / name).write_bytes(b"")
    data = DataFolder(folder)
    assert "zoe.webp" in data.avatars()
    assert not {".DS_Store", "Thumbs.db", "desktop.ini"} & {*data.avatars()}


@pytest.mark.parametrize(("name", "kind"), [("a.webp", "image/webp"), ("a.JFIF", "image/jpeg"), ("a.ogg", "audio/ogg")])
def test_types_of_media_do_not_depend_on_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
):
    monkeypatch.setattr("mimetypes.guess_type", lambda _: (None, None))
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / name).write_bytes(b"x")
    assert FolderMedia(tmp_path, print)[f"/user/{name}"].startswith(f"data:{kind};base64,")
