"""Talking to the character."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tavernkit.cards import Character
from tavernkit.models import ModelError, ScriptedModel
from tavernkit.models._scripted import Hang
from tavernkit.studio._api import _encode_events
from tavernkit.studio._api_types import EditIn, OpenIn
from tavernkit.studio._app import Opened, open_workspace
from tavernkit.studio._build_inputs import Inputs
from tavernkit.studio._changes import Edit
from tavernkit.studio._document import Document, new_document
from tavernkit.studio._shelf import FolderShelf, OpenedShelf, OpenRequest
from tavernkit.studio._studio import Studio
from tavernkit.studio._talk_models import Event, ModelChoice
from tavernkit.studio.errors import StudioError
from tests.studio.conftest import Page

OpenFiles = Callable[..., Page]
Events = list[tuple[str, Any]]


def turn(page: Page, kind: str = "send", text: str = "") -> Events:
    answer = page.client.post("/api/studio/talk/turn", json={"kind": kind, "text": text})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    found: Events = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n", 1)
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def roll(sides: int) -> int:
    """Roll a die."""
    return sides


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_a_reply_streams_and_is_an_undoable_edit_of_the_chat(page: Page, platform: str) -> None:
    page.edit("turn-1", "/platform", platform, build=False)
    page.post("/talk/model", model="scripted", script=["The lamp is out.", "It was you."])
    before = page.get("/talk")
    events = turn(page, text="Who put the lamp out?")
    assert "".join(data["text"] for name, data in events if name == "piece") == "The lamp is out."
    assert len([name for name, _ in events if name == "piece"]) > 2
    name, done = events[-1]
    assert name == "done"
    lines = done["talk"]["lines"]
    assert [line["text"] for line in lines[-2:]] == ["Who put the lamp out?", "The lamp is out."]
    assert [line["role"] for line in lines[-2:]] == ["user", "assistant"]
    assert [line["name"] for line in lines[-2:]] == ["Ann", "Aria"]
    assert done["edit"]["documents"]
    seen = page.get(f"/plans/{lines[-1]['plan']}")
    assert any("Who put the lamp out?" in message["content"] for message in seen["messages"])
    sources = page.post("/sources", plan=lines[-1]["plan"])
    assert sources["exact"]
    assert len(sources["messages"]) == len(seen["messages"])
    assert any(source["document"] == "card-1" for source in sources["sources"])
    page.post("/undo", build=False)
    assert [line["text"] for line in page.get("/talk")["lines"]] == [line["text"] for line in before["lines"]]


def test_swipes_regenerate_continue_impersonate_and_edit(page: Page) -> None:
    page.post("/talk/model", model="scripted", script=["One.", "Two.", "Three.", " More.", "I say this."])
    turn(page, text="Hello")
    swiped = turn(page, "swipe")[-1][1]["talk"]["lines"][-1]
    assert (swiped["text"], swiped["swipe"], swiped["swipes"]) == ("Two.", 1, 2)
    left = page.post("/talk/change", op="swipe_left")["talk"]["lines"][-1]
    assert (left["text"], left["swipe"]) == ("One.", 0)
    assert turn(page, "regenerate")[-1][1]["talk"]["lines"][-1]["text"] == "Three."
    assert turn(page, "continue")[-1][1]["talk"]["lines"][-1]["text"].startswith("Three.")
    count = len(page.get("/talk")["lines"])
    assert turn(page, "impersonate")[-1][1]["text"] == "I say this."
    assert len(page.get("/talk")["lines"]) == count
    edited = page.post("/talk/change", op="edit", index=-1, text="Mine.")
    assert edited["talk"]["lines"][-1]["text"] == "Mine."
    assert page.get("/documents/chat-1")["data"]["messages"][-1]["mes"] == "Mine."
    hidden = page.post("/talk/change", op="hide", index=count - 1)["talk"]["lines"][-1]
    assert hidden["hidden"]
    assert page.post("/talk/change", op="delete_from", index=2)["talk"]["lines"][-1]["index"] == 1
    assert page.post("/talk/change", 422, op="edit", index=99, text="x")["error"]["code"] == "no_such_line"


def test_an_edited_card_is_what_the_next_reply_sees(page: Page) -> None:
    turn(page, text="Hello")
    page.edit("card-1", "/data/description", "{{char}} keeps bees.", build=False)
    done = turn(page, text="And now?")[-1][1]
    seen = page.get(f"/plans/{done['plan']}")
    assert any("Aria keeps bees." in message["content"] for message in seen["messages"])
    assert any(message["content"] == "Hello" for message in seen["messages"])


def test_a_new_chat_begins_with_the_greeting_and_keeps_its_note(page: Page) -> None:
    page.edit("chat-1", "/messages", [], build=False)
    page.edit("turn-1", "/greeting", 1, build=False)
    page.edit("chat-1", "/header/chat_metadata/note_prompt", "Only rhymes.", build=False)
    greeting = page.get("/documents/card-1")["data"]["data"]["alternate_greetings"][0]
    assert page.get("/talk")["lines"][0]["text"][:20] == greeting[:20]
    done = turn(page, text="Hello")[-1][1]
    seen = page.get(f"/plans/{done['plan']}")
    assert any("Only rhymes." in message["content"] for message in seen["messages"])
    assert page.get("/documents/chat-1")["data"]["header"]["chat_metadata"]["note_prompt"] == "Only rhymes."


def test_a_branch_is_a_chat_of_its_own(page: Page) -> None:
    told = page.post("/talk/change", op="branch", index=1)
    assert len(told["talk"]["lines"]) == 2
    assert told["talk"]["chat"] != "chat-1"
    assert len(page.get("/documents/chat-1")["data"]["messages"]) > 2
    page.post("/undo", build=False)
    assert page.get("/talk")["chat"] == "chat-1"


def test_saving_writes_the_lines_that_were_said(open_files: OpenFiles, folder: Path) -> None:
    page = open_files()
    page.post("/talk/model", model="scripted", script=["Yes."])
    before = (folder / "chat.jsonl").read_bytes()
    turn(page, text="Is it cold?")
    assert (folder / "chat.jsonl").read_bytes() == before
    page.post("/documents/chat-1/save")
    lines = [json.loads(line) for line in (folder / "chat.jsonl").read_text("utf-8").splitlines()]
    assert [line["mes"] for line in lines[-2:]] == ["Is it cold?", "Yes."]
    assert lines[0]["chat_metadata"]["note_prompt"] == "Keep replies under two hundred words."


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_a_group_talks_in_rounds(page: Page, platform: str) -> None:
    luna = Character(name="Luna", description="A moth.", first_mes="Hm.", version="v2").to_card()
    page.post("/documents", kind="card", name="Luna", build=False)
    page.edit("card-2", "", luna, build=False)
    page.edit("turn-1", "/members", ["card-1", "card-2"], build=False)
    built = page.edit("turn-1", "/platform", platform)["build"]
    assert built["error"] is None
    page.post("/talk/model", model="scripted", script=["I speak.", "So do I."])
    told = page.get("/talk")
    assert [member["name"] for member in told["group"]] == ["Aria", "Luna"]
    events = turn(page, text="Aria, Luna: who are you?")
    done = events[-1][1]
    said = [line["text"] for line in done["talk"]["lines"] if line["role"] == "assistant"]
    # In RisuAI chance decides who speaks up.
    assert said[-2:] == ["I speak.", "So do I."] if platform == "silly_tavern" else said[-1] in ("I speak.", "So do I.")
    replies: dict[int, str] = {}
    for name, data in events:
        if name == "piece":
            replies[data["reply"]] = replies.get(data["reply"], "") + data["text"]
    assert [*replies.values()] == said[-len(replies) :]
    spoken = turn(page, "speak", "Luna")[-1]
    assert spoken[0] == "done"
    if platform == "silly_tavern":
        assert spoken[1]["talk"]["lines"][-1]["name"] == "Luna"


def test_tools_are_called_and_shown() -> None:
    page = Page(Studio(open_workspace(Opened()), tools=[roll]))
    assert page.get("/talk")["tools"] == ["roll"]
    page.post("/talk/model", model="scripted", script=['!roll {"sides": 6}', "A six."])
    events = turn(page, text="Roll!")
    assert ("tool", {"name": "roll", "arguments": '{"sides": 6}', "result": "6", "failed": False}) in events
    assert events[-1][1]["talk"]["lines"][-1]["text"] == "A six."


def test_a_model_that_fails_is_an_event_and_what_was_said_stays() -> None:
    failing = ModelChoice(id="bad", label="Bad", make=lambda: ScriptedModel(ModelError("no such model")))
    page = Page(Studio(open_workspace(Opened()), models=[failing]))
    assert page.get("/workspace")["model"] == "bad"
    name, data = turn(page, text="Hello?")[-1]
    assert name == "error"
    assert "no such model" in data["error"]["message"]
    assert data["talk"]["lines"][-1]["text"] == "Hello?"
    assert not data["talk"]["busy"]
    assert page.post("/talk/model", 422, model="other")["error"]["code"] == "unknown_model"


async def test_a_reply_can_be_stopped_and_what_has_arrived_is_kept() -> None:
    hanging = ModelChoice(id="slow", label="Slow", make=lambda: ScriptedModel(Hang(after=("Well", " then"))))
    studio = Studio(open_workspace(Opened()), models=[hanging])
    found: Events = []
    pieces = 0
    stopping: asyncio.Task[bool] | None = None
    async for name, data in studio.talk.turn("send", "Hello?"):
        found.append((name, data))
        pieces += name == "piece"
        if pieces == 2 and name == "piece":
            with pytest.raises(Exception, match="still coming"):
                studio.talk.check_free()
            stopping = asyncio.create_task(studio.talk.stop())
    assert stopping is not None
    assert await stopping
    name, after = found[-1]
    assert name == "stopped"
    assert after["talk"]["lines"][-1]["text"] == "Well then"
    assert after["talk"]["lines"][-1]["plan"]


async def test_what_is_edited_during_a_reply_is_kept_and_so_is_the_reply() -> None:
    hanging = ModelChoice(id="slow", label="Slow", make=lambda: ScriptedModel(Hang(after=("Well", " then"))))
    studio = Studio(open_workspace(Opened()), models=[hanging])
    chat = studio.workspace.state.one("chat")
    assert chat is not None
    pieces = 0
    stopping: asyncio.Task[bool] | None = None
    async for name, _data in studio.talk.turn("send", "Hello?"):
        pieces += name == "piece"
        if stopping is None and pieces == 2:
            edit = EditIn(document="card-1", op="replace", path="/data/description", value="Keeps bees.")
            studio.edit([edit])
            # Another view asks for the chat, and another chat is opened.
            described: Any = studio.talk.describe()
            assert (described["busy"], described["lines"][-1]["text"]) == (True, "Hello?")
            studio.workspace.add(new_document("", "chat", "Other", chat.data, format_=chat.format))
            for refused in (
                lambda: studio.edit([EditIn(document=chat.id, op="replace", path="/messages", value=[])]),
                studio.undo,
                studio.redo,
                lambda: studio.remove(chat.id),
            ):
                with pytest.raises(StudioError, match="still coming"):
                    refused()
            with pytest.raises(StudioError, match="still coming"):
                await studio.reload(chat.id)
            stopping = asyncio.create_task(studio.talk.stop())
    assert stopping is not None
    assert await stopping
    kept: Any = studio.workspace.document(chat.id).data
    assert [line["mes"] for line in kept["messages"]][-2:] == ["Hello?", "Well then"]
    other = studio.workspace.state.one("chat")
    assert other is not None
    assert (other.name, other.data) == ("Other", chat.data)
    card: Any = studio.workspace.document("card-1").data
    assert card["data"]["description"] == "Keeps bees."


async def test_of_two_turns_at_once_the_second_is_refused_in_its_stream() -> None:
    """Both were asked for before either had begun."""
    hanging = ModelChoice(id="slow", label="Slow", make=lambda: ScriptedModel(Hang(after=("Well", " then"))))
    studio = Studio(open_workspace(Opened()), models=[hanging])
    first, second = (_encode_events(studio.talk.turn("send", text)) for text in ("One", "Two"))
    assert (await anext(first)).startswith(b"event: piece")
    (refused,) = [event async for event in second]
    name, data = refused.decode().strip().split("\n")
    assert (name, json.loads(data.removeprefix("data: "))["error"]["code"]) == ("event: error", "busy")
    await first.aclose()


async def test_nothing_else_is_opened_when_a_reply_begins_meanwhile() -> None:
    """The ids of documents are the same everywhere: the reply would end in the other chat."""
    hanging = ModelChoice(id="slow", label="Slow", make=lambda: ScriptedModel(Hang(after=("Well", " then"))))
    other = open_workspace(Opened())
    other.document("chat-1")
    events: AsyncGenerator[Event] | None = None

    class Slowly(FolderShelf):
        async def open(self, wanted: OpenRequest) -> OpenedShelf:
            nonlocal events
            events = studio.talk.turn("send", "Hello?")
            await anext(events)
            return OpenedShelf(other, Inputs())

    studio = Studio(open_workspace(Opened()), models=[hanging], shelf=Slowly.__new__(Slowly))
    with pytest.raises(StudioError, match="still coming"):
        await studio.open(OpenIn())
    assert events is not None
    await events.aclose()
    assert studio.workspace is not other
    assert other.document("chat-1").saved


async def test_what_is_saved_is_marked_where_it_was_opened() -> None:
    opened, other = (open_workspace(Opened()) for _ in range(2))
    card = opened.document("card-1")
    opened.state = replace(opened.state, documents={**opened.state.documents, "card-1": replace(card, item="x/y")})

    class Slowly(FolderShelf):
        async def write(self, document: Document, content: bytes, *, overwrite: bool = False) -> str | None:
            studio.workspace = other
            return None

    studio = Studio(opened, shelf=Slowly.__new__(Slowly))
    opened.edit([Edit(document="card-1", op="replace", path="/data/name", value="Changed")])
    await studio.save("card-1")
    assert opened.document("card-1").saved
    assert other.document("card-1").original == other.document("card-1").data


async def test_one_model_serves_all_conversations_until_another_is_chosen() -> None:
    made: list[Closing] = []

    class Closing(ScriptedModel):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    def make() -> Closing:
        made.append(Closing("Well.", repeat_last=True))
        return made[-1]

    studio = Studio(open_workspace(Opened()), models=[ModelChoice(id="m", label="M", make=make)])
    for name in ("One", "Two"):
        studio.edit([EditIn(document="card-1", op="replace", path="/data/name", value=name)])
        assert [event async for event, _ in studio.talk.turn("send", "Hello?")][-1] == "done"
    assert [each.closed for each in made] == [False]
    await studio.talk.choose("scripted", None)
    assert made[0].closed


def test_keys_never_reach_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    from tavernkit.models import model

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    choice = ModelChoice(id="openai:gpt-4o", label="openai:gpt-4o", make=lambda: model("openai:gpt-4o"))
    page = Page(Studio(open_workspace(Opened()), models=[choice]))
    page.get("/talk")
    for path in ("/workspace", "/talk"):
        assert "sk-secret" not in page.client.get(f"/api/studio{path}").text
    plan = page.post("/build")["plan"]
    assert "sk-secret" not in json.dumps(page.post("/request", plan=plan, reference=True))


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_another_greeting_is_chosen_and_lines_are_deleted_from_one_on(page: Page, platform: str) -> None:
    page.edit("turn-1", "/platform", platform, build=False)
    assert page.get("/talk")["greeting"] is None or platform == "risu_ai"
    page.post("/talk/change", op="delete_from", index=2)
    assert len(page.get("/talk")["lines"]) == 2
    page.post("/talk/change", op="delete_from", index=0)
    # A chat without lines begins with a greeting: as its first line, or before its lines in RisuAI.
    told = page.get("/talk")
    assert told["greeting"]["chosen"] == 0
    assert len(told["greeting"]["choices"]) > 1
    chosen = page.post("/talk/change", op="greeting", index=1)["talk"]
    assert chosen["greeting"]["chosen"] == 1
    shown = chosen["greeting"]["text"] if platform == "risu_ai" else chosen["lines"][0]["text"]
    assert shown[:20] == told["greeting"]["choices"][1][:20]
    page.post("/talk/model", model="scripted", script=["Well met."])
    turn(page, text="Hello.")
    after = page.get("/talk")
    assert [line["text"] for line in after["lines"]][-2:] == ["Hello.", "Well met."]
    seen = page.get(f"/plans/{after['lines'][-1]['plan']}")
    assert any(shown[:20] in message["content"] for message in seen["messages"])


def test_only_what_talk_did_is_offered_to_be_taken_back(page: Page) -> None:
    assert not page.get("/talk")["can_undo"]
    page.post("/talk/change", op="delete", index=0)
    assert page.get("/talk")["can_undo"]
    page.edit("card-1", "/data/description", "Keeps bees.", build=False)
    assert not page.get("/talk")["can_undo"]
