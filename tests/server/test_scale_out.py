"""Two processes on one database behind a balancer, one of which dies in mid-turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.scale_out import Balancer, run
from tests.server.databases import POSTGRES, database_url


@pytest.mark.skipif(not POSTGRES, reason="several machines share a PostgreSQL: make test-postgres")
async def test_no_message_is_lost_or_doubled_when_one_of_two_processes_dies(tmp_path: Path) -> None:
    result = await run(str(database_url()["db"]), tmp_path, sessions=6, turns=6)
    assert result.wrong == []
    assert len(result.answered) == 36


async def test_the_balancer_skips_who_does_not_answer() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello " + await reader.readline())
        writer.close()

    backend = await asyncio.start_server(greet, "127.0.0.1", 0)
    gone = await asyncio.start_server(greet, "127.0.0.1", 0)
    dead = gone.sockets[0].getsockname()[1]
    gone.close()
    balancer = Balancer([dead, backend.sockets[0].getsockname()[1]])
    await balancer.start()
    try:
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", balancer.port)
            writer.write(b"you\n")
            assert await reader.read() == b"hello you\n"
            writer.close()
    finally:
        await balancer.stop()
        backend.close()
