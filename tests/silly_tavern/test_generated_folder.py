"""A whole data folder: every chat of it builds, with what it carries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tavernkit._values import is_mapping
from tavernkit.errors import ConfigError, WarningLog
from tavernkit.silly_tavern import ChatPlan, DataFolder, TextPlan
from tests.conformance.adapters.silly_tavern.folder_inputs import write_bytes
from tests.silly_tavern import generated_folder as made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.generate(tmp_path_factory.mktemp("sillytavern"))


def prompt_of(plan: object) -> str:
    assert isinstance(plan, ChatPlan)
    if isinstance(plan, TextPlan):
        return plan.prompt
    return "\n".join(message.content for message in plan.messages)


def test_everything_is_found(folder: Path):
    data = DataFolder(folder)
    assert len(data.characters()) == made.CHARACTERS
    assert len(data.worlds()) == made.BOOKS
    assert sum(len(data.chats(name)) for name in data.characters()) == made.CHATS
    assert len(data.groups()) == made.GROUPS
    assert data.personas() == made.PERSONAS
    assert data.group_chats("g1") == ["group 1 chat 0", "group 1 chat 1"]
    assert DataFolder.users(folder.parent) == DataFolder.users(folder.parents[1]) == [folder]


def test_an_installation_is_the_folder_of_its_only_user(folder: Path, tmp_path: Path):
    for path in (folder, folder.parent, folder.parents[1]):
        assert DataFolder(path).path == folder
    for user in ("one", "two"):
        (tmp_path / "data" / user / "characters").mkdir(parents=True)
    for path in (tmp_path, tmp_path / "data"):
        with pytest.raises(ConfigError, match=r"a folder for each user: pass one of .*one, .*two"):
            DataFolder(path)


def test_every_kind_of_preset_is_read(folder: Path):
    data = DataFolder(folder)
    assert data.preset("Preset 2").temperature == pytest.approx(0.7)
    assert [data.sampler_presets(api) for api in ("textgenerationwebui", "kobold", "novel")] == [["Calm"]] * 3
    assert data.sampler_preset("Calm", "novel") == {"temperature": 0.7}
    assert data.reasoning_template("Square").prefix == "["
    assert data.quick_replies() == ["Dice"]
    assert data.quick_reply_set("Dice")["name"] == "Dice"


@pytest.mark.parametrize("feature", range(len(made.FEATURES)), ids=[each.__name__ for each, _ in made.FEATURES])
def test_every_chat_builds_with_what_it_carries(folder: Path, feature: int):
    log = WarningLog()
    data = DataFolder(folder, warn=log)
    for index in range(feature, made.CHATS, len(made.FEATURES)):
        name = made.name_of(index % made.CHARACTERS)
        plan = data.builder(name, made.chat_name(index)).build(message="Go on.", warn=None)
        assert made.FEATURES[feature][1] in prompt_of(plan)
        assert plan.warnings == ()
        assert "Nobody reads this." not in prompt_of(plan)
        assert "and there is mist" in prompt_of(plan)
    assert log.messages == ()


def test_a_picture_is_sent_as_a_data_url(folder: Path):
    plan = DataFolder(folder).builder(made.name_of(5), made.chat_name(5)).build()
    assert '"data:image/png;base64,' in json.dumps(plan.to_request())


def test_the_same_folder_builds_texts(folder: Path, tmp_path: Path):
    for path in folder.iterdir():
        if path.name != "settings.json":
            (tmp_path / path.name).symlink_to(path)
    settings = made.settings() | {"main_api": "textgenerationwebui"}
    (tmp_path / "settings.json").write_text(json.dumps(settings), "utf-8")
    data = DataFolder(tmp_path)
    for index in range(0, made.CHATS, 7):
        plan = data.builder(made.name_of(index % made.CHARACTERS), made.chat_name(index)).build(message="Go on.")
        assert isinstance(plan, TextPlan)
        assert made.FEATURES[index % len(made.FEATURES)][1] in plan.prompt
        assert plan.counting_note.startswith("SillyTavern lets ooba count while it is connected; llama is used")


def test_every_group_builds_for_every_speaker(folder: Path):
    data = DataFolder(folder)
    for group_id in data.groups():
        group = data.group(group_id)
        for chat in data.group_chats(group_id):
            builder = data.builder(chat=chat, group=group_id)
            for member in group.members:
                plan = builder.build(speaker=member, message="Go on.", warn=None)
                assert plan.warnings == ()
                assert f"{Path(member).stem}" in prompt_of(plan)


def test_building_twice_gives_the_same(folder: Path):
    builders = [DataFolder(folder).builder(made.name_of(3), made.chat_name(3)) for _ in range(2)]
    first, second = (builder.build(message="Go on.", seed=1) for builder in builders)
    assert first.fingerprint() == second.fingerprint()


def test_what_runs_code_is_named_once(folder: Path, tmp_path: Path):
    for name in ("settings.json", "characters", "chats", "worlds"):
        (tmp_path / name).symlink_to(folder / name)
    (tmp_path / "extensions" / "Third-Party").mkdir(parents=True)
    (tmp_path / "QuickReplies").mkdir()
    reply = {"qrList": [{"label": "Rain", "executeBeforeGeneration": True}, {"label": "Dice"}]}
    (tmp_path / "QuickReplies" / "Auto.json").write_text(json.dumps(reply), "utf-8")
    (tmp_path / "QuickReplies" / "Bad.json").write_text("[]", "utf-8")
    log = WarningLog()
    data = DataFolder(tmp_path, warn=log)
    data.builder(made.name_of(0), made.chat_name(0))
    data.builder(made.name_of(0), made.chat_name(0))
    assert len(log.messages) == 3
    assert "Third-Party" in log.messages[0]
    assert log.messages[1].endswith("are not run here: Rain")
    assert "'Bad' cannot be read" in log.messages[2]


def test_what_was_found_and_is_not_used_is_listed(folder: Path):
    plan = DataFolder(folder).builder(made.name_of(0), made.chat_name(0)).build()
    assert any(each.kind == "data bank" for each in plan.omissions)
    assert "Vector Storage for files is switched off" in str(plan.explain())


def reasons(folder: Path, index: int) -> str:
    """What ``explain`` says of a chat's blocks."""
    name = made.name_of(index % made.CHARACTERS)
    return plan_reasons(DataFolder(folder).builder(name, made.chat_name(index)).build(message="Go on.", warn=None))


