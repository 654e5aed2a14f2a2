"""Groups in RisuAI's chats: who speaks in a turn, and what is kept of it."""

from __future__ import annotations

import json
from typing import Any

from tavernkit.models._scripted import Disconnect, usage
from tavernkit.testing import ScriptedModel, answer, calls, failure, streamed, tool_call
from tests.server.conftest import Client, StartApp
from tests.server.test_groups import CHAT, MANUAL, crew
from tests.server.test_groups import says as says_to_crew

NATURAL = 0
RISU = {"platform": "risu_ai"}


def says(text: str, **more: Any) -> dict[str, object]:
    extension = {**RISU, **more.pop("tavernkit", {})}
    return says_to_crew(text, tavernkit=extension, **more)


async def session_of(client: Client) -> str:
    return (await client.get("/api/sessions")).json()["data"][0]["id"]


async def stored(client: Client) -> list[tuple[str | None, str, str]]:
    messages = (await client.get(f"/api/sessions/{await session_of(client)}/messages")).json()["data"]
    return [(each["name"], each["content"], each["status"]) for each in messages]


def prompt(model: ScriptedModel, number: int) -> list[str]:
    messages: Any = model.requests[number]["messages"]
    return [message["content"] for message in messages]


def instruction(model: ScriptedModel, number: int) -> str:
    return next(text for text in prompt(model, number) if "Write the next reply only as" in text)


async def test_members_speak_in_order_and_hear_those_before(start: StartApp) -> None:
    model = ScriptedModel(*(answer(text, usage=usage(10, 2)) for text in ("I am A.", "I am B.", "I am C.")))
    async with crew(start, model) as client:
        reply = (await client.post(CHAT, json=says("Names?"))).json()
        kept = await stored(client)
    assert reply["choices"][0]["message"]["content"] == "Aria: I am A.\n\nBel: I am B.\n\nCid: I am C."
    assert [each["speaker"] for each in reply["tavernkit"]["replies"]] == ["Aria", "Bel", "Cid"]
    assert reply["usage"]["total_tokens"] == 36
    assert kept == [
        (None, "Names?", "complete"),
        ("Aria", "I am A.", "complete"),
        ("Bel", "I am B.", "complete"),
        ("Cid", "I am C.", "complete"),
    ]
    assert [instruction(model, number)[-5:] for number in range(3)] == ["Aria]", " Bel]", " Cid]"]
    assert any("I am A." in text and "Aria" in text for text in prompt(model, 2))


async def test_whoever_is_named_speaks(start: StartApp) -> None:
    model = ScriptedModel("Yes?")
    silent = {"characterTalks": [1e-9, 1e-9, 1e-9]}
    async with crew(start, model, strategy=NATURAL, **silent) as client:
        reply = (await client.post(CHAT, json=says("Where is bel ?", tavernkit={"seed": 1}))).json()
    assert reply["choices"][0]["message"]["content"] == "Bel: Yes?"
    assert reply["tavernkit"]["speaker"] == "Bel"
    assert len(model.requests) == 1


async def test_a_stream_names_each_speaker(start: StartApp) -> None:
    model = ScriptedModel(streamed("I ", "am A."), "I am B.")
    async with crew(start, model, disabled_members=["cid"]) as client:
        text = (await client.post(CHAT, json=says("Names?", stream=True))).text
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    said = [event["choices"][0]["delta"].get("content") for event in events]
    assert [each for each in said if each] == ["Aria: ", "I ", "am A.", "\n\nBel: ", "I am B."]


async def test_a_client_may_name_the_speaker(start: StartApp) -> None:
    model = ScriptedModel("B.", "C.")
    async with crew(start, model, strategy=MANUAL) as client:
        first = (await client.post(CHAT, json=says("Hi", tavernkit={"speaker": "bel"}))).json()
        second = (await client.post(CHAT, json=says("Hi", tavernkit={"speaker": "Cid"}))).json()
        wrong = await client.post(CHAT, json=says("Hi", tavernkit={"speaker": "Dan"}))
        kept = await stored(client)
    assert [each["choices"][0]["message"]["content"] for each in (first, second)] == ["B.", "C."]
    assert [each["tavernkit"]["speaker"] for each in (first, second)] == ["Bel", "Cid"]
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "no_such_speaker")
    assert [each[:2] for each in kept[:4]] == [(None, "Hi"), ("Bel", "B."), (None, "Hi"), ("Cid", "C.")]


