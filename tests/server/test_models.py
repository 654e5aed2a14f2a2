"""Lists of models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from tavernkit.examples import example_path
from tests.server.conftest import Client, StartApp

PRESET = example_path("preset.json").read_bytes()
RISU_PRESET = json.dumps({"name": "Risu", "promptTemplate": [], "formatingOrder": ["main"], "mainPrompt": "Be."})
EVERYTHING = [
    *("aria", "aria@preset", "aria@warm", "aria-2", "aria-2@preset", "aria-2@warm"),
    *("group:crew", "group:crew@preset", "group:crew@warm"),
]


async def fill(client: Client) -> None:
    """Two characters, a group, two presets, and one of RisuAI's that makes no models."""
    await client.post("/api/characters", files={"file": ("a.json", example_path("aria.json").read_bytes())})
    await client.put("/api/presets/warm", files={"file": ("warm.json", PRESET)})
    await client.put("/api/presets/risu", files={"file": ("risu.json", RISU_PRESET)})
    await client.post("/api/groups", json={"name": "Crew", "members": ["aria", "aria-2"]})


async def pages(client: Client, limit: int) -> list[str]:
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = (await client.get("/api/models", params={"limit": str(limit), **after})).json()
        assert len(page["data"]) <= limit
        found += [each["id"] for each in page["data"]]
        if page["next"] is None:
            return found
        after = {"after": page["next"]}


async def test_openais_list_has_everything(client: Client) -> None:
    await fill(client)
    listed = (await client.get("/v1/models")).json()
    assert [each["id"] for each in listed["data"]] == EVERYTHING
    assert "tavernkit" not in listed
    assert [(await client.get(f"/v1/models/{each['id']}")).json() for each in listed["data"]] == listed["data"]
    for unknown in ("nobody", "aria@none", "group:none", "aria@risu", "@"):
        assert (await client.get(f"/v1/models/{unknown}")).status_code == 404


@pytest.mark.parametrize(("allowed", "shown"), [(8, ["aria", "aria-2", "group:crew"]), (2, ["aria", "aria-2"])])
async def test_openais_list_has_an_end_and_says_what_is_left_out(
    start: StartApp, allowed: int, shown: list[str]
) -> None:
    async with start(max_models=allowed) as client:
        await fill(client)
        over: Any = client
        openai = AsyncOpenAI(base_url="http://127.0.0.1/v1", api_key="x", http_client=over)
        listed = await openai.models.list()
        assert (await openai.models.retrieve("aria-2@warm")).id == "aria-2@warm"
    assert [each.id for each in listed.data] == shown
    told: Any = listed.model_extra
    assert told["tavernkit"] == {"total": 9, "left_out": 9 - len(shown), "more": "/api/models"}


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 8, 9, 10, 200])
async def test_pages_of_any_size_have_every_model_once(client: Client, limit: int) -> None:
    await fill(client)
    assert await pages(client, limit) == EVERYTHING


async def test_a_page_goes_on_where_its_model_was_removed(client: Client) -> None:
    await fill(client)
    await client.delete("/api/characters/aria")
    page = (await client.get("/api/models", params={"after": "aria@preset", "limit": 1})).json()
    assert page["data"] == [{"id": "aria-2", "name": "Aria", "character": "aria-2", "group": None, "preset": None}]


async def test_a_library_without_presets_has_models_alone(start: StartApp) -> None:
    async with start(example=False) as client:
        assert await pages(client, 2) == []
        for _ in range(3):
            await client.post("/api/characters", files={"file": ("a.json", example_path("aria.json").read_bytes())})
        assert await pages(client, 2) == ["aria", "aria-2", "aria-3"]
