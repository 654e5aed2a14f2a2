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
from pathlib import Path
from typing import Any

import httpx

from tests.server.databases import database_url

CRASHES = int(os.environ.get("TAVERNKIT_CRASHES", "5"))
"""How often the server is killed: few in every run of the tests, 200 in ``make test-postgres``."""

CHECKED_EVERY = 4
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
        body = {"model": "aria", "messages": [{"role": "user", "content": text}], "user": self.name}
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


async def check(url: str, talkers: list[Talker]) -> None:
    """Every invariant, for every session, whatever happened."""
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        await check_all(client, talkers)


async def check_all(client: httpx.AsyncClient, talkers: list[Talker]) -> None:
    """The same with a client. What was answered before the look must be there; more may be by then."""
    before = {talker.name: list(talker.answered) for talker in talkers}
    sessions = {each["session"]: each for each in (await client.get("/api/sessions")).json()["data"]}
    for talker in talkers:
        answered = before[talker.name]
        if talker.name not in sessions:
            assert not answered
            continue
        found = sessions[talker.name]
        session = (await client.get(f"/api/sessions/{found['id']}")).json()
        messages = (await client.get(f"/api/sessions/{found['id']}/messages")).json()["data"]
        after = (await client.get(f"/api/sessions/{found['id']}")).json()
        if session["version"] != after["version"]:
            continue  # a turn ended between the reads: the next check sees it
        check_session(session, messages[1:], answered)
        assert (len(messages) - 1) // 2 <= len(talker.answered) + 1


def check_session(session: dict[str, Any], messages: list[dict[str, Any]], answered: list[tuple[str, str]]) -> None:
    """User and reply in turn; nothing lost, nothing doubled; variables and replies agree."""
    roles = [message["role"] for message in messages]
    replies = len(messages) // 2
    assert roles == (["user", "assistant"] * (replies + 1))[: len(messages)]
    pairs = [(messages[at]["content"], messages[at + 1]["content"]) for at in range(0, replies * 2, 2)]
    assert pairs[: len(answered)] == answered
    assert int(session["variables"].get("count", 0)) == replies
    assert all(message["status"] == "complete" for message in messages)


async def test_nothing_is_lost_and_no_turn_is_half_done(tmp_path: Path) -> None:
    dice = random.Random(13)
    server = Server({"data": str(tmp_path), **database_url(), "lease_seconds": 0.3, "busy_seconds": 5})
    talkers = [Talker(f"s{number}", server.url) for number in range(SESSIONS)]
    tasks: list[asyncio.Task[None]] = []
    try:
        await begin_life(server)
        tasks = [asyncio.create_task(talker.talk()) for talker in talkers]
        for number in range(1, CRASHES + 1):
            await asyncio.sleep(dice.uniform(0.01, 0.3))
            server.kill()
            await begin_life(server)
            if number % CHECKED_EVERY == 0:
                await check(server.url, talkers)
        for talker in talkers:
            talker.stopping = True
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        await check(server.url, talkers)
    finally:
        for task in tasks:
            task.cancel()
        server.close()
    assert sum(len(talker.answered) for talker in talkers) >= CRASHES
