"""``kill -9`` at any moment loses no stored message and leaves no half turn."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from tavernkit.server import ServerConfig
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import ChatState
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.lines import COMPLETE, ChatLine, read_lines
from tavernkit.server.storage.tables import Turn
from tavernkit.server.storage.turns import DONE
from tests.server.databases import POSTGRES, database_url

CRASHES = int(os.environ.get("TAVERNKIT_CRASHES", "5"))
"""How often the server is killed: few in every run of the tests, 200 in ``make test-crashes``."""

SESSIONS = 6
REPLY_PATH = "/v1/chat/completions"


class Server:
    """A server with many lives behind one address."""

    def __init__(self, settings: dict[str, object]) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        descriptor = self._socket.fileno()
        command = [sys.executable, "-m", "tests.server.crash_server", json.dumps(settings), str(descriptor)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[descriptor]
        )
        self.pid = 0

    def start(self) -> None:
        """Begin a life."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("start\n")
        self._process.stdin.flush()
        self.pid = int(self._process.stdout.readline())

    def kill(self) -> None:
        """End it without a word."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """End for good."""
        self.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()
        self._socket.close()


class Talker:
    """A client that says numbered things in one session, and repeats each until it is answered."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.answered: list[tuple[str, str]] = []
        self.url = url
        self.stopping = False

    async def talk(self) -> None:
        """Talk until told to stop; the last thing said is answered, too."""
        async with httpx.AsyncClient(base_url=self.url, timeout=10) as client:
            while not self.stopping:
                number = len(self.answered) + 1
                text = f"number {number} of {self.name}"
                reply = await self._until_answered(client, f"{{{{incvar::count}}}}: {text}", f"{self.name}-{number}")
                self.answered.append((f"{number}: {text}", reply))

    async def _until_answered(self, client: httpx.AsyncClient, text: str, key: str) -> str:
        body = {"model": "aria", "messages": [{"role": "user", "content": text}], "tavernkit": {"session": self.name}}
        while True:
            try:
                reply = await client.post(REPLY_PATH, json=body, headers={"Idempotency-Key": key})
            except httpx.HTTPError:
                continue
            if reply.status_code == 200:
                return reply.json()["choices"][0]["message"]["content"]
            assert reply.status_code in (409, 503), reply.text


async def begin_life(server: Server) -> None:
    """Start the server and wait until it answers."""
    server.start()
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        assert (await client.get("/ready")).status_code == 200


def answers(talkers: list[Talker]) -> int:
    """How many replies all talkers together have got."""
    return sum(len(talker.answered) for talker in talkers)


async def until_answered(talkers: list[Talker]) -> None:
    """Wait until one of them gets a reply."""
    before = answers(talkers)
    async with asyncio.timeout(30):
        while answers(talkers) == before:  # noqa: ASYNC110  # what many do is looked at, not told
            await asyncio.sleep(0.005)


async def check(database: Database, talkers: list[Talker]) -> None:
    """Every invariant, for every session, in one look at the database: whatever happened, and whatever goes on now."""
    before = {talker.name: list(talker.answered) for talker in talkers}
    async with database.engine.connect() as connection:
        if not database.sqlite:
            await connection.execution_options(isolation_level="REPEATABLE READ")
        sessions = {chat.external_id: chat for chat in await chats.list_chats(connection, None)}
        lines = {chat.id: await read_lines(connection, chat.id) for chat in sessions.values()}
        turns = (await connection.execute(select(Turn.id, Turn.status, Turn.message_id, Turn.reply_id))).all()
    for talker in talkers:
        answered, chat = before[talker.name], sessions.get(talker.name)
        if chat is None:
            assert not answered
            continue
        said = lines[chat.id][1:]  # the first is the greeting
        check_session(chat, said, answered)
        assert len(said) // 2 <= len(talker.answered) + 1
    check_turns(turns, [line for each in lines.values() for line in each])


def check_session(chat: ChatState, said: list[ChatLine], answered: list[tuple[str, str]]) -> None:
    """User and reply in turn; nothing lost, nothing doubled; variables and replies agree."""
    replies = len(said) // 2
    assert [line.role for line in said] == (["user", "assistant"] * (replies + 1))[: len(said)]
    assert [line.position for line in said] == list(range(1, len(said) + 1))
    assert len(said) + 1 == chat.next_position
    pairs = [(said[at].content, said[at + 1].content) for at in range(0, replies * 2, 2)]
    assert pairs[: len(answered)] == answered
    local: Any = chat.variables.get("local", {})
    assert int(local.get("count", 0)) == replies
    assert all(line.status == COMPLETE for line in said)


def check_turns(turns: Sequence[Any], lines: list[ChatLine]) -> None:
    """A turn that is done has its message and its reply, any other has no reply; no reply is without a turn."""
    known = {line.id for line in lines}
    replies = {line.id for line in lines if line.role == "assistant" and line.turn_id is not None}
    done = {reply_id for _, status, _, reply_id in turns if status == DONE}
    assert done == replies
    assert all(message_id in known for _, _, message_id, _ in turns)
    assert all(reply_id is None for _, status, _, reply_id in turns if status != DONE)


@pytest.mark.parametrize("kind", ["SQLite", "PostgreSQL"] if POSTGRES else ["SQLite"])
async def test_nothing_is_lost_and_no_turn_is_half_done(tmp_path: Path, kind: str) -> None:
    dice = random.Random(13)
    where = database_url() if kind == "PostgreSQL" else {}
    settings = {"data": str(tmp_path), **where, "lease_seconds": 0.3, "busy_seconds": 5}
    server = Server(settings)
    database = Database(ServerConfig.model_validate(settings).database_url)
    talkers = [Talker(f"s{number}", server.url) for number in range(SESSIONS)]
    tasks: list[asyncio.Task[None]] = []
    try:
        await begin_life(server)
        tasks = [asyncio.create_task(talker.talk()) for talker in talkers]
        for number in range(CRASHES):
            if number % 2:  # every other life is killed in the middle of work, however slow the machine
                await until_answered(talkers)
            await asyncio.sleep(dice.uniform(0.01, 0.3))
            server.kill()
            await begin_life(server)
            await check(database, talkers)
        for talker in talkers:
            talker.stopping = True
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        await check(database, talkers)
    finally:
        for task in tasks:
            task.cancel()
        server.close()
        await database.close()
    assert answers(talkers) >= CRASHES
