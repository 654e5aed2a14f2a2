"""Regex scripts in SillyTavern's chats: what is stored, what is sent, what a client sees."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tavernkit.examples import example_path
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.chat_settings import add_scripts, global_scripts
from tavernkit.server.limits import MAX_SCRIPTS
from tavernkit.testing import ScriptedModel, answer, streamed
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"
USER, REPLY, REASONING = 1, 2, 6


def script(find: str, put: str, *placement: int, **more: object) -> dict[str, Any]:
    return {"scriptName": find, "findRegex": find, "replaceString": put, "placement": placement, **more}


def says(text: str, **more: object) -> dict[str, object]:
    return {"model": "aria", "messages": [{"role": "user", "content": text}], "user": "s", **more}


async def contents(client: Client) -> list[str]:
    session = (await client.get("/api/sessions")).json()["data"][0]["id"]
    return [each["content"] for each in (await client.get(f"/api/sessions/{session}/messages")).json()["data"]]


def card_with(*scripts: dict[str, Any], greeting: str | None = None) -> str:
    card = json.loads(example_path("aria.json").read_text())
    card["data"].setdefault("extensions", {})["regex_scripts"] = list(scripts)
    if greeting is not None:
        card["data"]["first_mes"] = greeting
    return json.dumps(card)


async def test_scripts_of_a_card_change_what_is_said_before_it_is_stored(start: StartApp) -> None:
    model = ScriptedModel(answer("A dog, {{user}}.", reasoning="a secret plan"), "ok")
    card = card_with(
        script("cat", "lion", USER),
        script("dog", "{{char}}'s wolf", REPLY),
        script("secret", "open", REASONING),
        script("Welcome", "Hail", REPLY),
        greeting="Welcome, {{user}}.",
    )
    async with start(model) as client:
        await client.put("/api/characters/aria", files={"file": ("aria.json", card)})
        reply = (await client.post(CHAT, json=says("A cat"))).json()["choices"][0]["message"]
        assert await contents(client) == ["Hail, User.", "A lion", "A Aria's wolf, {{user}}."]
    assert (reply["content"], reply["reasoning_content"]) == ("A Aria's wolf, {{user}}.", "a open plan")
    sent: Any = model.requests[0]["messages"]
    assert sent[-1]["content"] == "A lion"


async def test_scripts_for_prompts_or_display_leave_stored_texts_alone(start: StartApp) -> None:
    model = ScriptedModel("A dog.", "ok")
    card = card_with(
        script("dog", "wolf", REPLY, promptOnly=True),
        script("cat", "lion", USER, markdownOnly=True),
        script("cat", "tiger", USER, disabled=True),
    )
    async with start(model) as client:
        await client.put("/api/characters/aria", files={"file": ("aria.json", card)})
        await client.post(CHAT, json=says("A cat"))
        await client.post(CHAT, json=says("More"))
        assert (await contents(client))[1:3] == ["A cat", "A dog."]
    sent = json.dumps(model.requests[1]["messages"])
    assert "A wolf." in sent
    assert "A cat" in sent


async def test_global_scripts_run_first_then_the_presets_then_the_cards(start: StartApp) -> None:
    preset = json.loads(example_path("preset.json").read_text())
    preset["extensions"] = {"regex_scripts": [script("b", "c", USER)]}
    async with start(ScriptedModel("ok")) as client:
        await client.put("/api/characters/aria", files={"file": ("a.json", card_with(script("c", "d", USER)))})
        await client.put("/api/presets/preset", files={"file": ("preset.json", json.dumps(preset))})
        stored = (await client.put("/api/regex", json=[script("a", "b", USER)])).json()
        assert stored[0]["id"]
        assert (await client.get("/api/regex")).json() == stored
        await client.post(CHAT, json={**says("a"), "model": "aria@preset"})
        assert (await contents(client))[1] == "d"


async def test_changed_global_scripts_are_used_at_once(start: StartApp) -> None:
    async with start(ScriptedModel("a", "a", "a")) as client:
        assert (await client.get("/api/regex")).json() == []
        await client.post(CHAT, json=says("1"))
        await client.put("/api/regex", json=[script("a", "b", REPLY)])
        await client.post(CHAT, json=says("2"))
        assert (await client.delete("/api/regex")).status_code == 204
        await client.post(CHAT, json=says("3"))
        assert (await contents(client))[2::2] == ["a", "b", "a"]
        assert (await client.put("/api/regex", json=["no object"])).status_code == 422


async def test_imported_scripts_have_a_limit_that_is_told(client: Client) -> None:
    scripts = [script("a", "b", 1, id=str(number)) for number in range(MAX_SCRIPTS)]
    assert (await client.put("/api/regex", json=scripts)).status_code == 200
    async with client.service.database.write() as connection:
        await add_scripts(connection, [script("c", "d", 1, id="5")])
        with pytest.raises(ServiceError, match="more than 1000"):
            await add_scripts(connection, [script("c", "d", 1, id="new")])


async def test_a_stream_tells_in_the_end_what_scripts_have_made_of_it(start: StartApp) -> None:
    async with start(ScriptedModel(streamed("a d", "og"), streamed("a cat"))) as client:
        await client.put("/api/regex", json=[script("dog", "wolf", REPLY)])
        texts = [(await client.post(CHAT, json=says("hi", stream=True))).text for _ in range(2)]
        assert (await contents(client))[2::2] == ["a wolf", "a cat"]
    assert '"content":"a wolf"' in texts[0]
    assert '"content":"a cat","' not in texts[1].rsplit("tavernkit", 1)[1]


async def test_what_the_model_writes_for_the_user_is_the_users_input(start: StartApp) -> None:
    async with start(ScriptedModel("I say dog")) as client:
        await client.put("/api/regex", json=[script("dog", "cat", USER), script("say", "bark", REPLY)])
        made = (await client.post("/api/sessions", json={"model": "aria"})).json()
        reply = (await client.post(f"/api/sessions/{made['id']}/impersonate", json={})).json()
    assert reply["text"] == "I say cat"


@pytest.mark.parametrize(("run_on_edit", "stored"), [(True, "wolf"), (False, "dog")])
async def test_an_edit_runs_the_scripts_that_are_meant_for_edits(
    start: StartApp, run_on_edit: bool, stored: str
) -> None:
    async with start(ScriptedModel("ok")) as client:
        await client.put("/api/regex", json=[script("dog", "wolf", REPLY, runOnEdit=run_on_edit)])
        made = (await client.post(CHAT, json=says("hi"))).json()["tavernkit"]
        path = f"/api/sessions/{made['session_id']}/messages/{made['message_id']}"
        changed = (await client.patch(path, json={"content": "dog"})).json()
    assert changed["content"] == stored


async def test_scripts_whose_ids_are_no_text_are_added(client: Client) -> None:
    odd = [script("a", "b", USER, id=[1]), script("c", "d", USER, id={}), script("e", "f", USER, id="own")]
    async with client.service.database.write() as connection:
        assert await add_scripts(connection, odd) == len(odd)
        assert await add_scripts(connection, [script("e", "g", USER, id="own")]) == 1
        kept = {each["findRegex"]: each["replaceString"] for each in await global_scripts(connection)}
    assert kept == {"a": "b", "c": "d", "e": "g"}
