"""The REST API."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tavernkit.cards import load
from tavernkit.examples import example_path
from tavernkit.testing import ScriptedModel
from tests.server.conftest import Client, StartApp

CARD = example_path("aria.json")


async def session(client: Client, **more: object) -> dict[str, Any]:
    made = await client.post("/api/sessions", json={"model": "aria@preset", **more})
    assert made.status_code == 201, made.text
    return made.json()


async def contents(client: Client, session_id: str) -> list[str]:
    found = (await client.get(f"/api/sessions/{session_id}/messages")).json()["data"]
    return [message["content"] for message in found]


async def test_a_card_is_imported_shown_exported_and_removed(client: Client) -> None:
    made = (await client.post("/api/characters", files={"file": ("x.json", CARD.read_bytes())})).json()
    assert (made["id"], made["name"], made["version"]) == ("aria-2", "Aria", 1)
    shown = (await client.get("/api/characters/aria-2")).json()
    assert shown["content"]["data"]["name"] == "Aria"
    for kind in ("png", "json", "charx"):
        exported = await client.get(f"/api/characters/aria-2/export?format={kind}")
        assert load(exported.content).character.name == "Aria"
    assert (await client.delete("/api/characters/aria-2")).status_code == 204
    assert (await client.get("/api/characters/aria-2")).status_code == 404


async def test_a_new_version_of_a_card_is_used_at_once(start: StartApp) -> None:
    model = ScriptedModel("one", "two")
    body = {"model": "aria", "messages": [{"role": "user", "content": "hi"}]}
    changed = CARD.read_text().replace("lighthouse", "windmill")
    async with start(model) as client:
        await client.post("/v1/chat/completions", json=body)
        replaced = await client.put("/api/characters/aria", files={"file": ("aria.json", changed)})
        assert replaced.json()["version"] == 2
        await client.post("/v1/chat/completions", json=body)
    prompts = [json.dumps(request) for request in model.requests]
    assert "windmill" not in prompts[0]
    assert "windmill" in prompts[1]


async def test_a_card_that_takes_the_place_of_a_removed_one_is_used_at_once(start: StartApp) -> None:
    model = ScriptedModel("one", "two")
    body = {"model": "aria", "messages": [{"role": "user", "content": "hi"}]}
    changed = CARD.read_text().replace("lighthouse", "windmill")
    async with start(model) as client:
        await client.post("/v1/chat/completions", json=body)
        await client.delete("/api/characters/aria")
        made = await client.post("/api/characters", files={"file": ("aria.json", changed)})
        assert (made.json()["id"], made.json()["version"]) == ("aria", 1)
        await client.post("/v1/chat/completions", json=body)
    assert ["windmill" in json.dumps(request) for request in model.requests] == [False, True]


async def test_what_is_made_at_the_same_moment_gets_ids_of_its_own(client: Client) -> None:
    files = {"file": ("x.json", CARD.read_bytes())}
    made = await asyncio.gather(*(client.post("/api/characters", files=files) for _ in range(6)))
    assert sorted(each.json()["id"] for each in made) == [f"aria-{number}" for number in range(2, 8)]
    body = {"model": "aria", "session": "one"}
    begun = await asyncio.gather(*(client.post("/api/sessions", json=body) for _ in range(6)))
    assert sorted(each.status_code for each in begun) == [201, *[409] * 5]
    assert {each.json()["error"]["code"] for each in begun if each.status_code == 409} == {"session_exists"}


async def test_a_preset_of_the_other_platform_is_refused_not_forgotten(client: Client) -> None:
    preset = json.dumps({"name": "Risu", "promptTemplate": [], "formatingOrder": ["main"], "mainPrompt": "Be."})
    await client.post("/api/presets", files={"file": ("risu.json", preset)})
    models = [model["id"] for model in (await client.get("/v1/models")).json()["data"]]
    assert models == ["aria", "aria@preset"]
    body = {"model": "aria@risu", "messages": [{"role": "user", "content": "hi"}]}
    refused = await client.post("/api/build", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "wrong_platform")
    built = await client.post("/api/build", json={**body, "tavernkit": {"platform": "risu_ai"}})
    assert built.status_code == 200


async def test_a_prompt_of_a_session_is_built_with_what_is_chosen_for_it(client: Client) -> None:
    await client.post("/api/personas", json={"name": "Ann", "description": "Ann is a pilot."})
    made = await session(client)
    body = {"session_id": made["id"], "messages": [{"role": "user", "content": "hi"}]}
    plain = (await client.post("/api/build", json=body)).json()
    chosen = (await client.post("/api/build", json={**body, "tavernkit": {"persona": "ann"}})).json()
    assert ["Ann is a pilot." in json.dumps(each["request"]) for each in (plain, chosen)] == [False, True]
    for wrong in ({**body, "model": "aria"}, {"messages": []}):
        assert (await client.post("/api/build", json=wrong)).status_code == 422


async def test_options_that_no_model_would_get_are_refused(start: StartApp) -> None:
    model = ScriptedModel("one")
    async with start(model) as client:
        path = f"/api/sessions/{(await session(client))['id']}/messages"
        refused = await client.post(path, json={"content": "Hi", "options": {"temprature": 1}})
        assert refused.status_code == 422
        assert "'temprature'" in refused.json()["error"]["message"]
        await client.post(path, json={"content": "Hi", "options": {"seed": 7, "stop": None}})
    assert model.requests[0]["seed"] == 7
    assert "stop" not in model.requests[0]


async def test_a_format_of_replies_is_passed_to_the_model(start: StartApp) -> None:
    model = ScriptedModel("{}", "{}")
    form = {"type": "json_object"}
    async with start(model) as client:
        body = {"model": "aria", "messages": [{"role": "user", "content": "Hi"}], "response_format": form}
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
        path = f"/api/sessions/{(await session(client))['id']}/messages"
        await client.post(path, json={"content": "Hi", "options": {"response_format": form}})
    assert [request["response_format"] for request in model.requests] == [form, form]


async def test_what_is_no_card_is_refused(client: Client) -> None:
    for data in (b"", b"nonsense", b"\x89PNG\r\n\x1a\n", b"[1]"):
        refused = await client.post("/api/characters", files={"file": ("x", data)})
        assert refused.status_code == 422, refused.text
        assert refused.json()["error"]["code"] == "invalid_character"


async def test_books_presets_and_personas_are_used_by_their_ids(start: StartApp) -> None:
    entry = {"uid": 0, "key": ["zebra"], "content": "Zebras rule the coast.", "order": 1, "position": 0}
    book = {"entries": {"0": entry}}
    model = ScriptedModel("one")
    async with start(model) as client:
        await client.post("/api/books", files={"file": ("Zoo.json", json.dumps(book))})
        await client.post("/api/personas", json={"name": "Ann", "description": "Ann is a diver."})
        listed = (await client.get("/api/books")).json()["data"]
        assert [item["id"] for item in listed] == ["tidewatch", "zoo"]
        extension = {"books": ["zoo"], "persona": "ann", "preset": "preset", "explain": True}
        messages = [{"role": "user", "content": "A zebra, {{user}}!"}]
        body = {"model": "aria", "messages": messages, "tavernkit": extension}
        reply = (await client.post("/v1/chat/completions", json=body)).json()
    prompt = json.dumps(model.requests[0])
    assert "Zebras rule the coast." in prompt
    assert "Ann is a diver." in prompt
    assert "A zebra, Ann!" in prompt
    assert any("Zebras" in row["preview"] for row in reply["tavernkit"]["explanation"]["blocks"])


async def test_every_way_to_go_on_with_a_session(start: StartApp) -> None:
    model = ScriptedModel("first", "better", "other", "and on", "I would say this")
    async with start(model) as client:
        made = await session(client)
        base = f"/api/sessions/{made['id']}"
        said = (await client.post(f"{base}/messages", json={"content": "hello"})).json()
        assert said["text"] == "first"
        await client.post(f"{base}/regenerate", json={})
        assert (await contents(client, made["id"]))[1:] == ["hello", "better"]
        await client.post(f"{base}/swipe", json={})
        await client.post(f"{base}/continue", json={})
        impersonated = (await client.post(f"{base}/impersonate", json={})).json()
        assert impersonated["text"] == "I would say this"
        assert (await contents(client, made["id"]))[1:] == ["hello", "other and on"]
        last = (await client.get(f"{base}/messages")).json()["data"][-1]
        assert last["swipes"] == ["better", "other and on"]
        picked = await client.put(f"{base}/messages/{last['id']}/swipe", json={"swipe": 0})
        assert picked.json()["content"] == "better"
        assert (await client.put(f"{base}/messages/{last['id']}/swipe", json={"swipe": 9})).status_code == 422


async def test_messages_are_edited_deleted_and_branched(start: StartApp) -> None:
    async with start(ScriptedModel("one", "two", "three")) as client:
        made = await session(client)
        base = f"/api/sessions/{made['id']}"
        for text in ("a", "b"):
            await client.post(f"{base}/messages", json={"content": text})
        messages = (await client.get(f"{base}/messages")).json()["data"]
        await client.patch(f"{base}/messages/{messages[1]['id']}", json={"content": "A"})
        branched = await client.post(f"{base}/actions/branch", json={"message_id": messages[2]["id"], "session": "b"})
        await client.delete(f"{base}/messages/{messages[3]['id']}?following=true")
        assert (await contents(client, made["id"]))[1:] == ["A", "one"]
        assert (await contents(client, branched.json()["id"]))[1:] == ["A", "one"]
        await client.post(f"/api/sessions/{branched.json()['id']}/messages", json={"content": "c"})
        assert (await contents(client, branched.json()["id"]))[1:] == ["A", "one", "c", "three"]
        assert (await contents(client, made["id"]))[1:] == ["A", "one"]


async def test_a_session_has_settings_of_its_own(start: StartApp) -> None:
    model = ScriptedModel("one")
    async with start(model) as client:
        made = await session(client, greeting=None)
        patch = {"variables": {"gold": 5}, "details": {"note_prompt": "Mind the fog.", "note_interval": 1}}
        changed = (await client.patch(f"/api/sessions/{made['id']}", json=patch)).json()
        assert changed["variables"] == {"gold": 5}
        await client.post(f"/api/sessions/{made['id']}/messages", json={"content": "{{getvar::gold}} coins"})
        assert await contents(client, made["id"]) == ["5 coins", "one"]
        unknown = await client.patch(f"/api/sessions/{made['id']}", json={"preset": "nope"})
        assert unknown.status_code == 404
    assert "Mind the fog." in json.dumps(model.requests[0])


async def test_what_a_session_has_chosen_can_be_taken_away_again(start: StartApp) -> None:
    async with start(ScriptedModel()) as client:
        path = f"/api/sessions/{(await session(client, greeting=None))['id']}"
        chosen = {"preset": "preset", "books": ["tidewatch"], "variables": {"gold": 5}}
        assert (await client.patch(path, json=chosen)).json()["preset"] == "preset"
        kept = (await client.patch(path, json={"preset": None})).json()
        assert (kept["preset"], kept["books"], kept["variables"]) == (None, ["tidewatch"], {"gold": 5})
        bare = (await client.patch(path, json={"books": None, "variables": None})).json()
        assert (bare["books"], bare["variables"]) == ([], {})


async def test_a_group_talks(start: StartApp) -> None:
    model = ScriptedModel("I am Bel.")
    bel = CARD.read_text().replace('"Aria"', '"Bel"')
    async with start(model) as client:
        await client.post("/api/characters", files={"file": ("bel.json", bel)})
        made = await client.post("/api/groups", json={"name": "Crew", "members": ["aria", "bel"]})
        assert made.status_code == 201, made.text
        body = {
            "model": "group:crew",
            "messages": [{"role": "user", "content": "Who are you?"}],
            "user": "g",
            "tavernkit": {"speaker": "bel"},
        }
        reply = (await client.post("/v1/chat/completions", json=body)).json()
        assert reply["tavernkit"]["speaker"] == "Bel"
        missing = await client.post("/api/groups", json={"name": "X", "members": ["nobody"]})
        assert missing.status_code == 422


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
async def test_a_build_calls_no_model_and_changes_nothing(start: StartApp, platform: str, dialect: str) -> None:
    async with start(ScriptedModel()) as client:
        extension = {"platform": platform, "dialect": dialect}
        body = {"model": "aria", "messages": [{"role": "user", "content": "Hi"}], "tavernkit": extension}
        built = await client.post("/api/build", json=body)
        assert built.status_code == 200, built.text
        assert "lighthouse" in json.dumps(built.json()["payload"])
        assert built.json()["explanation"]["blocks"]
        made = await session(client, session="s")
        body = {"session_id": made["id"], "messages": [{"role": "user", "content": "{{setvar::a::1}}Hi"}]}
        assert (await client.post("/api/build", json=body)).status_code == 200
        after = (await client.get(f"/api/sessions/{made['id']}")).json()
        assert (after["version"], after["variables"]) == (made["version"], {})


async def test_sillytavern_hides_messages_one_by_one(start: StartApp) -> None:
    async with start(ScriptedModel("One.")) as client:
        session = (await client.post("/api/sessions", json={"model": "aria"})).json()["id"]
        path = f"/api/sessions/{session}/messages"
        await client.post(path, json={"content": "Hi."})
        last = (await client.get(path)).json()["data"][-1]["id"]
        for hidden, status in (("all_before", 422), ("all", 422), (True, 200)):
            answer = await client.patch(f"{path}/{last}", json={"hidden": hidden})
            assert answer.status_code == status, answer.text
