"""Sessions with a memory: a model summarises what was said, and later prompts have the summary."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tavernkit._values import JsonObject
from tavernkit.models._scripted import usage
from tavernkit.server.storage.lines import ChatLine, new_line
from tavernkit.server.turns import summaries
from tavernkit.server.turns.summaries import next_part
from tavernkit.testing import ScriptedModel, answer, failure
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"
PLATFORMS = pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])


class Models:
    """A model for the chat and one for its memory."""

    def __init__(self, *memory: Any) -> None:
        self.chat = ScriptedModel(*(f"Reply {number}." for number in range(40)))
        self.memory = ScriptedModel(*memory)

    def start(self, start: StartApp, **settings: object) -> Any:
        upstreams = {"scripted": {"dialect": "scripted"}, "small": {"dialect": "scripted", "model": "small-1"}}
        models = {"scripted": self.chat, "small": self.memory}
        chosen = {"memory_every": 4, "memory_upstream": "small", **settings}
        return start(models=models, upstreams=upstreams, upstream="scripted", **chosen)


async def say(client: Client, *texts: str, platform: str = "silly_tavern", **options: object) -> str:
    session = ""
    for text in texts:
        body: dict[str, Any] = {"model": "aria", "messages": [{"role": "user", "content": text}]}
        chosen = {"session": "s", "platform": platform, "memory": True, **options}
        reply = await client.post(CHAT, json={**body, "tavernkit": chosen})
        assert reply.status_code == 200, reply.text
        session = reply.json()["tavernkit"]["session_id"]
        await client.service.turns.summaries.wait()
    return session


def last_prompt(models: Models) -> str:
    return json.dumps(models.chat.requests[-1]["messages"])


def lines(*memories: str | None) -> list[ChatLine]:
    """Lines of SillyTavern's, some with a summary on them."""
    extra: list[JsonObject] = [{} if memory is None else {"memory": memory} for memory in memories]
    return [new_line("user", f"m{at}", {"mes": f"m{at}", "extra": each}) for at, each in enumerate(extra)]


async def test_a_summary_is_kept_on_a_message_and_stands_in_later_prompts(start: StartApp) -> None:
    models = Models("They met at the lighthouse.", "They met, and ate soup.")
    async with models.start(start) as client:
        session = await say(client, "One", "Two", "Three")
        asked = json.dumps(models.memory.requests[0])
        assert len(models.memory.requests) == 1
        assert "User: One" in asked
        assert "Aria: Reply 0." in asked
        assert models.memory.requests[0]["max_tokens"] == 600
        exported = (await client.get(f"/api/sessions/{session}/export")).text.splitlines()
        kept = [json.loads(line)["extra"].get("memory") for line in exported[1:]]
        assert kept[-1] is None  # the last message's never counts
        assert "They met at the lighthouse." in kept
        await say(client, "Four")
        assert "[Summary: They met at the lighthouse.]" in last_prompt(models)
        await say(client, "Five", "Six")
        assert "Summary so far:\\nThey met at the lighthouse." in json.dumps(models.memory.requests[1])
        await say(client, "Seven")
        assert "[Summary: They met, and ate soup.]" in last_prompt(models)
        metrics = (await client.get("/metrics")).text
        assert 'tavernkit_summaries_total{status="done"} 2.0' in metrics


async def test_risu_sessions_have_hypa_memory(start: StartApp) -> None:
    models = Models("They met at the lighthouse.")
    async with models.start(start) as client:
        session = await say(client, *(f"Word {number}." for number in range(7)), platform="risu_ai")
        details = (await client.get(f"/api/sessions/{session}")).json()["details"]
        (entry,) = details["hypaV3Data"]["summaries"]
        assert entry["text"] == "They met at the lighthouse."
        messages = (await client.get(f"/api/sessions/{session}/messages")).json()["data"]
        assert entry["chatMemos"] == [message["id"] for message in messages[: len(entry["chatMemos"])]]
        await say(client, "And now?", platform="risu_ai")
        prompt = last_prompt(models)
        assert "They met at the lighthouse." in prompt
        assert "Word 0." not in prompt
        assert "Word 6." in prompt


@PLATFORMS
async def test_nobody_is_asked_for_sessions_that_do_not_want_it(start: StartApp, platform: str) -> None:
    models = Models("never")
    async with models.start(start) as client:
        await say(client, *(f"Word {number}." for number in range(8)), platform=platform, memory=None)
    assert models.memory.requests == []


async def test_a_summary_survives_a_restart_and_is_made_by_one_process_only(start: StartApp) -> None:
    first, second = Models("Never stored."), Models("They met.")
    async with first.start(start) as dead:
        session = await say(dead, "One")
        async with dead.service.database.write() as connection:  # a process has the work, and dies
            held = await summaries.claim(connection, session, now=1000.0, until=2000.0)
            assert held == 0
            assert await summaries.claim(connection, session, now=1500.0, until=3000.0) is None
        dead.service.turns.summaries._clock = lambda: 1500.0
        await say(dead, "Two")
        assert first.memory.requests == []
    async with second.start(start) as client:  # its lease has ended by now
        await say(client, "Three")
        assert len(second.memory.requests) == 1
        assert "User: One" in json.dumps(second.memory.requests[0])


