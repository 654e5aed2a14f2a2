"""SillyTavern's clean-up of replies: what is returned and what is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tavernkit.models._scripted import Disconnect
from tavernkit.testing import ScriptedModel, streamed
from tests.server.conftest import Client, StartApp
from tests.server.test_groups import crew, stored
from tests.server.test_groups import says as says_to_crew
from tests.server.test_regex_scripts import REPLY, USER, script
from tests.server.test_sessions import CHAT, lines_of, says

RAW = "Aria: The tide  \nturns. * Look * there!\nUser: I look.\nAria: Well"
CLEAN = "The tide\nturns. *Look* there!"


async def last(client: Client) -> str:
    return (await lines_of(client))[-1][1]


def content(reply: Any) -> str:
    return reply.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize("user", [None, "s"])
async def test_a_reply_is_returned_and_stored_clean(start: StartApp, user: str | None) -> None:
    async with start(ScriptedModel(RAW)) as client:
        assert content(await client.post(CHAT, json=says("Hi", user=user))) == CLEAN
        if user is not None:
            assert await last(client) == CLEAN


async def test_a_stream_is_the_models_and_ends_with_what_is_stored(start: StartApp) -> None:
    async with start(ScriptedModel(streamed(RAW[:20], RAW[20:]), streamed("Fine."))) as client:
        first, second = [(await client.post(CHAT, json=says("Hi", user="s", stream=True))).text for _ in range(2)]
        assert [line[1] for line in await lines_of(client)][2::2] == [CLEAN, "Fine."]
    events = [json.loads(line[6:]) for line in first.splitlines() if line.startswith("data: {")]
    said = "".join(choice["delta"].get("content", "") for event in events for choice in event["choices"])
    assert said == RAW
    assert events[-1]["tavernkit"]["content"] == CLEAN
    assert '"content":"Fine."' not in second.rsplit('"tavernkit"', 1)[1]


async def test_scripts_run_where_sillytavern_runs_them(start: StartApp) -> None:
    """Behind what they add is cleaned up, too."""
    async with start(ScriptedModel("A dog.")) as client:
        await client.put("/api/regex", json=[script("dog", "cat  \nUser: no", REPLY)])
        assert content(await client.post(CHAT, json=says("Hi", user="s"))) == "A cat"


async def test_members_of_a_group_do_not_speak_for_each_other(start: StartApp) -> None:
    model = ScriptedModel("I am A.\nBel: I am B.", "Bel: I am B.\nCid: I, too.", "I am C.")
    async with crew(start, model) as client:
        reply = await client.post(CHAT, json=says_to_crew("Names?"))
        kept = await stored(client)
    assert content(reply) == "Aria: I am A.\n\nBel: I am B.\n\nCid: I am C."
    assert [line[1] for line in kept[1:]] == ["I am A.", "I am B.", "I am C."]


async def test_what_the_model_writes_for_the_user_is_cleaned_as_theirs(start: StartApp) -> None:
    async with start(ScriptedModel("User: I say dog\nAria: Do you?")) as client:
        await client.put("/api/regex", json=[script("dog", "cat", USER)])
        made = (await client.post("/api/sessions", json={"model": "aria"})).json()
        reply = (await client.post(f"/api/sessions/{made['id']}/impersonate", json={})).json()
    assert reply["text"] == "I say cat"


async def test_what_goes_on_with_a_reply_keeps_its_distance(start: StartApp) -> None:
    async with start(ScriptedModel("Once upon", "a time  \nUser: what?", "\n\nThe end. ")) as client:
        session = (await client.post(CHAT, json=says("Hi", user="s"))).json()["tavernkit"]["session_id"]
        replies = [(await client.post(f"/api/sessions/{session}/continue", json={})).json() for _ in range(2)]
        assert await last(client) == "Once upon a time\n\nThe end."
    assert [reply["text"] for reply in replies] == [" a time", "\n\nThe end."]


async def test_a_swipe_is_cleaned_alone(start: StartApp) -> None:
    async with start(ScriptedModel("One", RAW)) as client:
        session = (await client.post(CHAT, json=says("Hi", user="s"))).json()["tavernkit"]["session_id"]
        assert (await client.post(f"/api/sessions/{session}/swipe", json={})).json()["text"] == CLEAN
        message = (await client.get(f"/api/sessions/{session}/messages")).json()["data"][-1]
    assert (message["content"], message["swipes"]) == (CLEAN, ["One", CLEAN])


async def test_a_reply_of_which_nothing_is_left_is_told(start: StartApp) -> None:
    async with start(ScriptedModel("User: I say so.", "User: I say so.")) as client:
        reply = await client.post(CHAT, json=says("Hi", user="s"))
        session = reply.json()["tavernkit"]["session_id"]
        again = (await client.post(f"/api/sessions/{session}/messages", json={"content": "Hi?"})).json()
    assert content(reply) == again["text"] == ""
    for told in (reply.json()["tavernkit"]["warnings"], again["warnings"]):
        assert told == ["nothing is left of the reply by Aria: it spoke for others, or scripts removed it"]


async def test_what_broke_off_is_stored_as_it_came(start: StartApp) -> None:
    async with start(ScriptedModel(Disconnect(after=["Aria: Once ", "upon "]))) as client:
        await client.post(CHAT, json=says("Hi", user="s", stream=True))
        assert await last(client) == "Aria: Once upon "


async def test_a_long_reply_is_cleaned_as_well(start: StartApp) -> None:
    text = "The tide turns. " * 1500
    async with start(ScriptedModel(text)) as client:
        assert content(await client.post(CHAT, json=says("Hi"))) == text.strip()


async def test_who_wants_the_models_own_words_switches_it_off(start: StartApp) -> None:
    async with start(ScriptedModel(RAW, "A dog.  "), clean_up=False) as client:
        assert content(await client.post(CHAT, json=says("Hi", user="s"))) == RAW
        await client.put("/api/regex", json=[script("dog", "cat", REPLY)])
        assert content(await client.post(CHAT, json=says("Hi", user="s"))) == "A cat.  "


async def test_replies_in_risuais_chats_are_risuais(start: StartApp) -> None:
    async with start(ScriptedModel("Well.\nUser: no")) as client:
        reply = await client.post(CHAT, json=says("Hi", user="s", tavernkit={"platform": "risu_ai"}))
    assert content(reply) == "Well.\nUser: no"
