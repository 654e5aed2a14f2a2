"""Transactions that share a flush of the disk: each is whole, undone alone, and over only after the flush."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError

from tavernkit.errors import ConfigError
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import Selection
from tavernkit.server.storage.database import Database, database_errors
from tavernkit.server.storage.lines import insert_lines, new_line
from tavernkit.server.storage.sqlite import CommitPace, PromptConnection
from tavernkit.server.storage.tables import Chat


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    made = Database(f"sqlite+aiosqlite:///{tmp_path / 'x.db'}")
    await made.migrate()
    yield made
    await made.close()


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[], list[str]]:
    """What another process sees."""

    def read() -> list[str]:
        with closing(sqlite3.connect(tmp_path / "x.db")) as other:
            return sorted(row[0] for row in other.execute("SELECT external_id FROM sessions"))

    return read


async def store(database: Database, name: str) -> None:
    async with database.write(together=True) as connection:
        await chats.create_chat(connection, "o", name, Selection(character="c"))


async def fail(database: Database, name: str) -> None:
    async with database.write(together=True) as connection:
        await chats.create_chat(connection, "o", name, Selection(character="c"))
        raise LookupError(name)


def driver_of_writer(database: Database) -> PromptConnection:
    assert database._writer is not None
    assert database._writer._opened is not None
    return database._writer._opened[1]


def statements_of(database: Database) -> list[str]:
    found: list[str] = []
    driver_of_writer(database).direct.set_trace_callback(found.append)
    return found


async def test_those_who_come_together_are_flushed_together(
    database: Database, stored: Callable[[], list[str]]
) -> None:
    found = statements_of(database)
    await asyncio.gather(*(store(database, f"s{number}") for number in range(20)))
    assert (found.count("BEGIN IMMEDIATE"), found.count("COMMIT")) == (1, 1)
    assert len(stored()) == 20


async def test_one_that_fails_is_undone_alone(database: Database, stored: Callable[[], list[str]]) -> None:
    work = [fail(database, "a"), store(database, "b"), fail(database, "c"), store(database, "d")]
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    assert [type(each) for each in outcomes] == [LookupError, type(None), LookupError, type(None)]
    assert stored() == ["b", "d"]


async def test_what_the_database_refuses_is_undone_alone(database: Database, stored: Callable[[], list[str]]) -> None:
    async def twice() -> None:
        async with database.write(together=True) as connection:
            await chats.create_chat(connection, "o", "twice", Selection(character="c"))
            line = new_line("user", "hello", {})
            await insert_lines(connection, "none", [line, line], now=0.0)

    outcomes = await asyncio.gather(store(database, "a"), twice(), store(database, "b"), return_exceptions=True)
    assert [type(each) for each in outcomes] == [type(None), IntegrityError, type(None)]
    assert stored() == ["a", "b"]


async def test_a_failed_flush_fails_all(
    database: Database, stored: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: PromptConnection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(PromptConnection, "commit_now", broken)
        outcomes = await asyncio.gather(store(database, "a"), store(database, "b"), return_exceptions=True)
    assert [str(each) for each in outcomes] == ["disk I/O error"] * 2
    await store(database, "c")
    assert stored() == ["c"]


async def test_a_slow_disk_is_waited_for_in_the_thread(
    database: Database, stored: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: CommitPace) -> bool:
        return False

    monkeypatch.setattr(CommitPace, "is_quick", never)
    monkeypatch.delattr(PromptConnection, "commit_now")
    await asyncio.gather(*(store(database, f"s{number}") for number in range(5)))
    found = statements_of(database)
    first = asyncio.create_task(store(database, "t"))
    while "COMMIT" not in found:  # noqa: ASYNC110  # nobody tells when the thread begins
        await asyncio.sleep(0)
    await asyncio.gather(first, store(database, "u"), store(database, "v"))
    assert found.count("COMMIT") == 2
    assert stored() == ["s0", "s1", "s2", "s3", "s4", "t", "u", "v"]


async def test_another_process_that_writes_is_waited_for(
    database: Database, stored: Callable[[], list[str]], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        work = asyncio.gather(store(database, "a"), store(database, "b"))
        done, _ = await asyncio.wait([work], timeout=0.05)
        assert not done
        other.execute("COMMIT")
    await work
    assert stored() == ["a", "b"]


@pytest.mark.parametrize("together", [True, False])
async def test_another_process_that_never_ends_its_transaction_is_an_error(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    monkeypatch.setattr("tavernkit.server.storage.sqlite.BUSY_MILLISECONDS", 10)
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ConfigError, match="cannot be used: database is locked"), database_errors():
            async with database.write(together=together):
                pass


async def test_a_long_transaction_has_a_flush_of_its_own(database: Database, stored: Callable[[], list[str]]) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def long() -> None:
        async with database.write() as connection:
            begun.set()
            await may_end.wait()
            await chats.create_chat(connection, "o", "long", Selection(character="c"))

    found = statements_of(database)
    work = asyncio.create_task(long())
    await begun.wait()
    later = [asyncio.create_task(store(database, name)) for name in ("a", "b")]
    await asyncio.wait(later, timeout=0.05)
    may_end.set()
    await asyncio.gather(work, *later)
    assert found.count("COMMIT") == 2
    assert stored() == ["a", "b", "long"]


async def test_one_that_waits_inside_is_flushed_when_it_ends(
    database: Database, stored: Callable[[], list[str]]
) -> None:
    """The item of a new session is parsed in a thread, for instance."""
    may_end = asyncio.Event()

    async def slow() -> None:
        async with database.write(together=True) as connection:
            await may_end.wait()
            await chats.create_chat(connection, "o", "slow", Selection(character="c"))

    work = [asyncio.create_task(each) for each in (store(database, "a"), slow(), store(database, "b"))]
    await asyncio.wait(work, timeout=0.05)
    assert stored() == []
    may_end.set()
    await asyncio.gather(*work)
    assert stored() == ["a", "b", "slow"]


async def test_one_who_gives_up_while_waiting_holds_up_nobody(
    database: Database, stored: Callable[[], list[str]]
) -> None:
    gone = asyncio.create_task(store(database, "gone"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(store(database, "a"), store(database, "b"))
    assert gone.cancelled()
    assert stored() == ["a", "b"]


@pytest.fixture
async def slow_deletes(database: Database) -> None:
    """Deleting a session takes a while."""
    async with database.write() as connection:
        await connection.exec_driver_sql(
            "CREATE TRIGGER slow BEFORE DELETE ON sessions BEGIN SELECT count(*) FROM ("
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) SELECT i FROM n); END"
        )


async def remove(database: Database, name: str, *, together: bool = False) -> None:
    async with database.write(together=together) as connection:
        await connection.execute(delete(Chat).where(Chat.external_id == name))


@pytest.mark.usefixtures("slow_deletes")
async def test_one_who_gives_up_while_the_thread_works_is_cancelled_and_others_go_on(
    database: Database, stored: Callable[[], list[str]]
) -> None:
    """SQLAlchemy closes the connection then; the next transaction opens another."""
    await store(database, "a")
    work = asyncio.create_task(remove(database, "a"))
    await asyncio.sleep(0.02)
    work.cancel()
    await asyncio.wait([work])
    assert work.cancelled()
    await asyncio.gather(store(database, "b"), store(database, "c"))
    assert stored() == ["a", "b", "c"]
    await remove(database, "a")
    assert stored() == ["b", "c"]


async def test_one_who_gives_up_twice_leaves_no_connection_that_is_closing(
    database: Database, stored: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLAlchemy does not wait for the thread then, which closes the connection after the commit."""
    await store(database, "a")
    driver = driver_of_writer(database)
    thread_is_busy, thread_may_go_on = threading.Event(), threading.Event()

    def work_for_long() -> None:
        thread_is_busy.set()
        thread_may_go_on.wait()

    driver._tx.put_nowait((None, work_for_long))
    await asyncio.to_thread(thread_is_busy.wait)

    async def alone() -> None:
        async with database.write() as connection:
            await chats.create_chat(connection, "o", "b", Selection(character="c"))

    with monkeypatch.context() as patch:
        patch.setattr(CommitPace, "is_quick", lambda _: False)
        work = asyncio.create_task(alone())
        while driver._tx.empty():  # noqa: ASYNC110  # nobody tells when the thread is asked
            await asyncio.sleep(0)
        work.cancel()
        await asyncio.sleep(0)
        work.cancel()
        await asyncio.wait([work])
        assert work.cancelled()
    thread_may_go_on.set()
    await asyncio.to_thread(driver._thread.join)
    await store(database, "c")
    assert stored() == ["a", "b", "c"]


async def test_a_connection_that_is_closing_is_not_used(database: Database, stored: Callable[[], list[str]]) -> None:
    """What SQLite frees in the thread must not be in use outside of it: that can end the process."""
    await store(database, "a")
    driver = driver_of_writer(database)
    driver.stop()
    with pytest.raises(ValueError, match="Connection closed"):
        driver.direct.execute("SELECT 1")
    await asyncio.wait_for(driver.close(), 10)
    await store(database, "b")
    assert stored() == ["a", "b"]


@pytest.mark.usefixtures("slow_deletes")
async def test_what_shares_a_flush_does_not_wait_for_the_thread(
    database: Database, stored: Callable[[], list[str]]
) -> None:
    """One that gives up there would take the others with it."""
    await store(database, "a")
    work = asyncio.create_task(remove(database, "a", together=True))
    asyncio.get_running_loop().call_later(0.02, work.cancel)
    await asyncio.gather(store(database, "b"), work, store(database, "c"), return_exceptions=True)
    assert set(stored()) >= {"b", "c"}
