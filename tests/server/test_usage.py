"""Budgets of keys, what they have used, and what builds of theirs may do."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from typing import Any

import httpx
import pytest

from tavernkit.cli.app import run as tavernkit
from tavernkit.errors import ConfigError
from tavernkit.models import Usage
from tavernkit.models._scripted import usage
from tavernkit.server import ServerConfig, UpstreamConfig, load_config
from tavernkit.server.accounts import Use, add_uses, cost_of, passed_use, price_of, spent
from tavernkit.server.config import Price
from tavernkit.testing import ScriptedModel, answer, failure
from tests.server.conftest import Client, StartApp
from tests.server.databases import POSTGRES

CHAT = "/v1/chat/completions"
HELLO = {"model": "aria", "messages": [{"role": "user", "content": "Hello"}]}
ADMIN = {"Authorization": "Bearer the-admin-key"}
PRICED: dict[str, object] = {
    "require_keys": True,
    "admin_key": "the-admin-key",
    "upstreams": {
        "scripted": {
            "dialect": "scripted",
            "model": "big-1",
            "prices": {"big*": {"input": 2.0, "output": 10.0, "cached": 0.5}},
        }
    },
}
NOON = 1_800_000_000.0 - 1_800_000_000.0 % 86_400 + 43_200


def costly(*counts: tuple[int, int]) -> ScriptedModel:
    return ScriptedModel(*(answer("Yes.", usage=usage(*each)) for each in counts))


async def new_key(client: Client, name: str = "bot", **fields: object) -> dict[str, str]:
    body = {"name": name, "scopes": ["chat"], **fields}
    made = await client.post("/api/keys", json=body, headers=ADMIN)
    assert made.status_code == 201, made.text
    return {"Authorization": f"Bearer {made.json()['key']}", "id": made.json()["id"]}


def at(client: Client, seconds: float) -> None:
    client.service.accounts._clock = lambda: seconds


async def test_a_reply_counts_although_its_session_is_removed_meanwhile(start: StartApp) -> None:
    async with start(costly((60, 10)), **PRICED) as client:
        key, finish = await new_key(client), client.service.turns.log.finish

        async def removed_before(*arguments: Any) -> None:
            (session,) = (await client.get("/api/sessions", headers=key)).json()["data"]
            assert (await client.delete(f"/api/sessions/{session['id']}", headers=key)).status_code == 204
            await finish(*arguments)

        client.service.turns.log.finish = removed_before  # type: ignore[method-assign]
        reply = await client.post(CHAT, json={**HELLO, "user": "s"}, headers=key)
        rows = await report(client, key)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "session_not_found")
    assert [(row["input_tokens"], row["output_tokens"]) for row in rows] == [(60, 10)]


async def report(client: Client, headers: dict[str, str] = ADMIN, **query: Any) -> list[dict[str, Any]]:
    found = await client.get("/api/usage", params=query, headers=headers)
    assert found.status_code == 200, found.text
    return found.json()["data"]


@pytest.mark.parametrize("budget", [{"daily_tokens": 100}, {"daily_cost": 0.0004}])
@pytest.mark.parametrize("session", ["s", None])
async def test_a_key_that_has_used_its_day_waits_until_tomorrow(
    start: StartApp, budget: dict[str, Any], session: str | None
) -> None:
    model = costly((60, 10), (60, 10), (60, 10))
    body = {**HELLO, "user": session}
    async with start(model, **PRICED) as client:
        at(client, NOON)
        key, other = await new_key(client, **budget), await new_key(client)
        assert [(await client.post(CHAT, json=body, headers=key)).status_code for _ in range(2)] == [200, 200]
        refused = await client.post(CHAT, json=body, headers=key)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["type"]) == (429, "budget_exceeded", "rate_limit_error")
        assert error["message"].endswith("T00:00:00Z")
        assert refused.headers["retry-after"] == "43200"
        assert (await client.post(CHAT, json=body, headers=other)).status_code == 200
        at(client, NOON + 43_200)
        assert (await client.post(CHAT, json=body, headers=key)).status_code != 429
    assert len(model.requests) == 4


async def test_nothing_is_stored_of_a_turn_over_budget_and_a_repeated_one_is_answered(start: StartApp) -> None:
    async with start(costly((60, 10)), **PRICED) as client:
        key = await new_key(client, daily_tokens=5)
        repeated = {**key, "Idempotency-Key": "k"}
        body = {**HELLO, "user": "s"}
        first = await client.post(CHAT, json=body, headers=repeated)
        again = await client.post(CHAT, json=body, headers=repeated)
        assert (again.status_code, again.json()["choices"]) == (200, first.json()["choices"])
        assert (await client.post(CHAT, json=body, headers=key)).status_code == 429
        path = f"/api/sessions/{first.json()['tavernkit']['session_id']}/messages"
        assert len((await client.get(path, headers=key)).json()["data"]) == 3


async def test_a_report_is_grouped_by_names_with_commas_and_costs_are_round(start: StartApp) -> None:
    async with start(costly((100, 0), (100, 0), (100, 0)), **PRICED) as client:
        for _ in range(3):
            await client.post(CHAT, json=HELLO, headers=ADMIN)
        (row,) = await report(client, by="key,model")
        assert row == (await report(client, by=["key", "model"]))[0]
        assert (row["key"], row["upstream"], row["cost"]) == ("admin", "scripted", 0.0006)
        assert (await client.get("/api/usage?by=weather", headers=ADMIN)).status_code == 422
        backwards = await client.get("/api/usage?first=2026-11-20&last=2026-11-01", headers=ADMIN)
        assert (backwards.status_code, backwards.json()["error"]["param"]) == (422, "first")


async def test_the_settings_give_keys_a_budget_and_a_key_may_get_another(start: StartApp) -> None:
    async with start(costly((60, 10), (60, 10), (60, 10)), daily_tokens=50, **PRICED) as client:
        key = await new_key(client)
        path = f"/api/keys/{key['id']}"
        assert (await client.post(CHAT, json=HELLO, headers=key)).status_code == 200
        assert (await client.post(CHAT, json=HELLO, headers=key)).status_code == 429
        changed = await client.patch(path, json={"daily_tokens": 100, "name": "new"}, headers=ADMIN)
        assert (changed.json()["daily_tokens"], changed.json()["name"]) == (100, "new")
        assert (await client.post(CHAT, json=HELLO, headers=key)).status_code == 200
        assert (await client.post(CHAT, json=HELLO, headers=key)).status_code == 429
        await client.patch(path, json={"daily_tokens": None, "rate_limit": 1000}, headers=ADMIN)
        assert (await client.post(CHAT, json=HELLO, headers=key)).status_code == 429  # the settings' again
        assert (await client.patch("/api/keys/nobody", json={"rate_limit": 5}, headers=ADMIN)).status_code == 404
        assert (await client.post(CHAT, json=HELLO, headers=ADMIN)).status_code == 200


async def test_usage_is_told_by_key_character_model_and_day(start: StartApp) -> None:
    async with start(costly((100, 10), (200, 20), (300, 30)), **PRICED) as client:
        at(client, NOON)
        first, second = await new_key(client, "one"), await new_key(client, "two")
        await client.post(CHAT, json={**HELLO, "user": "s"}, headers=first)
        await client.post(CHAT, json=HELLO, headers=second)
        at(client, NOON + 86_400)
        await client.post(CHAT, json=HELLO, headers=first)
        rows = await report(client)
        told = [(row["key_name"], row["input_tokens"], row["output_tokens"], row["requests"]) for row in rows]
        assert sorted(told) == [("one", 100, 10, 1), ("one", 300, 30, 1), ("two", 200, 20, 1)]
        assert {(row["character"], row["upstream"], row["model"]) for row in rows} == {("aria", "scripted", "big-1")}
        assert len({row["day"] for row in rows}) == 2
        assert sum(row["cost"] for row in rows) == pytest.approx((600 * 2 + 60 * 10) / 1e6)
        assert [row["input_tokens"] for row in await report(client, by=["model"])] == [600]
        own = await report(client, first, by=["key"])
        assert [(row["key"], row["input_tokens"]) for row in own] == [(first["id"], 400)]
        day = client.service.accounts.today.isoformat()
        assert [row["input_tokens"] for row in await report(client, by=["day"], first=day, last=day)] == [300]
        assert await report(client, first="2001-01-01", last="2001-01-02", by=["model"]) == []
        sheet = await client.get("/api/usage", params={"format": "csv", "by": ["key", "day"]}, headers=ADMIN)
        assert sheet.headers["content-type"].startswith("text/csv")
        listed = list(csv.DictReader(io.StringIO(sheet.text)))
        assert [(row["key_name"], row["requests"]) for row in listed if row["key_name"] == "two"] == [("two", "1")]
        assert (await client.get("/api/usage", params={"by": "colour"}, headers=ADMIN)).status_code == 422


async def test_what_a_provider_does_not_report_is_estimated(start: StartApp) -> None:
    async with start(ScriptedModel("A reply of some words."), **PRICED) as client:
        reply = await client.post(CHAT, json={**HELLO, "user": "s"}, headers=ADMIN)
        (row,) = await report(client)
        told = reply.json()["usage"]
        assert (row["input_tokens"], row["output_tokens"]) == (told["prompt_tokens"], told["completion_tokens"])
        assert row["input_tokens"] > 100


async def test_a_turn_that_fails_costs_nothing(start: StartApp) -> None:
    async with start(ScriptedModel(failure(400)), **PRICED) as client:
        assert (await client.post(CHAT, json={**HELLO, "user": "s"}, headers=ADMIN)).status_code == 400
        assert await report(client) == []


async def test_a_turn_whose_reply_cannot_be_stored_is_counted_once(start: StartApp) -> None:
    async with start(costly((60, 10)), **PRICED) as client:

        async def lost(*_: object) -> None:
            raise RuntimeError("lost")

        client.service.turns.log.finish = lost  # type: ignore[method-assign, assignment]
        assert (await client.post(CHAT, json={**HELLO, "user": "s"}, headers=ADMIN)).status_code == 500
        assert [row["input_tokens"] for row in await report(client)] == [60]


async def test_a_report_that_would_be_too_long_is_refused(start: StartApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.server.accounts.MAX_USAGE_ROWS", 1)
    async with start(costly((1, 1)), **PRICED) as client:
        async with client.service.database.write() as connection:
            uses = [Use(upstream="u", model=name) for name in "abc"]
            await client.service.accounts.add(connection, "admin", uses)
        refused = await client.get("/api/usage", headers=ADMIN)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "report_too_long")


async def test_several_processes_count_together(start: StartApp) -> None:
    """Two services on one database: no count is lost, whoever ends first."""
    async with start(**PRICED) as one, start(**PRICED) as two:

        async def add(client: Client, number: int) -> None:
            uses = [Use(upstream="u", model=name, input_tokens=number, cost=0.5) for name in ("b", "a")]
            async with client.service.database.write() as connection:
                await add_uses(connection, "key:x", "2027-01-01", uses if number % 2 else uses[::-1])

        await asyncio.gather(*(add(client, number) for number in range(20) for client in (one, two)))
        async with one.service.database.read() as connection:
            assert await spent(connection, "key:x", "2027-01-01") == (sum(range(20)) * 4, 40.0)


async def test_old_usage_is_removed(start: StartApp) -> None:
    async with start(usage_days=30, **PRICED) as client:
        async with client.service.database.write() as connection:
            await add_uses(connection, "admin", "2001-01-01", [Use(upstream="u", model="m")])
            await client.service.accounts.add(connection, "admin", [Use(upstream="u", model="m")])
        assert (await client.service.retention.count())["usage"] == 1
        assert (await client.service.retention.prune())["usage"] == 1
        assert len(await report(client)) == 1


def test_prices_are_those_of_the_first_pattern_that_fits() -> None:
    prices = {"gpt-5-mini": Price(input=1, output=2), "gpt-*": Price(input=10, output=20, cached=5)}
    config = UpstreamConfig(prices=prices)
    assert price_of(config, "gpt-5-mini") == prices["gpt-5-mini"]
    assert price_of(config, "gpt-5") == prices["gpt-*"]
    assert price_of(config, "other") is None
    used = Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000)
    assert cost_of(used, prices["gpt-*"]) == pytest.approx(6 + 2 + 2)
    assert cost_of(used, prices["gpt-5-mini"]) == pytest.approx(1.2)
    assert cost_of(used, None) == 0


def test_embeddings_count_too() -> None:
    config = UpstreamConfig(prices={"*": Price(input=1, output=0)})
    use = passed_use("main", config, "embed-1", {"data": [], "usage": {"prompt_tokens": 500_000}})
    assert (use.input_tokens, use.model, use.cost) == (500_000, "embed-1", 0.5)
    assert passed_use("main", config, "embed-1", {"data": []}).input_tokens == 0


def test_the_command_prints_what_was_used(
    settings: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # readline sets it where it is loaded
    from tavernkit.server import create_app
    from tests.server.conftest import running

    options = ["--data", str(settings["data"]), *(["--db", str(settings["db"])] if POSTGRES else [])]

    async def fill() -> None:
        config = ServerConfig.model_validate(settings)
        async with running(create_app(config, upstream_models={"scripted": costly((7, 3))})) as client:
            assert (await client.post(CHAT, json=HELLO)).status_code == 200

    assert tavernkit(["server", "migrate", *options]) == 0
    capsys.readouterr()
    assert tavernkit(["server", "usage", *options]) == 0
    assert capsys.readouterr().out == "nothing was used\n"
    asyncio.run(fill())
    assert tavernkit(["server", "usage", "--by", "key,character", "--json", *options]) == 0
    report = json.loads(capsys.readouterr().out)
    (row,) = report["usage"]
    assert report["schema_version"] == 1
    assert (row["key"], row["character"], row["input_tokens"], row["output_tokens"]) == ("local", "aria", 7, 3)
    assert tavernkit(["server", "usage", "--by", "model", "--csv", *options]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("upstream,model,requests,input_tokens")
    assert tavernkit(["server", "usage", *options]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[-6:] == ["requests", "input", "output", "cached", "predicted", "cost"]
    assert re.search(r"aria .* \d{4}-\d\d-\d\d +1 +7 +3 ", table[1]), "days and numbers are not cut in two"
    assert tavernkit(["server", "usage", "--by", "colour", *options]) == 2


BOMB = "{{user}} " * 3000
"""Many macros in one text."""


@pytest.mark.parametrize("limits", [{"max_build_steps": 100, "max_build_characters": 2000}, {"max_build_memory": 2000}])
@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_a_key_may_have_lower_limits_of_builds(start: StartApp, platform: str, limits: dict[str, int]) -> None:
    async with start(key_limits={"small": limits}, **PRICED) as client:
        writer = await new_key(client, "writer", scopes=["write"])
        texts = dict.fromkeys(("description", "personality", "scenario", "mes_example", "first_mes"), BOMB)
        card = {"spec": "chara_card_v2", "data": {"name": "Bomb", **texts}}
        files = {"file": ("bomb.json", json.dumps(card).encode())}
        made = await client.post("/api/characters", files=files, headers=writer)
        assert made.status_code == 201, made.text
        body = {
            "model": "bomb",
            "messages": HELLO["messages"],
            "tavernkit": {"platform": platform, "context_length": 200_000},
        }

        async def built(name: str) -> str:
            reply: httpx.Response = await client.post("/api/build", json=body, headers=await new_key(client, name))
            assert reply.status_code == 200, reply.text
            return json.dumps(reply.json()["request"])

        # What is over the limit stays text or is left out.
        large, small = await built("large"), await built("small")
        assert "{{" not in large
        assert "{{" in small or len(small) < 2000 < len(large)


def test_limits_of_builds_are_never_raised_and_are_checked() -> None:
    config = ServerConfig.model_validate(
        {"build_limits": {"max_build_steps": 10**9}, "key_limits": {"bot": {"max_build_steps": 7}}}
    )
    assert config.limits_of().max_build_steps == 1_000_000
    assert config.limits_of("bot").max_build_steps == 7
    for wrong in ({"max_file_bytes": 5}, {"max_build_steps": 0}):
        with pytest.raises(ConfigError, match="build_limits"):
            load_config(environment={}, overrides={"build_limits": wrong})
