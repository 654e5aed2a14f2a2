"""Where builds run."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tavernkit._text.js_regex import JSRegex
from tavernkit._workers import pool as workers
from tavernkit.examples import example_path
from tavernkit.server.turns import scheduling
from tavernkit.server.turns.scheduling import BuildExecutor
from tavernkit.testing import ScriptedModel
from tests.server.conftest import StartApp


async def test_a_build_of_unknown_length_runs_in_a_thread_and_a_short_one_at_once() -> None:
    room = BuildExecutor()
    try:
        first = await room.run("aria", threading.get_ident)
        again = await room.run("aria", threading.get_ident)
        other = await room.run("another kind", threading.get_ident)
    finally:
        room.close()
    here = threading.get_ident()
    assert [first == here, again == here, other == here] == [False, True, False]


async def test_a_build_that_was_long_runs_in_a_thread_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "SHORT_BUILD_SECONDS", -1.0)
    room = BuildExecutor()
    try:
        threads = [await room.run("aria", threading.get_ident) for _ in range(3)]
    finally:
        room.close()
    assert threading.get_ident() not in threads


async def test_a_build_that_fails_says_why_and_is_timed_all_the_same() -> None:
    def fail() -> None:
        raise ValueError(f"on {threading.get_ident()}")

    room = BuildExecutor()
    try:
        with pytest.raises(ValueError, match="on "):
            await room.run("aria", fail)
        with pytest.raises(ValueError, match=f"on {threading.get_ident()}"):
            await room.run("aria", fail)
    finally:
        room.close()


async def test_a_build_that_waits_for_its_regexes_is_not_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "SHORT_BUILD_SECONDS", 0.05)
    runaway, threads = JSRegex("(a|aa)+$"), list[int]()

    def build() -> None:
        threads.append(threading.get_ident())
        assert runaway.search("a" * (60 + len(threads)) + "b") is None  # another text: it is not known to run away

    room = BuildExecutor()
    try:
        for _ in range(3):
            await room.run("aria", build)
    finally:
        room.close()
    assert threading.get_ident() not in threads


async def test_scripts_of_a_card_that_run_away_do_not_hold_up_the_server(
    start: StartApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {"scriptName": "slow", "findRegex": "/(c|cc)+$/", "placement": [1, 2], "runOnEdit": True}
    card = json.loads(example_path("aria.json").read_text())
    card["data"] |= {"first_mes": "c" * 50 + "b", "extensions": {"regex_scripts": [slow]}}
    threads = list[int]()
    run = workers.pool.run

    def watched(*given: Any, **more: Any) -> Any:
        threads.append(threading.get_ident())
        return run(*given, **more)

    monkeypatch.setattr(workers.pool, "run", watched)
    async with start(ScriptedModel(*("c" * length + "b" for length in (60, 61, 62)))) as client:
        await client.put("/api/characters/aria", files={"file": ("aria.json", json.dumps(card))})
        session = (await client.post("/api/sessions", json={"model": "aria"})).json()["id"]
        for length in (70, 71, 72):
            said = await client.post(f"/api/sessions/{session}/messages", json={"content": "c" * length + "b"})
            message = f"/api/sessions/{session}/messages/{said.json()['message_id']}"
            await client.patch(message, json={"content": "c" * (length + 10) + "b"})
    assert len(threads) >= 1 + 3 * 3
    assert threading.get_ident() not in threads