async def test_two_turns_at_once_begin_one_summary(start: StartApp) -> None:
    models = Models("They met.")
    async with models.start(start) as client:
        await say(client, "One")
        work = client.service.turns.summaries
        gate = asyncio.Event()
        made = work._make

        async def slowly(*arguments: Any) -> str:
            await gate.wait()
            return await made(*arguments)

        work._make = slowly  # type: ignore[method-assign]
        body = {"model": "aria", "messages": [{"role": "user", "content": "Three"}], "tavernkit": {"session": "s"}}
        for _ in range(3):
            assert (await client.post(CHAT, json=body)).status_code == 200
        assert len(work._running) == 1
        gate.set()
        await work.wait()
        assert len(models.memory.requests) == 1


async def test_a_failed_summary_is_left_alone_for_a_while(start: StartApp) -> None:
    models = Models(failure(400), "They met.")
    async with models.start(start) as client:
        work = client.service.turns.summaries
        now = [1000.0]
        work._clock = lambda: now[0]
        await say(client, "One", "Two", "Three", "Four")
        assert len(models.memory.requests) == 1
        assert 'tavernkit_summaries_total{status="failed"} 1.0' in (await client.get("/metrics")).text
        now[0] += 61
        await say(client, "Five")
        assert len(models.memory.requests) == 2


async def test_it_is_paid_by_whoever_talks(start: StartApp) -> None:
    models = Models(answer("They met.", usage=usage(500, 20)))
    async with models.start(start) as client:
        await say(client, "One", "Two", "Three")
        rows = (await client.get("/api/usage", params={"by": ["model"]})).json()["data"]
    assert {row["model"]: row["input_tokens"] for row in rows}["small-1"] == 500


async def test_a_summary_waits_for_the_turn_that_runs(start: StartApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.server.turns.summaries.SUMMARY_WAIT_SECONDS", 0.0)
    models = Models("They met.")
    async with models.start(start) as client:
        session = await say(client, "One", "Two")
        busy = client.service.turns.summaries

        class Chat:
            turn_id = "another"

            def busy(self, _: float) -> bool:
                return True

        async def get_chat(*_: object, **__: object) -> Chat:
            return Chat()

        monkeypatch.setattr("tavernkit.server.turns.summaries.chats.get_chat", get_chat)
        part = next_part("silly_tavern", lines(*[None] * 8), {}, 4)
        assert part is not None
        chat: Any = type("Chat", (), {"id": session})()
        assert await busy._store(chat, part, "text") == "stale"


@PLATFORMS
@pytest.mark.parametrize("place", [1, -1])
async def test_a_summary_of_messages_that_were_removed_meanwhile_is_dropped(
    start: StartApp, platform: str, place: int
) -> None:
    models = Models("They met.", "They parted.")
    async with models.start(start) as client:
        work = client.service.turns.summaries
        store = work._store

        async def removed_before(chat: Any, part: Any, text: str) -> str:
            path = f"/api/sessions/{chat.id}/messages/{part.lines[place].id}"
            assert (await client.delete(path)).status_code == 204
            work._store = store  # type: ignore[method-assign]
            return await store(chat, part, text)

        work._store = removed_before  # type: ignore[method-assign]
        session = await say(client, *(f"Word {number}." for number in range(7)), platform=platform)
        exported = (await client.get(f"/api/sessions/{session}/export")).text
        assert ("They met." in exported, "They parted." in exported) == (False, True)
        assert 'tavernkit_summaries_total{status="stale"} 1.0' in (await client.get("/metrics")).text


def test_what_is_summarised_next() -> None:
    assert next_part("silly_tavern", lines(None, None, None, None), {}, 4) is None  # the last one does not count
    part = next_part("silly_tavern", lines(None, None, None, None, None), {}, 4)
    assert part is not None
    assert ([line.content for line in part.lines], part.before) == (["m0", "m1", "m2", "m3"], "")
    part = next_part("silly_tavern", lines(None, "old", None, None, None), {}, 2)
    assert part is not None
    assert ([line.content for line in part.lines], part.before) == (["m2", "m3"], "old")


async def test_a_long_part_is_summarised_piece_by_piece(start: StartApp) -> None:
    models = Models("First.", "Second.", "Third.")
    async with models.start(start, memory_every=4) as client:
        client.service.upstreams.get("small").context._configured = 5800
        await say(client, "One " * 500, "Two " * 500, "Three", "Four")
        first, second = (json.dumps(each) for each in models.memory.requests[:2])
        assert ("One One" in first, "Two Two" in first) == (True, False)
        assert ("One One" in second, "Two Two" in second) == (False, True)