def plan_reasons(plan: object) -> str:
    assert isinstance(plan, ChatPlan)
    sources = [block.source for block in plan.blocks]
    return "\n".join(str(source["reason"]) for source in sources if is_mapping(source))


WHERE = {
    made.inject: "stored in the chat's header by /inject, in the chat at depth 1",
    made.lock: "above it: persona Zoe (zoe.png) of settings.json: the chat is locked to it, in the chat at depth 4",
    made.summary: "summary stored on message 1",
    made.note: "due every turn, from note_prompt of the chat's header",
    made.files: "message of the chat, with tide.txt (/user/files/tide.txt) in front",
    made.picture: "message of the chat, with /user/images/gull.png",
    made.reasoning: "message of the chat, with the reasoning stored on it",
    made.chat_book: "(constant) in Book 8, the chat's book",
    made.overrides: "scenario of the chat's header, instead of the card's",
}


@pytest.mark.parametrize("feature", WHERE, ids=[each.__name__ for each in WHERE])
def test_a_block_says_where_it_is_stored_and_why_it_is_there(folder: Path, feature: made.Feature):
    index = next(index for index, (each, _) in enumerate(made.FEATURES) if each is feature)
    assert WHERE[feature] in reasons(folder, index)


def test_a_block_says_whose_persona_book_and_note_it_is(folder: Path):
    assert "Book 3, the persona's book" in reasons(folder, 1)
    assert "Book 6, the character's book" in reasons(folder, 6)
    assert "due every turn, from Tomas Vale's own note in the settings" in reasons(folder, 4)
    assert "persona Mira (mira.png) of settings.json: the persona in use" in reasons(folder, 4)
    assert "below it: persona Ann (ann.png) of settings.json: connected to Wren Vale.png" in reasons(folder, 7)


def test_a_text_prompt_says_where_its_parts_are_stored(folder: Path, tmp_path: Path):
    for path in folder.iterdir():
        if path.name != "settings.json":
            (tmp_path / path.name).symlink_to(path)
    settings = made.settings() | {"main_api": "textgenerationwebui"}
    (tmp_path / "settings.json").write_text(json.dumps(settings), "utf-8")
    assert "scenario of the chat's header" in reasons(tmp_path, 9)
    assert "persona Mira (mira.png) of settings.json: the persona in use" in reasons(tmp_path, 9)
    assert "with tide.txt (/user/files/tide.txt) in front" in reasons(tmp_path, 4)
    name = made.name_of(5)
    plan = DataFolder(tmp_path).builder(name, made.chat_name(5)).build(message="Go on.")
    [media] = [each for each in plan.omissions if each.kind == "attachment"]
    assert (media.name, media.reason) == ("/user/images/gull.png", "text completion sends no media")


def unused(plan: object) -> dict[str, str]:
    assert isinstance(plan, ChatPlan)
    return {each.name or each.id: each.reason for each in plan.omissions if each.kind != "prompt"}


