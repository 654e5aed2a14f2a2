"""Groups: who speaks in a turn, and what is kept of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tavernkit.examples import example_path
from tavernkit.models._scripted import Disconnect, usage
from tavernkit.testing import ScriptedModel, answer, calls, failure, streamed, tool_call
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"
LIST, MANUAL, POOLED = 1, 2, 3


@asynccontextmanager
async def crew(start: StartApp, model: object, strategy: int = LIST, **group: object) -> AsyncIterator[Client]:
    """A server with a group of Aria, Bel and Cid."""
    async with start(model) as client:
        for name in ("Bel", "Cid"):
            card = json.loads(example_path("aria.json").read_text())
            card["data"] |= {"name": name, "first_mes": f"{name} greets."}
            await client.post("/api/characters", files={"file": (f"{name}.json", json.dumps(card))})
        body = {"name": "Crew", "members": ["aria", "bel", "cid"], "activation_strategy": strategy, **group}
        assert (await client.post("/api/groups", json=body)).status_code == 201
        yield client


def says(text: str, **more: object) -> dict[str, object]:
    return {"model": "group:crew", "messages": [{"role": "user", "content": text}], "user": "g", **more}


async def stored(client: Client) -> list[tuple[str | None, str, str]]:
    session = (await client.get("/api/sessions")).json()["data"][0]["id"]
    messages = (await client.get(f"/api/sessions/{session}/messages")).json()["data"][3:]
    return [(each["name"], each["content"], each["status"]) for each in messages]


def texts(model: ScriptedModel, number: int) -> list[str]:
    messages: Any = model.requests[number]["messages"]
    return [message["content"] for message in messages if message["role"] != "system"]


async def test_every_member_of_a_list_speaks_and_hears_those_before(start: StartApp) -> None:
    replies = [answer(text, usage=usage(10, 2)) for text in ("I am A.", "I am B.", "I am C.")]
    model = ScriptedModel(*replies)
    async with crew(start, model) as client:
        reply = (await client.post(CHAT, json=says("Names?"))).json()
        kept = await stored(client)
    assert reply["choices"][0]["message"]["content"] == "Aria: I am A.\n\nBel: I am B.\n\nCid: I am C."
    assert [each["speaker"] for each in reply["tavernkit"]["replies"]] == ["Aria", "Bel", "Cid"]
    assert reply["usage"]["total_tokens"] == 36
    assert kept == [
        ("User", "Names?", "complete"),
        ("Aria", "I am A.", "complete"),
        ("Bel", "I am B.", "complete"),
        ("Cid", "I am C.", "complete"),
    ]
    assert texts(model, 2)[-3:] == ["Names?", "Aria: I am A.", "Bel: I am B."]


async def test_a_stream_names_each_speaker(start: StartApp) -> None:
    model = ScriptedModel(streamed("I ", "am A."), "I am B.")
    async with crew(start, model, disabled_members=["cid"]) as client:
        text = (await client.post(CHAT, json=says("Names?", stream=True))).text
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    said = [event["choices"][0]["delta"].get("content") for event in events]
    assert [each for each in said if each] == ["Aria: ", "I ", "am A.", "\n\nBel: ", "I am B."]


async def test_rest_gives_the_replies_as_a_list(start: StartApp) -> None:
    async with crew(start, ScriptedModel("A.", "B."), disabled_members=["cid"]) as client:
        made = (await client.post("/api/sessions", json={"model": "group:crew"})).json()
        reply = (await client.post(f"/api/sessions/{made['id']}/messages", json={"content": "Hi"})).json()
        messages = (await client.get(f"/api/sessions/{made['id']}/messages")).json()["data"]
    assert [(each["speaker"], each["text"]) for each in reply["replies"]] == [("Aria", "A."), ("Bel", "B.")]
    assert [each["message_id"] for each in reply["replies"]] == [each["id"] for each in messages[-2:]]


async def test_one_speaker_speaks_without_a_name(start: StartApp) -> None:
    async with crew(start, ScriptedModel("B."), strategy=POOLED) as client:
        body = says("Hi", tavernkit={"speaker": "bel"})
        reply = (await client.post(CHAT, json=body)).json()
        assert (await stored(client))[-1] == ("Bel", "B.", "complete")
    assert reply["choices"][0]["message"]["content"] == "B."
    assert "replies" not in reply["tavernkit"]


async def test_nobody_speaks_up_in_a_manual_group(start: StartApp) -> None:
    model = ScriptedModel()
    async with crew(start, model, strategy=MANUAL) as client:
        reply = await client.post(CHAT, json=says("{{setvar::a::1}}Hi"))
        assert reply.status_code == 200, reply.text
        assert await stored(client) == [("User", "Hi", "complete")]
    assert reply.json()["choices"][0]["message"]["content"] == ""
    assert model.requests == []


async def test_what_was_said_is_kept_when_a_later_speaker_fails(start: StartApp) -> None:
    model = ScriptedModel("A.", failure(400, "no"), "A again.", "B.", "C.")
    async with crew(start, model) as client:
        reply = (await client.post(CHAT, json=says("Hi"))).json()
        assert await stored(client) == [("User", "Hi", "complete"), ("Aria", "A.", "complete")]
        session = (await client.get("/api/sessions")).json()["data"][0]["id"]
        again = (await client.post(f"/api/sessions/{session}/regenerate", json={})).json()
        kept = await stored(client)
    assert reply["choices"][0]["message"]["content"] == "Aria: A."
    assert "no" in reply["tavernkit"]["broken"]
    assert again["status"] == "done"
    assert [each[1] for each in kept] == ["Hi", "A again.", "B.", "C."]


async def test_the_first_speakers_failure_is_the_turns(start: StartApp) -> None:
    async with crew(start, ScriptedModel(failure(400, "no"))) as client:
        reply = await client.post(CHAT, json=says("Hi", stream=True))
        assert await stored(client) == [("User", "Hi", "complete")]
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "upstream_error")


async def test_a_stream_that_breaks_ends_the_round(start: StartApp) -> None:
    async with crew(start, ScriptedModel("A.", Disconnect(after=["B is"]), "C.")) as client:
        text = (await client.post(CHAT, json=says("Hi", stream=True))).text
        kept = await stored(client)
    assert kept[1:] == [("Aria", "A.", "complete"), ("Bel", "B is", "partial")]
    assert "interrupted" in text


async def test_a_call_of_a_tool_ends_the_round(start: StartApp) -> None:
    tools = [{"type": "function", "function": {"name": "roll", "parameters": {"type": "object"}}}]
    model = ScriptedModel(calls(tool_call("roll", {}, id="c")), "never asked")
    async with crew(start, model) as client:
        reply = (await client.post(CHAT, json=says("Hi", tools=tools))).json()
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
    assert len(model.requests) == 1


async def test_regenerating_replaces_the_whole_round_and_swiping_the_last_reply(start: StartApp) -> None:
    model = ScriptedModel("A1.", "B1.", "A2.", "B2.", "B3.", "and more")
    async with crew(start, model, disabled_members=["cid"]) as client:
        await client.post(CHAT, json=says("Hi"))
        session = (await client.get("/api/sessions")).json()["data"][0]["id"]
        await client.post(f"/api/sessions/{session}/regenerate", json={})
        assert [each[1] for each in await stored(client)] == ["Hi", "A2.", "B2."]
        swiped = (await client.post(f"/api/sessions/{session}/swipe", json={})).json()
        await client.post(f"/api/sessions/{session}/continue", json={})
        kept = await stored(client)
    assert swiped["speaker"] == "Bel"
    assert [each[1] for each in kept] == ["Hi", "A2.", "B3. and more"]
    assert texts(model, 2)[-1] == "Hi"


async def test_variables_of_one_speaker_reach_the_next(start: StartApp) -> None:
    model = ScriptedModel("A.", "B.")
    script = {"findRegex": "A\\.", "replaceString": "A.{{setvar::mood::calm}}", "placement": [2]}
    async with crew(start, model, disabled_members=["cid"]) as client:
        await client.put("/api/regex", json=[script])
        await client.post(CHAT, json=says("Hi"))
        session = (await client.get("/api/sessions")).json()["data"][0]
        shown = (await client.get(f"/api/sessions/{session['id']}")).json()
    assert shown["variables"] == {"mood": "calm"}


async def test_a_build_is_that_of_the_first_speaker(start: StartApp) -> None:
    async with crew(start, ScriptedModel()) as client:
        body = {"model": "group:crew", "messages": [{"role": "user", "content": "Hi"}]}
        built = (await client.post("/api/build", json=body)).json()
    assert built["speaker"] == "Aria"


async def test_members_of_the_same_name_keep_scripts_of_their_own(start: StartApp) -> None:
    def twin(put: str) -> str:
        card = json.loads(example_path("aria.json").read_text())
        script = {"scriptName": put, "findRegex": "light", "replaceString": put, "placement": [2]}
        card["data"] |= {"name": "Twin", "extensions": {"regex_scripts": [script]}}
        return json.dumps(card)

    async with start(ScriptedModel("A light.", "A light.")) as client:
        for put in ("lamp", "candle"):
            await client.post("/api/characters", files={"file": ("twin.json", twin(put))})
        await client.post(
            "/api/groups", json={"name": "Crew", "members": ["twin", "twin-2"], "activation_strategy": LIST}
        )
        reply = (await client.post(CHAT, json=says("What is it?"))).json()
    assert [each["text"] for each in reply["tavernkit"]["replies"]] == ["A lamp.", "A candle."]


async def test_regenerate_takes_back_one_round_of_two(start: StartApp) -> None:
    async with crew(start, ScriptedModel(*"abcdefghi")) as client:
        await client.post(CHAT, json=says("Names?"))
        session = (await client.get("/api/sessions")).json()["data"][0]["id"]
        await client.post(f"/api/sessions/{session}/generate", json={})
        await client.post(f"/api/sessions/{session}/regenerate", json={})
        assert [text for _, text, _ in await stored(client)] == ["Names?", *"abc", *"ghi"]
