"""Sessions in the way of RisuAI."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tavernkit.examples import example_path
from tavernkit.models._scripted import Disconnect
from tavernkit.testing import ScriptedModel, calls, failure, streamed, tool_call
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"
RISU = {"platform": "risu_ai"}
TOOLS = [{"type": "function", "function": {"name": "roll", "parameters": {"type": "object"}}}]
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def says(text: str, **more: object) -> dict[str, object]:
    body: dict[str, object] = {"model": "aria", "messages": [{"role": "user", "content": text}], "tavernkit": RISU}
    return {**body, **more}


async def session(client: Client) -> str:
    made = await client.post("/api/sessions", json={"model": "aria", "session": "s", "tavernkit": RISU})
    assert made.status_code == 201, made.text
    return f"/api/sessions/{made.json()['id']}"


async def messages(client: Client, path: str) -> list[dict[str, Any]]:
    return (await client.get(f"{path}/messages")).json()["data"]


async def test_books_that_a_request_names_are_used(start: StartApp) -> None:
    book = {"entries": {"0": {"uid": 0, "key": ["zebra"], "content": "Zebras rule the coast.", "order": 1}}}
    model = ScriptedModel("one", "two")
    async with start(model) as client:
        await client.post("/api/books", files={"file": ("Zoo.json", json.dumps(book))})
        await client.post(CHAT, json=says("A zebra!"))
        await client.post(CHAT, json=says("A zebra!", tavernkit={**RISU, "books": ["zoo"]}))
        build = {"model": "aria", "tavernkit": {**RISU, "books": ["zoo"]}}
        built = await client.post("/api/build", json={**build, "messages": [{"role": "user", "content": "zebra"}]})
    assert "Zebras rule" not in json.dumps(model.requests[0])
    assert "Zebras rule" in json.dumps(model.requests[1])
    assert "Zebras rule" in json.dumps(built.json()["request"])


async def test_modules_that_the_card_or_the_chat_names_are_used(start: StartApp) -> None:
    def module(name: str) -> dict[str, object]:
        entry = {"key": "", "comment": name, "content": f"The rule of {name}.", "mode": "normal", "alwaysActive": True}
        return {
            "type": "risuModule",
            "module": {"id": f"id-{name}", "name": name, "lorebook": [entry]},
        }

    model = ScriptedModel("one", "two", "three")
    async with start(model) as client:
        path = await session(client)
        await client.post(f"{path}/messages", json={"content": "hi"})
        for name in ("tides", "winds"):
            made = await client.post("/api/modules", files={"file": (f"{name}.json", json.dumps(module(name)))})
            assert made.status_code == 201, made.text
        await client.post(f"{path}/messages", json={"content": "hi"})
        details = (await client.get(path)).json()["details"]
        await client.patch(path, json={"details": {**details, "modules": ["id-tides"]}})
        await client.post(f"{path}/messages", json={"content": "hi"})
    prompts = [json.dumps(request) for request in model.requests]
    assert ["rule of tides" in prompt for prompt in prompts] == [False, False, True]
    assert "rule of winds" not in prompts[2]


async def test_a_module_beside_the_card_is_used(start: StartApp) -> None:
    card = json.loads(example_path("aria.json").read_text())
    script = {"comment": "", "in": "dog", "out": "wolf", "type": "editoutput", "flag": "g", "ableFlag": True}
    card["data"].setdefault("extensions", {})["risuai"] = {"customScripts": [script]}
    async with start(ScriptedModel("a dog")) as client:
        await client.put("/api/characters/aria", files={"file": ("aria.json", json.dumps(card))})
        reply = (await client.post(CHAT, json=says("hi"))).json()
    assert reply["choices"][0]["message"]["content"] == "a wolf"


async def test_the_model_writes_for_the_user(start: StartApp) -> None:
    model = ScriptedModel("one", "I would go.")
    async with start(model) as client:
        path = await session(client)
        await client.post(f"{path}/messages", json={"content": "hi"})
        before = await messages(client, path)
        reply = (await client.post(f"{path}/impersonate", json={})).json()
        assert await messages(client, path) == before
    assert (reply["text"], reply["message_id"]) == ("I would go.", None)
    sent: Any = model.requests[1]["messages"]
    assert "next message of User" in sent[-1]["content"]


async def test_what_a_client_says_as_the_system_stands_before_the_prompt(start: StartApp) -> None:
    model = ScriptedModel("ok")
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two"},
        {"role": "user", "content": "Three"},
    ]
    async with start(model) as client:
        assert (await client.post(CHAT, json=says("", messages=history))).status_code == 200
        body = {"model": "aria", "messages": history, "tavernkit": RISU}
        built = (await client.post("/api/build", json=body)).json()
    for sent in (model.requests[0]["messages"], built["request"]["messages"]):
        texts = [message["content"] for message in loose(sent)]
        assert texts[0] == "Be brief."
        assert texts[-3:] == ["One", "Two", "Three"]


def loose(value: object) -> Any:
    return value


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_tools_are_called_and_answered(start: StartApp, stored: bool, stream: bool) -> None:
    model = ScriptedModel(calls(tool_call("roll", {"sides": 6}, id="c1")), "You rolled a 4.", "Again?")
    more: dict[str, object] = {"user": "s"} if stored else {}
    async with start(model) as client:
        first = await client.post(CHAT, json=says("Roll!", tools=TOOLS, stream=stream, **more))
        assert first.status_code == 200, first.text
        assert "roll" in first.text
        call = {"role": "assistant", "content": None, "tool_calls": [tool_call("roll", {"sides": 6}, id="c1")]}
        history = [{"role": "user", "content": "Roll!"}, call, {"role": "tool", "tool_call_id": "c1", "content": "4"}]
        second = (await client.post(CHAT, json=says("", messages=history, tools=TOOLS, **more))).json()
        assert second["choices"][0]["message"]["content"] == "You rolled a 4."
        if stored:
            await client.post(CHAT, json=says("More", **more))
            path = f"/api/sessions/{second['tavernkit']['session_id']}"
            kept = await messages(client, path)
            assert [each["role"] for each in kept] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
            assert kept[1]["tool_calls"][0]["id"] == kept[2]["tool_call_id"] == "c1"
            assert (await client.delete(f"{path}/messages/{kept[2]['id']}")).status_code == 204
    sent: Any = model.requests[1]["messages"]
    assert sent[-2]["tool_calls"][0]["function"]["name"] == "roll"
    assert sent[-1] == {"role": "tool", "content": "4", "tool_call_id": "c1"}
    assert any(message["content"] == "Roll!" for message in sent)


async def test_replies_are_swiped_picked_edited_and_continued(start: StartApp) -> None:
    async with start(ScriptedModel("one", "two", "three", "and on")) as client:
        path = await session(client)
        await client.post(f"{path}/messages", json={"content": "hi"})
        for _ in range(2):
            swiped = await client.post(f"{path}/swipe", json={})
            assert swiped.status_code == 200, swiped.text
        last = (await messages(client, path))[-1]
        assert (last["content"], last["swipes"], last["swipe"]) == ("three", ["one", "two", "three"], 2)
        picked = (await client.put(f"{path}/messages/{last['id']}/swipe", json={"swipe": 1})).json()
        assert (picked["content"], picked["swipe"]) == ("two", 1)
        await client.patch(f"{path}/messages/{last['id']}", json={"content": "2"})
        await client.post(f"{path}/continue", json={})
        last = (await messages(client, path))[-1]
    assert last["swipes"][0::2] == ["one", "three"]
    assert last["swipes"][1] == last["content"]
    assert last["content"].startswith("2")


async def test_a_regenerated_reply_is_a_whole_new_one(start: StartApp) -> None:
    async with start(ScriptedModel(Disconnect(after=["Once "]), "Better.")) as client:
        path = await session(client)
        await client.post(CHAT, json=says("hi", user="s", stream=True))
        assert [each["status"] for each in await messages(client, path)] == ["complete", "partial"]
        await client.post(f"{path}/regenerate", json={})
        kept = await messages(client, path)
    assert [(each["content"], each["status"]) for each in kept] == [("hi", "complete"), ("Better.", "complete")]


async def test_messages_stay_apart_when_others_are_removed(start: StartApp) -> None:
    async with start(ScriptedModel("one", "two", "three")) as client:
        path = await session(client)
        for text in ("a", "b"):
            await client.post(f"{path}/messages", json={"content": text})
        for each in (await messages(client, path))[:2]:
            await client.delete(f"{path}/messages/{each['id']}")
        await client.post(f"{path}/messages", json={"content": "c"})
        kept = [each["content"] for each in await messages(client, path)]
    assert kept == ["b", "two", "c", "three"]


@pytest.mark.parametrize(("greeting", "shown"), [(0, "Hello, User."), (1, "Good night."), (None, None)])
async def test_the_greeting_is_part_of_the_prompt(start: StartApp, greeting: int | None, shown: str | None) -> None:
    card = json.loads(example_path("aria.json").read_text())
    card["data"] |= {"first_mes": "Hello, {{user}}.", "alternate_greetings": ["Good night."]}
    model = ScriptedModel("ok")
    async with start(model) as client:
        await client.put("/api/characters/aria", files={"file": ("aria.json", json.dumps(card))})
        made = await client.post("/api/sessions", json={"model": "aria", "tavernkit": RISU, "greeting": greeting})
        path = f"/api/sessions/{made.json()['id']}"
        await client.post(f"{path}/messages", json={"content": "hi"})
        assert [each["content"] for each in await messages(client, path)] == ["hi", "ok"]
    sent = json.dumps(model.requests[0])
    assert [text in sent for text in ("Hello, User.", "Good night.")] == [
        shown == "Hello, User.",
        shown == "Good night.",
    ]


async def test_a_chat_that_does_not_fit_is_told_as_such(start: StartApp) -> None:
    async with start(ScriptedModel()) as client:
        refused = await client.post(CHAT, json=says("word " * 20_000))
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")


async def test_an_upstream_that_refuses_fails_the_turn(start: StartApp) -> None:
    async with start(ScriptedModel(failure(400, "no"), streamed("ok"))) as client:
        path = await session(client)
        refused = await client.post(f"{path}/messages", json={"content": "hi"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "upstream_error")
        assert [each["content"] for each in await messages(client, path)] == ["hi"]


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
@pytest.mark.parametrize("stored", [False, True])
async def test_pictures_reach_the_model(start: StartApp, platform: str, stored: bool) -> None:
    model = ScriptedModel("A light.", "Still.")
    content = [{"type": "text", "text": "Look, {{char}}!"}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    body: dict[str, object] = {
        "model": "aria",
        "tavernkit": {"platform": platform},
        **({"user": "s"} if stored else {}),
    }
    async with start(model) as client:
        reply = await client.post(CHAT, json={**body, "messages": [{"role": "user", "content": content}]})
        assert reply.status_code == 200, reply.text
        if stored:
            await client.post(CHAT, json={**body, "messages": [{"role": "user", "content": "And now?"}]})
    for request in model.requests:
        sent = json.dumps(request["messages"])
        assert PICTURE in sent
        assert "Look, Aria!" in sent
