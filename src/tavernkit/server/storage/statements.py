"""Statements of every turn, cached by shape, because making one costs more than running it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from sqlalchemy import Insert, Select, Table, Update, and_, bindparam, insert, or_, select, update

from tavernkit.server.storage.tables import Base

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
