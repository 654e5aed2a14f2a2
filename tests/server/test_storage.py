"""The tables, the connections and the operations on them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, inspect
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.errors import ConfigError
from tavernkit.server import ServerConfig
from tavernkit.server.migrations import HEAD
from tavernkit.server.storage import chats, items
from tavernkit.server.storage import database as database_module
from tavernkit.server.storage.chats import Selection
from tavernkit.server.storage.database import Database, driver_of, migration_config, run_migrations
from tavernkit.server.storage.items import item_file, save_item, slug
from tavernkit.server.storage.lines import (
    ChatLine,
    count_lines,
    insert_lines,
    new_line,
    place_lines,
    read_lines,
    store_lines,
)
from tavernkit.server.storage.sqlite import COMMITS_IN_THREAD, CommitPace
from tavernkit.server.storage.tables import Base, dump_json, storable, storable_json
from tavernkit.server.storage.turns import read_globals, write_globals
from tests.server.databases import POSTGRES


@pytest.fixture
async def database(settings: dict[str, object]) -> AsyncIterator[Database]:
    made = Database(ServerConfig.model_validate(settings).database_url)
    await made.migrate()
    yield made
    await made.close()


def differences(connection: Connection) -> list[object]:
    return compare_metadata(MigrationContext.configure(connection), Base.metadata)


def tables_of(connection: Connection) -> dict[str, object]:
    """Everything that the database itself says about its tables."""
    found = inspect(connection)
    return {
        name: (
            {each["name"]: {**each, "type": str(each["type"])} for each in found.get_columns(name)},
            found.get_pk_constraint(name)["constrained_columns"],
            sorted(found.get_foreign_keys(name), key=repr),
            sorted(found.get_indexes(name), key=repr),
            sorted(found.get_unique_constraints(name), key=repr),
        )
        for name in found.get_table_names()
    }


async def replaced(database: Database, make: Callable[[Connection], None]) -> None:
    """Make the tables anew in another way."""

    def replace(connection: Connection) -> None:
        Base.metadata.drop_all(connection)
        connection.exec_driver_sql("DROP TABLE alembic_version")
        make(connection)

    async with database.write() as connection:
        if database.sqlite:
            await connection.begin()
        await connection.run_sync(replace)


async def test_migrations_and_a_new_database_make_the_same_tables(database: Database) -> None:
    async with database.read() as connection:
        assert await connection.run_sync(differences) == []
        made = await connection.run_sync(tables_of)
    await replaced(database, run_migrations)
    async with database.read() as connection:
        assert await connection.run_sync(tables_of) == made
        assert await connection.run_sync(differences) == []
    assert ScriptDirectory.from_config(migration_config()).get_current_head() == HEAD
    await database.require_tables()


async def test_an_older_database_is_migrated(database: Database) -> None:
    def make(connection: Connection) -> None:
        config = migration_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")

    await replaced(database, make)
    with pytest.raises(ConfigError, match="no tables of this version"):
        await database.require_tables()
    await database.migrate()
    await database.require_tables()
    async with database.read() as connection:
        assert await connection.run_sync(differences) == []


async def test_several_processes_may_migrate_at_once(settings: dict[str, object]) -> None:
    url = ServerConfig.model_validate(settings).database_url
    databases = [Database(url) for _ in range(3)]
    await asyncio.gather(*(each.migrate() for each in databases))
    for each in databases:
        await each.ping()
        await each.close()


async def test_a_new_file_that_others_are_making_is_waited_for(tmp_path: Path) -> None:
    """SQLite refuses at once to change the journal of a file that another connection has a lock on."""
    path = tmp_path / "new.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE t (a)")
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO t VALUES (1)")
    database = Database(f"sqlite+aiosqlite:///{path}")
    answer = asyncio.create_task(database.ping())
    done, _ = await asyncio.wait([answer], timeout=0.2)
    assert not done
    other.execute("COMMIT")
    other.close()
    await answer
    await database.close()


async def test_what_no_database_holds_is_replaced(database: Database) -> None:
    native: dict[str, Any] = {"a\x00": ["\ud800", float("nan"), {"b": "ok"}]}
    async with database.write() as connection:
        line = new_line("user", "nul \x00, half \udfff", native)
        chat = await chats.create_chat(connection, "o", "s", Selection(character="c"), [line])
    async with database.read() as connection:
        stored = (await read_lines(connection, chat.id))[0]
    assert stored.content == "nul \ufffd, half \ufffd"
    assert stored.native == {"a\ufffd": ["\ufffd", None, {"b": "ok"}]}
    assert storable("plain") == "plain"
    assert storable_json(("x", 1)) == ["x", 1]


TEXTS = st.text(st.characters()) | st.sampled_from(["\x00", "\ud83d", "\\u0000", "NaN", "\U0001f30a"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=8,
)


@given(VALUES)
def test_json_is_written_as_it_can_be_stored(value: object) -> None:
    text = dump_json(value)
    assert json.loads(text) == storable_json(value)
    assert "\x00" not in json.loads(f"[{text}]").__repr__()
    text.encode()


async def test_errors_of_the_driver_are_those_of_sqlalchemy(database: Database) -> None:
    line = new_line("user", "a secret", {})
    async with database.write() as connection:
        chat = await chats.create_chat(connection, "o", "s", Selection(character="c"), [line])

    async def fail(write: Callable[[AsyncConnection], Awaitable[None]]) -> None:
        async with database.write() as connection:
            await chats.get_chat(connection, chat.id)
            await write(connection)

    with pytest.raises(IntegrityError) as failed:
        await fail(lambda connection: insert_lines(connection, chat.id, [line], now=1.0))
    assert "a secret" not in str(failed.value)
    with pytest.raises(IntegrityError):
        await fail(lambda connection: chats.update_chat(connection, chat, owner=None))
    async with database.read() as connection:
        assert await count_lines(connection, chat.id) == 1


@pytest.mark.skipif(bool(POSTGRES), reason="about SQLite")
async def test_a_transaction_waits_for_those_of_other_processes(database: Database, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "tavernkit.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def store() -> None:
        async with database.write() as connection:
            await chats.create_chat(connection, "o", "s", Selection(character="c"))

    writing = asyncio.create_task(store())
    done, _ = await asyncio.wait([writing], timeout=0.1)
    assert not done
    other.execute("COMMIT")
    other.close()
    await writing


def test_commits_wait_beside_the_event_loop_while_the_disk_is_slow() -> None:
    pace = CommitPace()
    for seconds in (1.0, 0.0, 1.0):  # a slow one now and then is nothing
        assert pace.is_quick()
        pace.note(seconds)
    assert pace.is_quick()
    pace.note(1.0)
    assert [pace.is_quick() for _ in range(COMMITS_IN_THREAD)] == [False] * COMMITS_IN_THREAD
    assert pace.is_quick()


async def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    async def broken() -> None:
        async with database.write() as connection:
            await chats.create_chat(connection, "o", "s", Selection(character="c"))
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        await broken()
    async with database.read() as connection:
        assert await chats.find_chat(connection, "o", "s") is None


async def test_lines_are_replaced_by_their_ids(database: Database) -> None:
    a, b, c, d = (new_line("user", text, {}) for text in "abcd")
    async with database.write() as connection:
        chat = await chats.create_chat(connection, "o", "s", Selection(character="c"), [a, b, c])
        old = await read_lines(connection, chat.id)
        changed = [old[0], ChatLine(id=b.id, position=0, role="user", content="B", native={}), d]
        await store_lines(connection, chat.id, old, place_lines(chat, old, changed)[0])
    async with database.write() as connection:
        now = await read_lines(connection, chat.id)
        assert [line.content for line in now] == ["a", "B", "d"]
        chat = await chats.get_chat(connection, chat.id)
        await chats.update_chat(connection, chat, next_position=10)
        chat = await chats.get_chat(connection, chat.id)
        await store_lines(connection, chat.id, now, place_lines(chat, now, [now[2], now[0]])[0])
    async with database.read() as connection:
        assert [line.content for line in await read_lines(connection, chat.id)] == ["d", "a"]


async def test_more_lines_are_removed_than_a_statement_has_values(database: Database) -> None:
    many = [new_line("user", "x", {}) for _ in range(33_000 if POSTGRES else 600)]
    async with database.write() as connection:
        if not POSTGRES:  # how it was compiled decides
            driver_of(connection).direct.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 550)
        chat = await chats.create_chat(connection, "o", "s", Selection(character="c"), many)
        old = await read_lines(connection, chat.id, limit=len(many))
        await store_lines(connection, chat.id, old, old[:1])
        assert await count_lines(connection, chat.id) == 1


async def test_shared_variables_keep_what_others_changed(database: Database) -> None:
    async with database.write() as connection:
        await write_globals(connection, "o", "p", {}, {"a": 1, "b": [2]})
    async with database.write() as connection:
        await write_globals(connection, "o", "p", {"a": 1}, {"a": 5})
        await write_globals(connection, "o", "p", {"b": [2]}, {})
    async with database.read() as connection:
        assert await read_globals(connection, "o", "p") == {"a": 5}
        assert await read_globals(connection, "other", "p") == {}


async def test_many_writers_at_once(database: Database) -> None:
    async def count(number: int) -> None:
        async with database.write() as connection:
            chat = await chats.create_chat(connection, "o", f"s{number % 4}", Selection(character="c"))
            chat = await chats.get_chat(connection, chat.id, lock=True)
            await chats.update_chat(connection, chat)

    async with database.write() as connection:
        for number in range(4):
            await chats.create_chat(connection, "o", f"s{number}", Selection(character="c"))
    await asyncio.gather(*(count(number) for number in range(40)))
    async with database.read() as connection:
        assert [chat.version for chat in await chats.list_chats(connection, "o")] == [10] * 4


async def test_items_have_versions_and_readable_ids(database: Database) -> None:
    common = {"platform": "silly_tavern", "filename": "x"}
    async with database.write() as connection:
        first = await save_item(connection, "book", name="Ää & Öö!", file=b"1", **common)
        second = await save_item(connection, "book", name="Ää & Öö!", file=b"2", **common)
        again = await save_item(connection, "book", name="New", file=b"3", item_id=first.id, **common)
        assert (first.id, second.id, again.version) == ("ää-öö", "ää-öö-2", 2)
        assert await item_file(connection, "book", first.id) == b"3"
    assert slug("!!!") == ""


async def test_all_items_of_a_kind_are_more_than_a_page(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "MAX_PAGE", 2)
    monkeypatch.setattr(items.list_items, "__kwdefaults__", {"after": "", "limit": 2, "platform": None})
    async with database.write() as connection:
        for name in "edcba":
            await save_item(connection, "book", name=name, platform="silly_tavern", file=b"{}", filename="x")
        assert [info.id for info in await items.all_items(connection, "book")] == ["a", "b", "c", "d", "e"]


@pytest.mark.skipif(not POSTGRES, reason="SQLite has no connections to lose")
async def test_connections_that_are_lost_are_replaced(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def backend() -> int:
        async with database.read() as connection:
            return (await connection.exec_driver_sql("SELECT pg_backend_pid()")).scalar_one()

    first = await backend()
    assert await backend() == first
    async with database.read() as connection:
        database_module.driver_of(connection).terminate()  # it knows that it is closed
    second = await backend()
    assert second != first
    monkeypatch.setattr(database_module, "PING_SECONDS", -1.0)  # it is asked
    other = Database(database.engine.url.render_as_string(hide_password=False))
    async with other.read() as connection:
        await connection.exec_driver_sql(f"SELECT pg_terminate_backend({second})")
    await other.close()
    assert await backend() != second


async def test_writers_who_give_up_leave_no_transaction_behind(database: Database) -> None:
    """What is written afterwards must be on the disk, not in a transaction that somebody has forgotten."""

    async def write(name: str) -> None:
        async with database.write(together=True) as connection:
            await chats.create_chat(connection, "o", name, Selection(character="c"))

    await write("first")
    url = database.engine.url.render_as_string(hide_password=False)
    other = Database(url)
    for steps in range(60):
        work = asyncio.create_task(write(f"gone {steps}"))
        for _ in range(steps):
            await asyncio.sleep(0)
        work.cancel()
        await asyncio.wait([work])
        await write(f"kept {steps}")
        async with other.read() as connection:
            assert await chats.find_chat(connection, "o", f"kept {steps}") is not None, steps
    await other.close()
