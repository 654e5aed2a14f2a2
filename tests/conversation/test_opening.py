"""Conversations of files: both platforms, every kind of turn, what is saved and what goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tavernkit as tk
from tavernkit.cards import Character
from tavernkit.conversation import Conversation, FileStore, MemoryStore, SqliteStore
from tavernkit.errors import WarningLog
from tavernkit.examples import example_path
from tavernkit.silly_tavern import ChatFile, Group, WorldBook
from tavernkit.testing import ScriptedModel, calls, failure, streamed, tool_call

BOTH = pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
SUFFIX = {"silly_tavern": ".jsonl", "risu_ai": ".json"}


def card(**fields: object) -> Character:
    return Character(name="Aria", first_mes="Hello, {{user}}.", **fields)  # pyright: ignore[reportArgumentType]


def prompts(model: ScriptedModel) -> list[str]:
    return [json.dumps(request["messages"]) for request in model.requests]


def texts(chat: Conversation) -> list[object]:
    return [line.get("mes", line.get("data")) for line in chat.lines]


@BOTH
async def test_files_are_enough(tmp_path: Path, platform) -> None:
    path = tmp_path / f"aria{SUFFIX[platform]}"
    model = ScriptedModel("First.", streamed("Sec", "ond."))
    async with Conversation.open(
        path, card=example_path("aria.json"), books=[example_path("tidewatch.json")],
        preset=example_path("preset.json"), user="Ann", model=model, platform=platform,
    ) as chat:  # fmt: skip
        turn = await chat.send("Who lit the lamp?")
        assert turn.text == "First."
        assert [piece.text async for piece in chat.stream("And then?") if piece.text] == ["Sec", "ond."]
    assert "Who lit the lamp?" in prompts(model)[0]
    assert "Ann" in prompts(model)[0]
    assert "First." in prompts(model)[1]
    again = Conversation.open(path, card=example_path("aria.json"), user="Ann", platform=platform)
    assert texts(again) == texts(chat)
    assert texts(again)[-4:] == ["Who lit the lamp?", "First.", "And then?", "Second."]


async def test_variables_and_timed_lore_are_the_conversations_own(tmp_path: Path) -> None:
    """What a chat of one build per turn gets wrong: counters, sticky entries, the header."""
    book = WorldBook.from_json(
        {"entries": {"0": {"uid": 0, "key": ["dragon"], "content": "Dragons are blue.", "sticky": 5, "position": 0}}},
        name="lore",
    )
    aria = card(description="Turn {{incvar::n}} of {{incglobalvar::all}}.")
    path = tmp_path / "aria.jsonl"
    model = ScriptedModel("a", "b", "c", repeat_last=True)

    def opened() -> Conversation:
        return Conversation.open(path, card=aria, books=[book], user="Ann", model=model)

    await opened().send("A dragon!")
    await opened().send("Hm.")
    chat = opened()
    await chat.send("Hm.")
    assert [
        "Turn 1 of 1" in prompts(model)[0],
        "Turn 2 of 2" in prompts(model)[1],
        "Turn 3 of 3" in prompts(model)[2],
    ] == [True] * 3
    assert all("Dragons are blue." in prompt for prompt in prompts(model))
    saved = ChatFile.load(path)
    assert saved.metadata.variables["n"] == 3
    assert "lore.0" in json.dumps(saved.metadata.to_json()["timedWorldInfo"])
    assert json.loads((tmp_path / "aria.state.json").read_text())["global_variables"] == {"all": 3}


async def test_unknown_keys_of_a_chat_file_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [
        {
            "user_name": "Ann",
            "character_name": "Aria",
            "create_date": "x",
            "chat_metadata": {"mine": {"a": 1}},
            "odd": 1,
        },
        {"name": "Aria", "is_user": False, "mes": "Hi.", "extra": {"mine": 2}, "strange": [3]},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    await Conversation.open(path, card=card(), model=ScriptedModel("Yes.")).send("Hello?")
    header, first, *_ = map(json.loads, path.read_text().split("\n"))
    assert (header["odd"], header["create_date"], header["chat_metadata"]["mine"]) == (1, "x", {"a": 1})
    assert (first["strange"], first["extra"]["mine"]) == ([3], 2)


@BOTH
async def test_every_kind_of_turn(platform) -> None:
    model = ScriptedModel("One.", "Two.", "Three.", " and more", "Me.", "Quietly.")
    chat = Conversation.open(card=card(alternate_greetings=("Hey.",)), user="Ann", model=model, platform=platform)
    await chat.choose_greeting(1)
    await chat.send("Hi")
    assert (await chat.swipe()).text == "Two."
    assert (await chat.swipe("left")).text == "One."
    assert (await chat.regenerate()).text == "Three."
    await chat.continue_reply()
    assert " and more" in str(texts(chat)[-1])
    assert (await chat.impersonate()).text == "Me."
    assert (await chat.quiet("What is the weather?")).text == "Quietly."
    assert "What is the weather?" in prompts(model)[-1]
    count = len(chat.lines)
    assert "Would I?" in json.dumps([each.content for each in chat.preview("Would I?").messages])
    await chat.edit(-1, "Edited.")
    await chat.hide(-1)
    assert "Edited." not in json.dumps([each.content for each in chat.preview("?").messages])
    await chat.unhide(-1)
    branch = await chat.branch(-1)
    assert "Edited." in map(str, texts(branch))
    await chat.delete(-1)
    assert len(chat.lines) == count - 1
    assert await chat.undo()
    assert texts(chat)[-1] == "Edited."
    await chat.delete_from(-1)
    assert len(chat.lines) == count - 1


@BOTH
async def test_a_greeting_is_chosen_when_the_chat_begins(platform) -> None:
    aria = card(alternate_greetings=("Hey, {{user}}.",))
    chat = Conversation.open(card=aria, user="Ann", greeting=1, platform=platform)
    assert "Hey, Ann." in json.dumps([each.content for each in chat.preview("Hi").messages])


@BOTH
async def test_any_store_will_do(tmp_path: Path, platform) -> None:
    for store in (MemoryStore(), SqliteStore(tmp_path / "chats.db", "aria"), FileStore(tmp_path / "a.chat")):
        await Conversation.open(store, card=card(), model=ScriptedModel("One."), platform=platform).send("Hi")
        assert texts(Conversation.open(store, card=card(), platform=platform))[-2:] == ["Hi", "One."]


@BOTH
async def test_a_group_takes_turns(platform) -> None:
    model = ScriptedModel("I am A.", "I am B.", "B again.")
    group = Group(activation_strategy="list") if platform == "silly_tavern" else None
    chat = Conversation.open(
        card=None, members=[Character(name="Anna"), Character(name="Berta")], group=group, user="Ann",
        model=model, platform=platform, inputs={"seed": 3},
    )  # fmt: skip
    await chat.send("Anna and Berta speak")
    assert len(model.requests) == 2
    assert len(chat.lines) == 3
    assert (await chat.speak("Berta")).text == "B again."


@BOTH
async def test_nobody_is_told_to_speak_outside_a_group(platform) -> None:
    model = ScriptedModel()
    chat = Conversation.open(card=card(), user="Ann", model=model, platform=platform)
    with pytest.raises(tk.ConfigError, match="group"):
        await chat.speak("Berta")
    assert model.requests == []


async def test_tools_are_lines_of_the_chat(tmp_path: Path) -> None:
    def roll(sides: int) -> str:
        """Roll a die."""
        return f"You rolled {sides}."

    model = ScriptedModel(calls(tool_call("roll", {"sides": 6})), "Six!", "Yes.")
    path = tmp_path / "a.jsonl"
    chat = Conversation.open(path, card=card(), model=model, tools=[roll])
    assert (await chat.send("Roll!")).text == "Six!"
    assert '"properties": {"sides": {"type": "integer"}}' in json.dumps(model.requests[0]["tools"])
    await Conversation.open(path, card=card(), model=model, tools=[roll]).send("Really?")
    assert "You rolled 6." in prompts(model)[2]


@BOTH
async def test_the_users_message_stays_when_the_model_fails(tmp_path: Path, platform) -> None:
    path = tmp_path / f"a{SUFFIX[platform]}"
    chat = Conversation.open(
        path, card=card(), model=ScriptedModel(failure(400, "no"), repeat_last=True), platform=platform
    )
    with pytest.raises(tk.ModelError):
        await chat.send("Hi")
    assert texts(Conversation.open(path, card=card(), platform=platform))[-1] == "Hi"


@BOTH
def test_mistakes_are_explained(tmp_path: Path, platform) -> None:
    with pytest.raises(tk.ConfigError, match="pass card="):
        Conversation.open(platform=platform)
    with pytest.raises(tk.ConfigError, match="must end in"):
        Conversation.open("a.txt", card=card(), platform=platform)
    with pytest.raises(tk.ConfigError, match="books must be a list"):
        Conversation.open(card=card(), books="a.json", platform=platform)
    with pytest.raises(tk.ConfigError, match="model"):
        Conversation.open(card=card(), model="gpt-4o", platform=platform)  # pyright: ignore[reportArgumentType]
    with pytest.raises(tk.ConfigError, match="platform"):
        Conversation.open(card=card(), platform="other")  # pyright: ignore[reportArgumentType]
    with pytest.raises(tk.ConfigError, match="card"):
        Conversation.open(card=3, platform=platform)  # pyright: ignore[reportArgumentType]


@BOTH
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"members": "aria.json"}, "members must be a list"),
        ({"group": "group.json"}, "members="),
        ({"persona": 5}, "persona must be text"),
        ({"preset": {}}, "preset must be the file of a preset, or a loaded one"),
        ({"settings": {}}, "settings must be the file of the settings"),
        ({"allow_scripts": "yes"}, "allow_scripts must be True or False"),
        ({"greeting": "1"}, "greeting must be a whole number"),
        ({"tools": len}, "a list of functions and toolsets"),
        ({"options": "temperature"}, "options must be a mapping"),
        ({"inputs": 5}, "inputs must be a mapping"),
        ({"undo_limit": -1}, "undo_limit must be 0 or more"),
    ],
)
def test_arguments_of_the_wrong_kind_say_what_to_pass(platform, given: dict[str, Any], told: str) -> None:
    with pytest.raises(tk.ConfigError, match=told):
        Conversation.open(card=card(), platform=platform, **given)


def test_greetings_of_risuai_start_again_beyond_the_last_one() -> None:
    for greeting, text in ((0, "Hello, Ann."), (1, "You again."), (2, "Hello, Ann.")):
        chat = Conversation.open(
            card=card(alternate_greetings=("You again.",)), user="Ann", greeting=greeting, platform="risu_ai"
        )
        assert chat.preview("Hi").messages[-2].content == text
    with pytest.raises(tk.ConfigError, match="greeting=0 or more"):
        Conversation.open(card=card(), greeting=-1, platform="risu_ai")


@BOTH
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, platform) -> None:
    path = tmp_path / f"a{SUFFIX[platform]}"
    path.write_text("this is a shopping list\n")
    with pytest.raises(tk.FileFormatError):
        Conversation.open(path, card=card(), platform=platform, warn=WarningLog())
    assert path.read_text() == "this is a shopping list\n"


async def test_a_damaged_chat_is_copied_before_it_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    damaged = (
        '{"chat_metadata":{}}\n{"name":"Aria","mes":"Hi."}\n"not a line"\n{"name":"Ann","is_user":true,"mes":"Yes"}'
    )
    path.write_text(damaged)
    warnings = WarningLog()
    await Conversation.open(path, card=card(), warn=warnings).edit(0, "Hello.")
    assert (tmp_path / "a (damaged).jsonl").read_text() == damaged
    assert any("a copy of it is kept" in message for message in warnings.messages)


async def test_tools_work_in_chats_of_risuai(tmp_path: Path) -> None:
    def roll(sides: int) -> str:
        """Roll dice."""
        return f"{sides} is up"

    model = ScriptedModel(calls(tool_call("roll", {"sides": 6})), "Six!", "Yes.")
    path = tmp_path / "chat.json"
    chat = Conversation.open(path, card=card(), model=model, tools=[roll], platform="risu_ai")
    turn = await chat.send("Roll!")
    assert turn.text.startswith("<tool_call>")
    assert turn.text.endswith("Six!")
    assert '"properties": {"sides": {"type": "integer"}}' in json.dumps(model.requests[0]["tools"])
    await chat.send("Sure?")
    told = json.dumps(model.requests[-1]["messages"])
    assert "6 is up" in told
    assert "<tool_call>" not in told


async def test_a_stored_seed_may_be_any_text() -> None:
    store = MemoryStore()
    async with Conversation.open(store, card=card(), model=ScriptedModel("a"), platform="risu_ai") as chat:
        await chat.send("Hi")
    assert store.saved is not None
    store.saved.state["seed"] = "\ud800"
    async with Conversation.open(
        store, card=card(description="{{roll::6}}"), model=ScriptedModel("b"), platform="risu_ai"
    ) as again:
        assert (await again.send("Ho")).text == "b"
