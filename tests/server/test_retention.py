"""What is removed when it is old, and what is not."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest
from sqlalchemy import func, select, update

from tavernkit.examples import example_path
from tavernkit.server import retention
from tavernkit.server.imports import jobs
from tavernkit.server.retention import DAY
from tavernkit.server.storage.tables import Job, Turn
from tavernkit.testing import ScriptedModel, failure
from tests.server.conftest import Client, StartApp
from tests.server.test_sessions import CHAT, lines_of, says

KEY = {"Idempotency-Key": "k"}


async def rows(client: Client, table: type[Turn | Job]) -> int:
    async with client.service.database.read() as connection:
        return (await connection.execute(select(func.count()).select_from(table))).scalar_one()


async def grow_old(client: Client, table: type[Turn | Job], days: float, **changes: Any) -> None:
    """Let everything have ended so long ago."""
    then = time.time() - days * DAY
    values: dict[str, Any] = {"created_at": then, "updated_at": then, "lease_until": then, **changes}
    async with client.service.database.write() as connection:
        await connection.execute(update(table).values(values))


async def imported(client: Client) -> None:
    card = example_path("aria.json").read_bytes()
    assert (await client.post("/api/imports", files={"file": ("aria.json", card)})).status_code == 202
    await asyncio.gather(*client.service.imports._tasks)


async def test_old_turns_and_jobs_are_removed_and_counted_and_messages_stay(start: StartApp) -> None:
    async with start(ScriptedModel("One."), turn_days=7, job_days=3) as client:
        await client.post(CHAT, json=says("Hi", user="s"))
        await imported(client)
        assert await client.service.retention.prune() == {"turns": 0, "jobs": 0, "usage": 0}
        await grow_old(client, Turn, 6.9)
        await grow_old(client, Job, 3.1)
        assert await client.service.retention.prune() == {"turns": 0, "jobs": 1, "usage": 0}
        await grow_old(client, Turn, 7.1)
        assert await client.service.retention.prune() == {"turns": 1, "jobs": 0, "usage": 0}
        assert (await rows(client, Turn), await rows(client, Job)) == (0, 0)
        assert [line[1] for line in await lines_of(client)][1:] == ["Hi", "One."]
        metrics = (await client.get("/metrics")).text
    assert 'tavernkit_pruned_total{table="turns"} 1.0' in metrics
    assert 'tavernkit_pruned_total{table="jobs"} 1.0' in metrics


@pytest.mark.parametrize("table", [Turn, Job])
async def test_what_runs_stays_however_long_ago_it_began(start: StartApp, table: type[Turn | Job]) -> None:
    async with start(ScriptedModel("One."), turn_days=1, job_days=1) as client:
        await client.post(CHAT, json=says("Hi", user="s"))
        await imported(client)
        await grow_old(client, table, 50, status=jobs.RUNNING, lease_until=time.time() + 20)
        await client.service.retention.prune()
        assert await rows(client, table) == 1
        await grow_old(client, table, 50, status=jobs.RUNNING)  # its process is gone
        await client.service.retention.prune()
        assert await rows(client, table) == 0


async def test_a_turn_that_was_taken_up_again_counts_from_then(start: StartApp) -> None:
    async with start(ScriptedModel(failure(400), "Now."), turn_days=1) as client:
        await client.post(CHAT, json=says("Hi", user="s"), headers=KEY)
        await grow_old(client, Turn, 0.9)
        assert (await client.post(CHAT, json=says("Hi", user="s"), headers=KEY)).status_code == 200
        await client.service.retention.prune(time.time() + 0.9 * DAY)
        again = (await client.post(CHAT, json=says("Hi", user="s"), headers=KEY)).json()
    assert again["tavernkit"]["replayed"] is True


async def test_a_key_is_new_again_when_its_turn_is_gone(start: StartApp) -> None:
    async with start(ScriptedModel("One.", "Two."), turn_days=1) as client:
        await client.post(CHAT, json=says("Hi"), headers=KEY)
        await client.service.retention.prune(time.time() + 2 * DAY)
        again = (await client.post(CHAT, json=says("Hi"), headers=KEY)).json()
    assert again["choices"][0]["message"]["content"] == "Two."


async def test_a_failed_turn_may_be_taken_up_while_it_is_removed(start: StartApp) -> None:
    model = ScriptedModel(*(failure(400) for _ in range(6)), *("Now." for _ in range(6)))
    async with start(model, turn_days=1) as client:
        asked = [({"Idempotency-Key": f"k{number}"}, says("Hi", user=f"s{number}")) for number in range(6)]
        for headers, body in asked:
            assert (await client.post(CHAT, json=body, headers=headers)).status_code == 400
        await grow_old(client, Turn, 2)
        posts = [client.post(CHAT, json=body, headers=headers) for headers, body in asked]
        replies = await asyncio.gather(*posts[:3], client.service.retention.prune(), *posts[3:])
        statuses = [reply.status_code for reply in replies if not isinstance(reply, dict)]
        assert statuses == [200] * 6
        for headers, body in asked:
            assert (await client.post(CHAT, json=body, headers=headers)).json()["tavernkit"]["replayed"] is True


async def test_nothing_is_removed_without_a_number_of_days(start: StartApp) -> None:
    async with start(ScriptedModel("One."), turn_days=0, job_days=0, usage_days=0) as client:
        await client.post(CHAT, json=says("Hi", user="s"))
        assert await client.service.retention.prune(time.time() + 10_000 * DAY) == {}
        assert client.service.retention._task is None
        assert await rows(client, Turn) == 1


async def test_much_is_removed_in_small_steps(start: StartApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PRUNE_BATCH", 2)
    monkeypatch.setattr(retention, "PRUNE_PAUSE_SECONDS", 0)
    steps: list[int] = []
    async with start(ScriptedModel(*(str(number) for number in range(5)))) as client:
        monkeypatch.setattr(client.service.metrics, "pruned", lambda table, gone: steps.append(gone))
        for number in range(5):
            await client.post(CHAT, json=says(f"m{number}", user="s"))
        assert await client.service.retention.prune(time.time() + 31 * DAY) == {"turns": 5, "jobs": 0, "usage": 0}
    assert steps == [2, 2, 1, 0, 0]


async def test_it_goes_on_in_the_background_whatever_happens(
    start: StartApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retention, "PRUNE_FIRST_SECONDS", 0)
    monkeypatch.setattr(retention, "PRUNE_SECONDS", 0)
    tried: list[str] = []
    enough = asyncio.Event()

    async def broken(_: object, table: type[Turn | Job], *__: object, **___: object) -> int:
        tried.append(table.__tablename__)
        if len(tried) > 4:
            enough.set()
            await asyncio.Event().wait()  # until the server stops
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(retention, "_delete_old", broken)
    with caplog.at_level(logging.WARNING, "tavernkit.server"):
        async with start() as client:
            await asyncio.wait_for(enough.wait(), 10)
            assert (await client.get("/ready")).status_code == 200
    assert tried[:4] == ["turns", "jobs"] * 2  # what is wrong with one keeps nothing from the other
    assert "old jobs could not be removed" in caplog.text