async def test_nobody_speaks_up_in_a_manual_group(start: StartApp) -> None:
    model = ScriptedModel()
    async with crew(start, model, strategy=MANUAL) as client:
        reply = await client.post(CHAT, json=says("Hi"))
        assert await stored(client) == [(None, "Hi", "complete")]
    assert (reply.status_code, reply.json()["choices"][0]["message"]["content"]) == (200, "")
    assert model.requests == []


async def test_what_was_said_is_kept_when_a_later_speaker_fails(start: StartApp) -> None:
    async with crew(start, ScriptedModel("A.", failure(400, "no"))) as client:
        reply = (await client.post(CHAT, json=says("Hi"))).json()
        kept = await stored(client)
    assert "no" in reply["tavernkit"]["broken"]
    assert reply["choices"][0]["message"]["content"] == "Aria: A."
    assert [each[1:] for each in kept] == [("Hi", "complete"), ("A.", "complete")]


async def test_a_stream_that_breaks_ends_the_round(start: StartApp) -> None:
    async with crew(start, ScriptedModel("A.", Disconnect(after=["B is"]), "C.")) as client:
        text = (await client.post(CHAT, json=says("Hi", stream=True))).text
        kept = await stored(client)
    assert kept[1:] == [("Aria", "A.", "complete"), ("Bel", "B is", "partial")]
    assert "interrupted" in text


async def test_the_first_speakers_failure_is_the_turns(start: StartApp) -> None:
    async with crew(start, ScriptedModel(failure(400))) as client:
        reply = await client.post(CHAT, json=says("Hi"))
        assert [each[1] for each in await stored(client)] == ["Hi"]
    assert reply.status_code == 400


async def test_a_call_of_a_tool_ends_the_round(start: StartApp) -> None:
    tools = [{"type": "function", "function": {"name": "roll", "parameters": {"type": "object"}}}]
    model = ScriptedModel("A.", calls(tool_call("roll", {}, id="c")), "never asked")
    async with crew(start, model) as client:
        reply = (await client.post(CHAT, json=says("Hi", tools=tools))).json()
        kept = await stored(client)
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
    assert len(model.requests) == 2
    assert [each[1] for each in kept] == ["Hi", "A.", ""]


async def test_regenerating_replaces_the_whole_round_and_swiping_the_last_reply(start: StartApp) -> None:
    model = ScriptedModel("A1.", "B1.", "A2.", "B2.", "B3.", "and more", "I say")
    async with crew(start, model, disabled_members=["cid"]) as client:
        await client.post(CHAT, json=says("Hi"))
        path = f"/api/sessions/{await session_of(client)}"
        again = (await client.post(f"{path}/regenerate", json={})).json()
        assert [each[1] for each in await stored(client)] == ["Hi", "A2.", "B2."]
        swiped = (await client.post(f"{path}/swipe", json={})).json()
        shown = (await client.get(f"{path}/messages")).json()["data"][-1]
        await client.post(f"{path}/continue", json={})
        impersonated = (await client.post(f"{path}/impersonate", json={})).json()
        kept = await stored(client)
    assert [each["speaker"] for each in again["replies"]] == ["Aria", "Bel"]
    assert (swiped["speaker"], swiped["text"], shown["swipes"]) == ("Bel", "B3.", ["B2.", "B3."])
    assert [each[:2] for each in kept] == [(None, "Hi"), ("Aria", "A2."), ("Bel", "B3.and more")]
    assert impersonated["text"] == "I say"
    assert all("only as Bel]" in instruction(model, number) for number in (4, 5))


async def test_a_build_is_that_of_the_first_speaker(start: StartApp) -> None:
    async with crew(start, ScriptedModel()) as client:
        body = {"model": "group:crew", "messages": [{"role": "user", "content": "Hi"}], "tavernkit": RISU}
        built = (await client.post("/api/build", json=body)).json()
    assert built["speaker"] == "Aria"


async def test_numbers_that_are_none_make_nobody_silent(start: StartApp) -> None:
    model = ScriptedModel("Yes?")
    talks = [10**400, "often", None]
    async with crew(start, model, characterTalks=talks, disabled_members=["bel", "cid"]) as client:
        reply = await client.post(CHAT, json=says("Aria"))
    assert reply.json()["choices"][0]["message"]["content"] == "Aria: Yes?"


async def test_a_group_has_lore_of_its_own(start: StartApp) -> None:
    lore = [{"key": "lamp", "content": "The lamp is green.", "mode": "normal", "insertorder": 100, "comment": ""}]
    model = ScriptedModel("A.")
    async with crew(start, model, globalLore=lore, disabled_members=["bel", "cid"]) as client:
        await client.post(CHAT, json=says("What of the lamp?"))
    assert any("The lamp is green." in text for text in prompt(model, 0))
