"""Sessions of the service as stores of conversations: both see the same chat, and neither overwrites the other."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tavernkit.cards import Character, to_bytes
from tavernkit.cards._png import placeholder_png
from tavernkit.conversation import Conversation, StoreConflictError, StoreError
from tavernkit.errors import ConfigError
from tavernkit.models import ModelError
from tavernkit.server import ServerConfig, SessionStore, create_app
from tavernkit.server.storage import chats, turns
from tavernkit.server.storage.lines import insert_lines, new_line
from tavernkit.testing import Disconnect, ScriptedModel, calls, failure, streamed, tool_call
from tests.server.conftest import Client, StartApp, running
from tests.server.databases import database_url

CARD = Character(
    name="Mira",
    description="Turn {{incvar::n}} of {{incglobalvar::all}}.",
    first_mes="Hello, {{user}}. {{setvar::greeted::1}}",
    alternate_greetings=("Welcome.",),
)
SCRIPT = ("One.", streamed("Two ", "and more."), failure(500, "down"), Disconnect(("Half ", "a")), "Five.", "Six.")


def place(client: Client) -> str:
    """Where the server keeps its data, as its user would say it."""
    config = client.service.config
    return str(config.data) if config.db is None else config.db.get_secret_value()


def opened(store: SessionStore, platform: str = "silly_tavern", **more: Any) -> Conversation:
    model = ScriptedModel(*SCRIPT * 20)
    more |= {"platform": platform, "inputs": {"seed": 3}}
    return Conversation.open(store, card=CARD, user="Ann", model=model, **more)


async def with_card(client: Client) -> None:
    made = await client.post("/api/characters", files={"file": ("mira.json", to_bytes(CARD, "json"))})
    assert made.status_code == 201, made.text


async def begun(client: Client, platform: str = "silly_tavern", session: str = "s") -> str:
    body = {"model": "mira", "session": session, "tavernkit": {"platform": platform}}
    made = await client.post("/api/sessions", json=body)
    assert made.status_code == 201, made.text
    return made.json()["id"]


async def messages(client: Client, session: str) -> list[Any]:
    return (await client.get(f"/api/sessions/{session}/messages")).json()["data"]


def told(lines: Any) -> list[tuple[bool, str]]:
    """Who said what, in the format of either platform."""
    return [
        (bool(line["is_user"]), line["mes"]) if "mes" in line else (line["role"] == "user", line["data"])
        for line in lines
    ]


def listed(answer: Any) -> list[tuple[bool, str]]:
    return [(line["role"] == "user", line["content"]) for line in answer]


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_a_session_continues_in_a_conversation_and_back(start: StartApp, platform: str) -> None:
    async with start(ScriptedModel("Of the server.", "Again.", "Another.", name="gpt-4o")) as client:
        await with_card(client)
        session = await begun(client, platform)
        base = f"/api/sessions/{session}"
        await client.post(f"{base}/messages", json={"content": "Hi {{setvar::x::7}}"})
        before = await messages(client, session)
        store = SessionStore(place(client), "s")
        chat = opened(store, platform)
        assert store.session_id == session
        assert told(chat.lines) == listed(before)
        assert (await chat.send("Who?")).text == "One."
        after = await messages(client, session)
        assert [each["id"] for each in after][: len(before)] == [each["id"] for each in before]
        assert listed(after)[len(before) :] == [(True, "Who?"), (False, "One.")]
        await client.post(f"{base}/messages", json={"content": "And you?"})
        assert listed(await messages(client, session))[-1] == (False, "Again.")
        variables = (await client.get(base)).json()["variables"]
        if platform == "silly_tavern":
            assert variables["x"] == "7"
            assert int(variables["n"]) == 3  # the greeting is no turn
        again = opened(SessionStore(place(client), session), platform)
        assert told(again.lines) == listed(await messages(client, session))


TEXTS = st.sampled_from(["Hi", "{{setvar::x::7}}{{getvar::x}}", "<think>a</think>Hm", "Ä\n\n*waves*"])
INDEXES = st.integers(-3, 3)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), TEXTS),
        st.tuples(st.sampled_from(["regenerate", "swipe", "continue_reply", "undo"])),
        st.tuples(st.just("swipe"), st.sampled_from(["left", "right"])),
        st.tuples(st.sampled_from(["delete", "delete_from", "hide", "unhide"]), INDEXES),
        st.tuples(st.just("edit"), INDEXES, TEXTS),
        st.tuples(st.just("choose_greeting"), st.integers(0, 1)),
        st.tuples(st.just("open again")),
    ),
    max_size=4,
)
REQUESTS = st.lists(
    st.one_of(
        st.tuples(st.just("messages"), TEXTS),
        st.tuples(st.sampled_from(["generate", "regenerate", "swipe", "continue"])),
        st.tuples(st.sampled_from(["delete", "hide"]), INDEXES),
        st.tuples(st.just("edit"), INDEXES, TEXTS),
    ),
    max_size=3,
)


def shown(line: Any) -> tuple[object, ...]:
    """What both ways show of a message: of one in a file, or of one in an answer of REST."""
    if "content" in line:
        swipes = (line["swipes"], line["swipe"]) if line["swipes"] else None
        return line["role"] == "user", line["content"], line["hidden"], swipes
    if "mes" in line:
        swipes = (line["swipes"], line["swipe_id"]) if line.get("swipes") else None
        return bool(line["is_user"]), line["mes"], bool(line.get("is_system")), swipes
    return line["role"] == "user", line["data"], bool(line.get("disabled")), None


def compare(chat: Conversation, found: list[Any], platform: str) -> None:
    expected = [shown(line) for line in chat.lines]
    if platform == "risu_ai":  # which keeps swipes outside of its chats
        found = [{**line, "swipes": None} for line in found]
    assert [shown(line) for line in found] == expected


async def operate(chat: Conversation, name: str, *arguments: Any) -> None:
    with suppress(ModelError, ConfigError):  # a model that fails, a line that is not there
        await getattr(chat, name)(*arguments)


async def request(client: Client, base: str, name: str, *arguments: Any) -> None:
    if name in ("messages", "generate", "regenerate", "swipe", "continue"):
        await client.post(f"{base}/{name}", json={"content": arguments[0]} if arguments else {})
        return
    lines = (await client.get(f"{base}/messages")).json()["data"]
    if not -len(lines) <= arguments[0] < len(lines):
        return
    path = f"{base}/messages/{lines[arguments[0]]['id']}"
    if name == "delete":
        await client.delete(path)
    else:
        await client.patch(path, json={"hidden": True} if name == "hide" else {"content": arguments[1]})


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_any_operations_on_either_side_are_seen_on_the_other(
    tmp_path_factory: pytest.TempPathFactory, platform: str
) -> None:
    async def check(rounds: list[tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]]) -> None:
        values = {"data": tmp_path_factory.mktemp("data"), **database_url()}
        app = create_app(ServerConfig.model_validate(values), upstream_models={"scripted": ScriptedModel(*SCRIPT * 50)})
        async with running(app) as client:
            await with_card(client)
            session = await begun(client, platform)
            base = f"/api/sessions/{session}"
            for operations, requests in rounds:
                chat = opened(SessionStore(place(client), "s"), platform)
                for operation in operations:
                    if operation[0] == "open again":
                        could_undo, before = chat.can_undo, [*chat.lines]
                        chat = opened(SessionStore(place(client), "s"), platform)
                        assert (chat.can_undo, [*chat.lines]) == (could_undo, before)
                        continue
                    await operate(chat, *operation)
                    compare(chat, await messages(client, session), platform)
                for each in requests:
                    await request(client, base, *each)
                seen = opened(SessionStore(place(client), "s"), platform)
                compare(seen, await messages(client, session), platform)

    @examples(max_examples=6, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.tuples(OPERATIONS, REQUESTS), max_size=3))
    def run(rounds: list[tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]]) -> None:
        asyncio.run(check(rounds))

    run()


async def test_what_changed_in_the_service_is_not_overwritten(start: StartApp) -> None:
    async with start(ScriptedModel("Of the server.", name="gpt-4o")) as client:
        await with_card(client)
        session = await begun(client)
        store = SessionStore(place(client), "s")
        chat = opened(store)
        await client.post(f"/api/sessions/{session}/messages", json={"content": "Hi"})
        with pytest.raises(StoreConflictError, match=r"'s' has changed in the service: .* open the conversation again"):
            await chat.send("Mine.")
        assert isinstance(chat.model, ScriptedModel)
        assert not chat.model.requests
        assert listed(await messages(client, session))[1:] == [(True, "Hi"), (False, "Of the server.")]
        await opened(store).send("Now.")
        assert listed(await messages(client, session))[-2:] == [(True, "Now."), (False, "One.")]


async def test_a_session_in_which_the_service_replies_is_not_saved(start: StartApp) -> None:
    async with start() as client:
        await with_card(client)
        session = await begun(client)
        chat = opened(SessionStore(place(client), "s"))
        async with client.service.database.write() as connection:
            stored = await chats.get_chat(connection, session)
            await chats.update_chat(connection, stored, turn_id="a turn", lease_until=time.time() + 60)
        with pytest.raises(StoreConflictError, match="the service is replying in the session 's'"):
            await chat.send("Mine.")
        assert len(await messages(client, session)) == 1


async def test_the_text_of_a_turn_that_died_is_there(start: StartApp) -> None:
    async with start() as client:
        await with_card(client)
        session = await begun(client)
        async with client.service.database.write() as connection:
            stored = await chats.get_chat(connection, session)
            line = new_line("user", "Hi", {"name": "Ann", "is_user": True, "mes": "Hi"})
            await insert_lines(connection, session, [replace(line, position=1)], now=time.time())
            await chats.update_chat(connection, stored, turn_id="dead", lease_until=1.0, next_position=2)
            values = {"session_id": session, "owner": stored.owner, "idempotency_key": None, "fingerprint": ""}
            await turns.begin_turn(connection, "dead", kind="normal", lease_until=1.0, message_id=line.id, **values)
            await turns.store_text_so_far(connection, "dead", [{"speaker": None, "text": "As far as"}])
        chat = opened(SessionStore(place(client), "s"))
        assert told(chat.lines)[-1] == (False, "As far as")
        await chat.send("Go on.")
        found = await messages(client, session)
        assert listed(found)[-3:] == [(False, "As far as"), (True, "Go on."), (False, "One.")]
        assert [line["status"] for line in found[-3:]] == ["partial", "complete", "complete"]


async def test_a_conversation_starts_a_session(start: StartApp) -> None:
    async with start(ScriptedModel("Of the server.", name="gpt-4o")) as client:
        await with_card(client)
        with pytest.raises(ConfigError, match=r"there is no session 'new': pass model="):
            await opened(SessionStore(place(client), "new")).send("Hi")
        with pytest.raises(StoreError, match="there is no character 'nobody'"):
            await opened(SessionStore(place(client), "new", model="nobody")).send("Hi")
        store = SessionStore(place(client), "new", model="mira")
        assert store.load() is None
        await opened(store).send("Hi")
        found = (await client.get("/api/sessions", params={"session": "new"})).json()["data"]
        assert [(each["id"], each["character"]) for each in found] == [(store.session_id, "mira")]
        reply = await client.post(f"/api/sessions/{store.session_id}/messages", json={"content": "More"})
        assert reply.json()["text"] == "Of the server."
        late = SessionStore(place(client), "later", model="mira")
        chat = opened(late)
        await opened(SessionStore(place(client), "later", model="mira")).send("First!")
        with pytest.raises(StoreConflictError, match="there is a session 'later'"):
            await chat.send("Me too.")


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_branches_are_sessions(start: StartApp, platform: str) -> None:
    async with start() as client:
        await with_card(client)
        session = await begun(client, platform)
        await client.patch(f"/api/sessions/{session}", json={"strategy": "cache"})
        chat = opened(SessionStore(place(client), "s"), platform)
        await chat.send("Hi")
        branches = [await chat.branch(0), await chat.branch(0)]
        names = [branch.store.name for branch in branches if isinstance(branch.store, SessionStore)]
        assert len({"s", *names}) == 3
        assert sorted(SessionStore(place(client), "s").names()) == sorted(["s", *names])
        for name, branch in zip(names, branches, strict=True):
            (found,) = (await client.get("/api/sessions", params={"session": name})).json()["data"]
            assert (found["character"], found["options"]) == ("mira", {"strategy": "cache"})
            assert listed(await messages(client, found["id"])) == told(branch.lines)


async def test_global_variables_are_those_of_the_service(start: StartApp) -> None:
    async with start(ScriptedModel("Of the server.", name="gpt-4o")) as client:
        await with_card(client)
        session = await begun(client)
        assert (await client.put("/api/variables", json={"kept": "1", "all": "4"})).is_success
        chat = opened(SessionStore(place(client), "s"))
        await client.put("/api/variables", json={"kept": "1", "all": "4", "late": "2"})
        await chat.send("Hi")
        assert (await client.get("/api/variables")).json() == {"kept": "1", "all": 5, "late": "2"}
        await client.post(f"/api/sessions/{session}/messages", json={"content": "Hi"})
        assert (await client.get("/api/variables")).json()["all"] == 6


async def test_calls_of_tools_stay(start: StartApp) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    for platform in ("silly_tavern", "risu_ai"):
        model = ScriptedModel(calls(tool_call("look", {}, id="call-1")), "A lamp.", "Later.", name="gpt-4o")
        async with start(model) as client:
            await with_card(client)
            body: dict[str, Any] = {"model": "mira", "tools": [tool]}
            body |= {"tavernkit": {"platform": platform, "session": f"of {platform}"}}
            said = [{"role": "user", "content": "Look!"}]
            reply = (await client.post("/v1/chat/completions", json={**body, "messages": said})).json()
            said += [reply["choices"][0]["message"]]
            said += [{"role": "tool", "tool_call_id": "call-1", "content": "a lamp"}]
            assert (await client.post("/v1/chat/completions", json={**body, "messages": said})).is_success
            store = SessionStore(place(client), f"of {platform}")
            chat = opened(store, platform)
            before = await messages(client, str(store.session_id))
            assert [line["role"] for line in before][-4:] == ["user", "assistant", "tool", "assistant"]
            await chat.send("And now?")
            after = await messages(client, str(store.session_id))
            assert after[-4 - 2 : -2] == before[-4:]
            assert listed(after)[-2:] == [(True, "And now?"), (False, "One.")]


async def test_replies_of_risuai_can_be_swiped_on_both_sides(start: StartApp) -> None:
    async with start(ScriptedModel("First.", "Second.", "Third.", name="gpt-4o")) as client:
        await with_card(client)
        session = await begun(client, "risu_ai")
        base = f"/api/sessions/{session}"
        await client.post(f"{base}/messages", json={"content": "Hi"})
        await client.post(f"{base}/swipe", json={})
        chat = opened(SessionStore(place(client), "s"), "risu_ai")
        assert (await chat.swipe("left")).text == "First."
        last = (await messages(client, session))[-1]
        assert (last["content"], last["swipes"], last["swipe"]) == ("First.", ["First.", "Second."], 0)
        await chat.swipe()
        await chat.swipe()
        last = (await messages(client, session))[-1]
        assert (last["content"], last["swipes"], last["swipe"]) == ("One.", ["First.", "Second.", "One."], 2)
        await client.put(f"{base}/messages/{last['id']}/swipe", json={"swipe": 1})
        assert opened(SessionStore(place(client), "s"), "risu_ai").lines[-1]["data"] == "Second."


async def test_pictures_of_risuai_are_seen_on_both_sides(start: StartApp, tmp_path: Path) -> None:
    picture = tmp_path / "red.png"
    picture.write_bytes(placeholder_png())
    model = ScriptedModel("Red.", name="gpt-4o")
    async with start(model) as client:
        await with_card(client)
        session = await begun(client, "risu_ai")
        await opened(SessionStore(place(client), "s"), "risu_ai").send("Look!", attachments=[picture])
        chat = opened(SessionStore(place(client), "s"), "risu_ai")
        await chat.edit(0, str(chat.lines[0]["data"]) + " Well?")
        await client.post(f"/api/sessions/{session}/messages", json={"content": "And?"})
        assert "data:image/png;base64" in json.dumps(model.requests[-1])
        await client.delete(f"/api/sessions/{session}")
        with pytest.raises(StoreConflictError, match="'s' was removed"):
            await chat.send("Hello?")


async def test_places_that_hold_no_service_are_refused(tmp_path: Path, start: StartApp) -> None:
    for wrong in (tmp_path / "nowhere", f"sqlite:///{tmp_path}/nowhere.db"):
        with pytest.raises(ConfigError, match="there is no database"):
            SessionStore(wrong, "s").load()
    (tmp_path / "other.db").touch()
    with pytest.raises(ConfigError, match="no tables of this version"):
        SessionStore(tmp_path / "other.db", "s").load()
    async with start() as client:
        for owner in ("local", "somebody else"):
            async with client.service.database.write() as connection:
                await chats.create_chat(connection, owner, "both", chats.Selection())
        with pytest.raises(ConfigError, match="several clients have a session 'both'"):
            SessionStore(place(client), "both").load()
        assert SessionStore(place(client), "both", owner="local").load() is not None


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_operations_are_undone_after_opening_again(start: StartApp, platform: str) -> None:
    async with start(ScriptedModel("Of the server.", name="gpt-4o")) as client:
        await with_card(client)
        session = await begun(client, platform)
        await opened(SessionStore(place(client), "s"), platform).send("Hi")
        await opened(SessionStore(place(client), "s"), platform).undo()
        assert len(await messages(client, session)) == (1 if platform == "silly_tavern" else 0)
        await opened(SessionStore(place(client), "s"), platform).send("Hi")
        await client.post(f"/api/sessions/{session}/messages", json={"content": "And now?"})
        assert not opened(SessionStore(place(client), "s"), platform).can_undo
