"""Usage of keys, by day, character and model."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from sqlalchemy import ColumnElement, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.server.storage.direct import fetch, run
from tavernkit.server.storage.statements import Rows, table_of, upsert_into
from tavernkit.server.storage.tables import ApiKey, Usage

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

PARTS = 16
"""The number of rows per counter on PostgreSQL, where a row is locked until its transaction is on disk."""

COST_DIGITS = 10
"""Digits after the point of costs in reports: what a sum of floats has beyond them is noise."""
COUNTS = ("requests", "input_tokens", "output_tokens", "cached_tokens", "predicted_tokens", "cost")
_NAMES = ("owner", "day", "character", "upstream", "model", "part")

Grouping: TypeAlias = Literal["key", "character", "model", "day"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
"""What a report can be grouped by."""

KEY_PREFIX = "key:"
"""The prefix of owners that are keys in the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Usage of one model; costs are in the currency of the settings' prices."""

    upstream: str
    model: str
    character: str = ""
    requests: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    predicted_tokens: int = 0
    """Tokens that the provider should have had in its cache."""
    cost: float = 0.0


async def add_uses(connection: AsyncConnection, owner: str, day: str, uses: Sequence[Use]) -> None:
    """Add to an owner's usage of a day. Must be the last statement of a transaction, because it locks shared rows."""
    if not uses:
        return
    on_sqlite = connection.dialect.name == "sqlite"
    part = 0 if on_sqlite else random.randrange(PARTS)
    # Always in the same order, so that two transactions never wait for each other.
    ordered = sorted(uses, key=lambda use: (use.character, use.upstream, use.model))
    rows = [{"owner": owner, "day": day, "part": part, **_columns(use)} for use in ordered]
    await run(connection, _adding(on_sqlite=on_sqlite), *rows)


def _columns(use: Use) -> dict[str, object]:
    return {name: getattr(use, name) for name in _FIELDS}


_FIELDS = tuple(each.name for each in fields(Use))


async def spent(connection: AsyncConnection, owner: str, day: str) -> tuple[int, float]:
    """Return the tokens and the cost of an owner on a day."""
    ((tokens, cost),) = await fetch(connection, _SPENT, {"owner": owner, "day": day})
    return int(tokens or 0), float(cost or 0.0)


async def read_usage(
    connection: AsyncConnection,
    *,
    first: str,
    last: str,
    by: Sequence[Grouping],
    owner: str | None = None,
    limit: int,
) -> list[dict[str, object]]:
    """Return the total usage of a range of days.

    Args:
        connection: The connection.
        first: The first day.
        last: The last day.
        by: What the sums are divided by.
        owner: The only owner; None for all.
        limit: The maximum number of rows.
    """
    table = table_of(Usage)
    columns: list[ColumnElement[object]] = []
    for each in by:
        names = {"key": ["owner"], "model": ["upstream", "model"]}.get(each, [each])
        columns += [table.c[name] for name in names]
    sums = [func.sum(table.c[name]).label(name) for name in COUNTS]
    query = select(*columns, *sums).where(table.c.day >= first, table.c.day <= last)
    if owner is not None:
        query = query.where(table.c.owner == owner)
    query = query.group_by(*columns).order_by(*columns).limit(limit)
    rows = [dict(row) for row in (await connection.execute(query)).mappings()]
    names = await _key_names(connection) if "key" in by else {}
    return [_usage_row(row, names) for row in rows if row["requests"] is not None]


def _usage_row(row: dict[str, object], names: dict[str, str]) -> dict[str, object]:
    shown: dict[str, object] = {}
    for name, value in row.items():
        if name == "owner":
            shown |= {"key": str(value).removeprefix(KEY_PREFIX), "key_name": names.get(str(value), "")}
        else:
            shown[name] = (
                round(float(str(value)), COST_DIGITS)
                if name == "cost"
                else int(str(value))
                if name in COUNTS
                else value
            )
    return shown


async def _key_names(connection: AsyncConnection) -> dict[str, str]:
    rows = (await connection.execute(select(ApiKey.id, ApiKey.name))).all()
    return {f"{KEY_PREFIX}{key_id}": name for key_id, name in rows}


@cache
def _adding(*, on_sqlite: bool) -> sqlite.Insert | postgresql.Insert:
    table, made = table_of(Usage), upsert_into(Usage, on_sqlite=on_sqlite)
    sums = {name: table.c[name] + made.excluded[name] for name in COUNTS}
    return made.on_conflict_do_update(index_elements=list(_NAMES), set_=sums)


def _spent() -> Rows:
    table = table_of(Usage)
    sums = func.sum(table.c.input_tokens + table.c.output_tokens), func.sum(table.c.cost)
    return select(*sums).where(table.c.owner == bindparam("owner"), table.c.day == bindparam("day"))


_SPENT = _spent()
