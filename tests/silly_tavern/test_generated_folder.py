"""A whole data folder: every chat of it builds, with what it carries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tavernkit.errors import WarningLog
from tavernkit.silly_tavern import ChatPlan, DataFolder, TextPlan
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
        assert plan.counting_note == ""


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