def test_what_is_stored_and_not_used_is_listed_with_the_reason(folder: Path, tmp_path: Path):
    for path in folder.iterdir():
        if path.name not in ("settings.json", "chats"):
            (tmp_path / path.name).symlink_to(path)
    settings = made.settings()
    settings["power_user"]["reasoning"] = {"add_to_prompts": False}
    settings["power_user"]["persona_description_position"] = 9
    settings["oai_settings"]["media_inlining"] = False
    stored = settings["extension_settings"]
    stored["note"]["chara"] = [{"name": made.name_of(6), "prompt": "Own note.", "useChara": False}]
    stored["disabled_attachments"] = ["/user/files/map.txt"]
    stored["character_attachments"] = {f"{made.name_of(6)}.png": [made.attachment("gone")]}
    stored["vectors"] = {"enabled_files": True}
    stored["disabledExtensions"] = ["memory"]
    stored["cfg"] = {"global": {"guidance_scale": 2, "negative_prompt": "No rain."}}
    (tmp_path / "settings.json").write_text(json.dumps(settings), "utf-8")
    lines = made.lines_of(6, made.name_of(6))
    for feature in (made.summary, made.reasoning, made.picture, made.hidden):
        feature({}, lines)
    metadata = {"note_prompt": "Mind the note.", "note_interval": 100, "persona": "gone.png"}
    text = "\n".join(json.dumps(each) for each in [made.header(metadata), *lines])
    write_bytes(tmp_path / "chats" / made.name_of(6) / "one.jsonl", text.encode())
    data = DataFolder(tmp_path)
    found = unused(data.builder(made.name_of(6), "one").build(message="Go on.", warn=None))
    users = sum(line["is_user"] for line in lines) + 1
    assert found == {
        "Summary": "the extension Summarize is switched off",
        "1 message": "hidden in the chat (is_system)",
        "the reasoning of 1 message": "the settings do not add it to prompts (reasoning.add_to_prompts)",
        "/user/images/gull.png": "the preset does not send media (media_inlining)",
        "Author's Note": f"the author's note is not due: {users} user messages, interval 100",
        f"{made.name_of(6)}'s own note": "it is switched off (useChara)",
        "Persona Description": "its position is none; {{persona}} still gives it",
        f"1 regex script (of {made.name_of(6)}) of the card": "they were not allowed",
        "gone.txt (/user/files/gone.txt)": "its text is not in the folder",
        "map.txt (/user/files/map.txt)": "switched off in the settings",
        "CFG prompts": "only text completion uses it",
    }
    reason = "the persona in use; the chat's lock to gone.png does not count, there is no such file in User Avatars"
    assert data.persona(made.name_of(6), "one").reason == reason


ODD = [
    {},
    [],
    [{}],
    {"url": {}},
    [{"url": {}, "name": 1}],
    [{"url": ["u"], "type": {}, "title": 3}],
    0,
    "x",
    None,
    True,
]


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("api", ["openai", "textgenerationwebui"])
def test_odd_values_in_a_folder_are_survived_and_explained(folder: Path, tmp_path: Path, odd: object, api: str):
    for path in folder.iterdir():
        if path.name not in ("settings.json", "chats"):
            (tmp_path / path.name).symlink_to(path)
    settings: dict[str, Any] = {**made.settings(), "main_api": api}
    keys = ("attachments", "character_attachments", "disabled_attachments", "cfg", "regex", "vectors", "memory", "note")
    settings["extension_settings"] |= dict.fromkeys(keys, odd)
    settings["extension_settings"]["vectors"] = {"enabled_files": True}
    settings["power_user"] |= {"reasoning": odd, "personas": odd, "persona_descriptions": odd, "default_persona": odd}
    (tmp_path / "settings.json").write_text(json.dumps(settings), "utf-8")
    lines = made.lines_of(6, made.name_of(6))
    for key in ("files", "file", "media", "image", "image_swipes", "reasoning", "title", "memory", "bias"):
        lines[1]["extra"][key] = odd
    metadata = {"persona": odd, "attachments": odd, "scenario": odd, "note_prompt": odd, "script_injects": odd}
    text = "\n".join(json.dumps(each) for each in [made.header(metadata), *lines])
    write_bytes(tmp_path / "chats" / made.name_of(6) / "one.jsonl", text.encode())
    data = DataFolder(tmp_path, warn=WarningLog())
    plan = data.builder(made.name_of(6), "one").build(message="Go on.", warn=None)
    assert "What of the well?" in prompt_of(plan)
    assert all(each.reason for each in plan.omissions)
    assert str(plan.explain())
