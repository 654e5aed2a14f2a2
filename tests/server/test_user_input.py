"""What a user may type or attach over REST: nothing, the beginning of what is continued, pictures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tavernkit.testing import ScriptedModel, failure
from tests.server.conftest import Client, StartApp

PICTURE = "data:image/png;base64,iVBORw0KGgo="
PLATFORMS = ["silly_tavern", "risu_ai"]


async def session(client: Client, platform: str) -> str:
    made = await client.post("/api/sessions", json={"model": "aria", "tavernkit": {"platform": platform}})
    assert made.status_code == 201, made.text
    return f"/api/sessions/{made.json()['id']}"


async def said(client: Client, path: str) -> list[tuple[str, str]]:
    lines = (await client.get(f"{path}/messages")).json()["data"]
    found = [(line["role"], line["content"]) for line in lines]
    return found if found[0][0] == "user" else found[1:]  # without the greeting


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_what_is_continued_is_stored_before_the_model_is_asked_and_once(start: StartApp, platform: str) -> None:
    model = ScriptedModel("One.", failure(400, "no"), "we see.", "and hear.")
    async with start(model) as client:
        path = await session(client, platform)
        await client.post(f"{path}/messages", json={"content": "Hi."})
        before = [("user", "Hi."), ("assistant", "One.")]
        assert (await client.post(f"{path}/continue", json={"content": "And"})).is_error
        assert await said(client, path) == [*before, ("user", "And")]
        done = (await client.post(f"{path}/continue", json={"content": "And"})).json()
        # SillyTavern goes on with the user's message, RisuAI makes a reply of it.
        continued = ("user", "And we see.") if platform == "silly_tavern" else ("assistant", "Andwe see.")
        assert await said(client, path) == [*before, continued]
        assert done["text"] == "we see."
        assert (await client.post(f"{path}/continue", json={})).is_success
        assert len(await said(client, path)) == 3
    assert sum("Hi." in str(request["messages"]) for request in model.requests) == len(model.requests)


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_an_empty_message_asks_for_a_reply(start: StartApp, platform: str) -> None:
    model = ScriptedModel("One.", "Two.", "Three.")
    async with start(model) as client:
        path = await session(client, platform)
        await client.post(f"{path}/messages", json={"content": "Hi."})
        assert (await client.post(f"{path}/messages", json={"content": ""})).json()["text"] == "Two."
        nothing = [("user", "*says nothing*")] if platform == "risu_ai" else []
        expected = [("user", "Hi."), ("assistant", "One."), *nothing, ("assistant", "Two.")]
        assert await said(client, path) == expected
        if platform == "risu_ai":
            await client.put("/api/settings?platform=risu_ai", json={"useSayNothing": False})
        await client.post(f"{path}/messages", json={"content": [{"type": "text", "text": ""}]})
        assert await said(client, path) == [*expected, ("assistant", "Three.")]


async def test_an_empty_message_is_another_request_than_none(start: StartApp) -> None:
    async with start(ScriptedModel("One.")) as client:
        path, key = await session(client, "risu_ai"), {"Idempotency-Key": "k"}
        assert (await client.post(f"{path}/messages", json={"content": ""}, headers=key)).is_success
        again = await client.post(f"{path}/generate", json={}, headers=key)
        assert (again.status_code, again.json()["error"]["code"]) == (422, "idempotency_key_reused")


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("text", ["Look", ""])
async def test_pictures_reach_the_model_and_stay(start: StartApp, platform: str, text: str) -> None:
    model = ScriptedModel("One.", "Two.")
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    async with start(model) as client:
        path = await session(client, platform)
        assert (await client.post(f"{path}/messages", json={"content": parts})).is_success
        await client.post(f"{path}/messages", json={"content": "And?"})
    for request in model.requests:
        assert str(request["messages"]).count(PICTURE) == 1


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_question_outside_the_chat_can_do_without_lore_at_a_depth(start: StartApp, platform: str) -> None:
    entry = {"uid": 0, "key": ["lamp"], "content": "The lamp is old.", "order": 100, "position": 4, "depth": 1}
    model = ScriptedModel("One.", "Two.")
    async with start(model) as client:
        await client.post("/api/books", files={"file": ("lore.json", json.dumps({"entries": {"0": entry}}))})
        path = await session(client, platform)
        await client.patch(path, json={"books": ["lore"]})
        asked = {"prompt": "The lamp?", "skip_world_info_registration": True}
        answer = (await client.post(f"{path}/quiet", json=asked)).json()
        await client.post(f"{path}/messages", json={"content": "The lamp?"})
    assert ["The lamp is old." in str(request["messages"]) for request in model.requests] == [False, True]
    warned = any("skip_world_info_registration" in warning for warning in answer["warnings"])
    assert warned == (platform == "risu_ai")


async def test_parts_that_no_model_gets_are_refused(start: StartApp) -> None:
    async with start(ScriptedModel()) as client:
        path = await session(client, "silly_tavern")
        wrong: list[Any] = [[{"type": "video"}], [{"text": "x"}], ["x"], 1, None]
        for content in wrong:
            assert (await client.post(f"{path}/messages", json={"content": content})).status_code == 422
