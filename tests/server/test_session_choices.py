"""What a client chooses of a session that the session, or its character, does not have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tavernkit.examples import example_path
from tavernkit.testing import ScriptedModel
from tests.server.conftest import Client, StartApp
from tests.server.test_groups import crew
from tests.server.test_sessions import CHAT, says

PLATFORMS = ("silly_tavern", "risu_ai")


async def put(client: Client, name: str, *greetings: str) -> None:
    card = json.loads(example_path("aria.json").read_text())
    first, *others = greetings or ("",)
    card["data"] |= {"name": name, "first_mes": first, "alternate_greetings": others}
    await client.put(f"/api/characters/{name.lower()}", files={"file": ("x.json", json.dumps(card))})


async def begin(client: Client, greeting: int, platform: str = "silly_tavern", model: str = "aria") -> Any:
    body = {"model": model, "tavernkit": {"platform": platform}, "greeting": greeting}
    return await client.post("/api/sessions", json=body)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    ("others", "told"), [((), "'Aria' has one greeting, 0"), (("Two", "Three"), "'Aria' has 3 greetings, 0 to 2")]
)
async def test_a_greeting_that_is_not_there_is_refused(
    client: Client, platform: str, others: tuple[str, ...], told: str
) -> None:
    await put(client, "Aria", "One", *others)
    refused = await begin(client, len(others) + 1, platform)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "no_such_greeting")
    assert (refused.json()["error"]["message"], refused.json()["error"]["param"]) == (told, "greeting")
    assert (await begin(client, len(others), platform)).status_code == 201
    assert len((await client.get("/api/sessions")).json()["data"]) == 1


async def test_a_character_without_greetings_begins_in_silence(client: Client) -> None:
    await put(client, "Aria")
    begun = await begin(client, 0)
    assert begun.status_code == 201
    assert (await client.get(f"/api/sessions/{begun.json()['id']}/messages")).json()["data"] == []
    assert "'Aria' has no greetings" in (await begin(client, 1)).text


async def test_every_member_of_a_group_that_greets_has_the_greeting(start: StartApp) -> None:
    async with crew(start, ScriptedModel()) as client:
        await put(client, "Aria", "One", "Two")
        await put(client, "Bel", "One")
        await put(client, "Cid")
        refused = await begin(client, 1, model="group:crew")
        assert refused.json()["error"]["message"] == "'Bel' has one greeting, 0"
        await put(client, "Bel")
        begun = (await begin(client, 1, model="group:crew")).json()
        lines = (await client.get(f"/api/sessions/{begun['id']}/messages")).json()["data"]
    assert [(line["name"], line["content"]) for line in lines] == [("Aria", "Two")]


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_session_stays_with_its_platform(start: StartApp, platform: str) -> None:
    own, other = {"platform": platform}, {"platform": next(each for each in PLATFORMS if each != platform)}
    model = ScriptedModel("One.", "Two.")
    async with start(model) as client:
        first = (await client.post(CHAT, json=says("a", user="s", tavernkit=own))).json()
        refused = await client.post(CHAT, json=says("b", user="s", tavernkit=other))
        assert (await client.post(CHAT, json=says("c", user="s"))).status_code == 200  # whatever the session has
        session = {"session_id": first["tavernkit"]["session_id"]}
        built = [await client.post("/api/build", json={**session, "tavernkit": each}) for each in (own, other, {})]
        lines = (await client.get(f"/api/sessions/{session['session_id']}/messages")).json()["data"]
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_mismatch")
    assert refused.json()["error"]["param"] == "tavernkit.platform"
    assert f"the platform {platform}, not {other['platform']}" in refused.json()["error"]["message"]
    assert [each.status_code for each in built] == [200, 409, 200]
    assert [line["content"] for line in lines][-4:] == ["a", "One.", "c", "Two."]
