"""The statements of every turn, cached by shape and run with the driver itself.

Making a statement costs more than running it, and SQLAlchemy takes ten times as long as SQLite.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from sqlalchemy import (
    JSON,
    Delete,
    Dialect,
    Insert,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import TypeEngine

from tavernkit.server.storage.database import driver_of
from tavernkit.server.storage.sqlite import PromptConnection
from tavernkit.server.storage.tables import Base, CleanText, clean_text, dump_json

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


Rows: TypeAlias = Select[*tuple[Any, ...]]
"""A query of chosen columns."""


def table_of(model: type[Base]) -> Table:
    """Return the table of a model."""
    return cast("Table", model.__table__)


@cache
def insert_into(model: type[Base]) -> Insert:
    """Return an insert statement."""
    return insert(table_of(model))


def upsert_into(model: type[Base], *, on_sqlite: bool) -> sqlite.Insert | postgresql.Insert:
    """Return an insert statement for which ``on_conflict_do_update()`` can be set."""
    if on_sqlite:
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table_of(model))
    from sqlalchemy.dialects import postgresql  # which takes a while to load

    return postgresql.insert(table_of(model))


@cache
def select_by(model: type[Base], columns: tuple[str, ...], by: tuple[str, ...], *, lock: bool = False) -> Rows:
    """Return a query of columns by given values, which are passed by column name when it runs."""
    table = table_of(model)
    query = select(*(table.c[name] for name in columns)).where(*(table.c[name] == bindparam(name) for name in by))
    return query.with_for_update() if lock else query


@lru_cache(maxsize=128)
def select_several(model: type[Base], columns: tuple[str, ...], by: tuple[str, ...], count: int) -> Rows:
    """Return a query of this many rows; the values of the first are passed as ``id0`` and so on."""
    table = table_of(model)
    wanted = [and_(*(table.c[name] == bindparam(f"{name}{number}") for name in by)) for number in range(count)]
    return select(*(table.c[name] for name in columns)).where(or_(*wanted))


def change(model: type[Base], changes: Mapping[str, object], **by: object) -> tuple[Update, dict[str, object]]:
    """Return an update statement of columns by given values, and its parameters."""
    values = {**changes, **{f"old_{name}": value for name, value in by.items()}}
    return _change(model, tuple(changes), tuple(by)), values


@cache
def _change(model: type[Base], columns: tuple[str, ...], by: tuple[str, ...]) -> Update:
    table = table_of(model)
    conditions = [table.c[name] == bindparam(f"old_{name}") for name in by]
    return update(table).where(*conditions).values({name: bindparam(name) for name in columns})


COMPILED_STATEMENTS = 512

Row: TypeAlias = Sequence[Any]
"""A row of column values."""
Values: TypeAlias = Mapping[str, object]
Statement: TypeAlias = Select[*tuple[Any, ...]] | Insert | Update | Delete
_Convert: TypeAlias = Callable[[Any], Any]


async def fetch(connection: AsyncConnection, query: Rows, values: Values) -> Sequence[Row]:
    """Run a query.

    Args:
        connection: The connection, and the transaction that it is in.
        query: The query.
        values: Its values by name.
    """
    driver = driver_of(connection)
    on_sqlite = isinstance(driver, PromptConnection)
    if not (driver.direct.in_transaction if on_sqlite else driver.is_in_transaction()):  # SQLAlchemy starts one
        return (await connection.execute(query, values)).all()
    made = _compiled(query, connection.dialect)
    try:
        if on_sqlite:
            return made.read(driver.direct.execute(made.sql, made.bound(values)).fetchall())
        return made.read(await driver.fetch(made.sql, *made.bound(values)))
    except Exception as error:
        if (known := _as_sqlalchemy(error, made.sql)) is None:
            raise
        raise known from error


async def fetch_one(connection: AsyncConnection, query: Rows, values: Values) -> Row | None:
    """Run a query that returns at most one row.

    Args:
        connection: The connection, and the transaction that it is in.
        query: The query.
        values: Its values by name.
    """
    rows = await fetch(connection, query, values)
    return rows[0] if rows else None


async def run(connection: AsyncConnection, statement: Insert | Update | Delete, values: Values, *more: Values) -> int:
    """Run a statement that changes rows; return their number.

    Args:
        connection: The connection, and the transaction that it is in.
        statement: The statement.
        values: Its values by name.
        more: More sets of values to run it with.
    """
    driver = driver_of(connection)
    on_sqlite = isinstance(driver, PromptConnection)
    if not (driver.direct.in_transaction if on_sqlite else driver.is_in_transaction()):
        return (await connection.execute(statement, [values, *more] if more else values)).rowcount
    made = _compiled(statement, connection.dialect)
    try:
        if on_sqlite:
            if more:
                return driver.direct.executemany(made.sql, map(made.bound, (values, *more))).rowcount
            return driver.direct.execute(made.sql, made.bound(values)).rowcount
        if more:
            await driver.executemany(made.sql, [made.bound(each) for each in (values, *more)])
            return 1 + len(more)
        status: str = await driver.execute(made.sql, *made.bound(values))
        return int(status.rsplit(" ", 1)[-1])  # "UPDATE 1", "INSERT 0 1"
    except Exception as error:
        if (known := _as_sqlalchemy(error, made.sql)) is None:
            raise
        raise known from error


class _Compiled:
    """A statement compiled for a driver."""

    def __init__(self, statement: Statement, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)  # Any: an SQL compiler's, which has all of these
        self.sql: str = compiled.string
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._written: list[tuple[str, _Convert | None]] = [
            (name, _writer(compiled.binds[name].type, dialect)) for name in compiled.positiontup
        ]
        columns = statement.selected_columns if isinstance(statement, Select) else ()
        # Drivers return numbers and texts unchanged; asyncpg also parses JSON.
        readers = [
            _implementation(each.type, dialect).result_processor(dialect, None) if isinstance(each.type, JSON) else None
            for each in columns
        ]
        self._read = readers if any(reader is not None for reader in readers) else []

    def bound(self, values: Values) -> list[object]:
        """Return the values in the driver's order and format."""
        if self._fixed:
            values = {**self._fixed, **values}
        return [values[name] if write is None else write(values[name]) for name, write in self._written]

    def read(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Convert rows to the types of their columns."""
        if not self._read:
            return rows
        return [
            [value if read is None else read(value) for value, read in zip(row, self._read, strict=True)]
            for row in rows
        ]


_compiled = lru_cache(COMPILED_STATEMENTS)(_Compiled)


def _implementation(of: TypeEngine[Any], dialect: Dialect) -> TypeEngine[Any]:
    return of.dialect_impl(dialect)


def _writer(of: TypeEngine[Any], dialect: Dialect) -> _Convert | None:
    """What writes values of a type; SQLAlchemy's own way to these two is longer."""
    if isinstance(of, CleanText):
        return clean_text
    return dump_json if isinstance(of, JSON) else _implementation(of, dialect).bind_processor(dialect)


def _as_sqlalchemy(error: Exception, sql: str) -> Exception | None:
    """Convert a driver's error to SQLAlchemy's, which does not show values; None for other errors."""
    if isinstance(error, sqlite3.Error):
        kind = IntegrityError if isinstance(error, sqlite3.IntegrityError) else DBAPIError
        return kind(sql, None, error, hide_parameters=True)
    state = getattr(error, "sqlstate", None)  # PostgreSQL's errors have one
    if not isinstance(state, str):
        return None
    kind = IntegrityError if state.startswith(_INTEGRITY) else DBAPIError
    return kind(sql, None, error, hide_parameters=True)


_INTEGRITY = "23"
"""The class of PostgreSQL's error codes for constraint violations."""
