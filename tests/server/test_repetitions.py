"""Requests that failed and come again with their key, when the session has gone on meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.testing import ScriptedModel, answer, calls, failure, tool_call
from tests.server.conftest import Client, StartApp
from tests.server.test_sessions import CHAT, lines_of, says, sent_to

KEY = {"Idempotency-Key": "k"}
PLATFORMS = ["silly_tavern", "risu_ai"]


async def texts_of(client: Client) -> list[str]:
    return [line[1] for line in await lines_of(client)]


async def say(client: Client, text: str, headers: dict[str, str] | None = None, **more: object) -> Any:
    return await client.post(CHAT, json=says(text, user="s", **more), headers=headers)


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_its_own_message_is_the_one_that_is_answered(start: StartApp, platform: str) -> None:
    model = ScriptedModel(failure(400), "To the other.", "To the first.", "After.")
    extension = {"tavernkit": {"platform": platform}}
    async with start(model) as client:
        assert (await say(client, "first", KEY, **extension)).status_code == 400
        await say(client, "other", **extension)
        again = (await say(client, "first", KEY, **extension)).json()
        assert (await texts_of(client))[-4:] == ["other", "To the other.", "first", "To the first."]
        replayed = (await say(client, "first", KEY, **extension)).json()
        await say(client, "more", **extension)
        kept = await texts_of(client)
    sent = [message["content"] for message in sent_to(model, 2) if message["role"] != "system"]
    assert sent[-3:] == ["other", "To the other.", "first"]
    assert again["choices"][0]["message"]["content"] == "To the first."
    assert replayed["tavernkit"]["replayed"] is True
    assert kept[-6:] == ["other", "To the other.", "first", "To the first.", "more", "After."]
    assert kept.count("first") == 1


async def test_a_process_that_has_not_seen_the_chat_does_the_same(start: StartApp) -> None:
    async with start(ScriptedModel(failure(400), "To the other.")) as one, start(ScriptedModel("First.")) as two:
        await say(one, "first", KEY)
        await say(one, "other")
        assert (await say(two, "first", KEY)).status_code == 200
        assert (await texts_of(one))[-4:] == ["other", "To the other.", "first", "First."]


async def test_several_failed_requests_are_answered_in_the_order_they_come_again(start: StartApp) -> None:
    model = ScriptedModel(failure(400), failure(400), "A.", "B.")
    async with start(model) as client:
        for text in ("a", "b", "a", "b"):
            await say(client, text, {"Idempotency-Key": text})
        kept = await texts_of(client)
    assert kept[1:] == ["a", "A.", "b", "B."]


async def test_a_message_that_was_removed_is_said_anew(start: StartApp) -> None:
    model = ScriptedModel(failure(400), "Now.")
    async with start(model) as client:
        await say(client, "first", KEY)
        session = (await client.get("/api/sessions")).json()["data"][0]["id"]
        message = (await client.get(f"/api/sessions/{session}/messages")).json()["data"][-1]["id"]
        await client.delete(f"/api/sessions/{session}/messages/{message}")
        assert (await say(client, "first", KEY)).status_code == 200
        kept = await texts_of(client)
    assert kept[1:] == ["first", "Now."]
    assert sent_to(model, 1)[-1]["content"] == "first"


async def test_what_was_answered_without_the_key_has_that_answer(start: StartApp) -> None:
    model = ScriptedModel(failure(400), "Answered.", "never")
    async with start(model) as client:
        await say(client, "first", KEY)
        await say(client, "first")
        again = (await say(client, "first", KEY)).json()
        kept = await texts_of(client)
    assert (again["choices"][0]["message"]["content"], again["tavernkit"]["replayed"]) == ("Answered.", True)
    assert kept[1:] == ["first", "Answered."]


async def test_words_that_the_model_writes_for_the_user_answer_nothing(start: StartApp) -> None:
    """A message that failed is still the one that the same words repeat."""
    async with start(ScriptedModel(failure(400), "I say.", "Now.")) as client:
        await say(client, "first")
        session = (await client.get("/api/sessions")).json()["data"][0]["id"]
        assert (await client.post(f"/api/sessions/{session}/impersonate", json={})).json()["text"] == "I say."
        await say(client, "first")
        kept = await texts_of(client)
    assert kept[1:] == ["first", "Now."]


async def test_a_second_key_takes_up_the_same_message_and_keeps_it(start: StartApp) -> None:
    model = ScriptedModel(failure(400), failure(400), "Other.", "Now.")
    second = {"Idempotency-Key": "second"}
    async with start(model) as client:
        await say(client, "first", KEY)
        await say(client, "first", second)
        await say(client, "other")
        await say(client, "first", second)
        kept = await texts_of(client)
    assert kept[1:] == ["other", "Other.", "first", "Now."]


async def test_results_of_tools_stay_behind_their_calls(start: StartApp) -> None:
    model = ScriptedModel(calls(tool_call("look", {}, id="c1")), failure(400), "Other.")
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    result = [{"role": "tool", "tool_call_id": "c1", "content": "a sail"}]
    async with start(model) as client:
        await say(client, "look", tools=tools)
        body = {"model": "aria", "messages": result, "user": "s"}
        assert (await client.post(CHAT, json=body, headers=KEY)).status_code == 400
        assert (await say(client, "other")).status_code == 200
        before = await texts_of(client)
        refused = await client.post(CHAT, json=body, headers=KEY)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_moved_on")
        assert await texts_of(client) == before


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("kind", ["regenerate", "swipe", "continue"])
async def test_another_reply_than_the_one_that_was_meant_is_left_alone(
    start: StartApp, platform: str, kind: str
) -> None:
    model = ScriptedModel("One.", failure(400), "Two.", answer("never"))
    async with start(model) as client:
        body = {"model": "aria", "tavernkit": {"platform": platform}, "greeting": None, "session": "s"}
        path = f"/api/sessions/{(await client.post('/api/sessions', json=body)).json()['id']}"
        await client.post(f"{path}/messages", json={"content": "a"})
        assert (await client.post(f"{path}/{kind}", json={}, headers=KEY)).status_code == 400
        await client.post(f"{path}/messages", json={"content": "b"})
        refused = await client.post(f"{path}/{kind}", json={}, headers=KEY)
        assert await texts_of(client) == ["a", "One.", "b", "Two."]
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_moved_on")


async def test_a_reply_that_is_still_the_last_is_regenerated(start: StartApp) -> None:
    async with start(ScriptedModel("One.", failure(400), "Two.")) as client:
        await say(client, "a")
        path = f"/api/sessions/{(await client.get('/api/sessions')).json()['data'][0]['id']}/regenerate"
        await client.post(path, json={}, headers=KEY)
        assert (await client.post(path, json={}, headers=KEY)).status_code == 200
        assert (await texts_of(client))[1:] == ["a", "Two."]
