"""Usage and daily budgets of keys: tokens, and money if models have prices, by day, character and model."""

from __future__ import annotations

import csv
import io
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from sqlalchemy import ColumnElement, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import Plan, count_tokens
from tavernkit._values import IdentityCache, Json, is_mapping, is_object, is_sequence
from tavernkit.dialects._messages import MessageLike
from tavernkit.models import Reply, Request, Usage
from tavernkit.prompt._block import Message
from tavernkit.server.config import Price, UpstreamConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.keys import KEY_PREFIX, Client
from tavernkit.server.limits import MAX_USAGE_ROWS, USAGE_REPORT_DAYS
from tavernkit.server.storage import tables
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.statements import Rows, fetch, run, table_of, upsert_into

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


MILLION = 1_000_000

PARTS = 16
"""The number of rows per counter on PostgreSQL, where a row is locked until its transaction is on disk."""

COST_DIGITS = 10
"""Digits after the point of costs in reports: what a sum of floats has beyond them is noise."""
COUNTS = ("requests", "input_tokens", "output_tokens", "cached_tokens", "predicted_tokens", "cost")
_NAMES = ("owner", "day", "character", "upstream", "model", "part")

Grouping: TypeAlias = Literal["key", "character", "model", "day"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
"""What a report can be grouped by."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamExchange:
    """A request that an upstream answered."""

    upstream: str
    config: UpstreamConfig
    request: Request
    reply: Reply
    predicted_tokens: int = 0


class Accounts:
    """Counts the usage of keys across all processes, and refuses turns of keys that have used up their budget."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    @property
    def today(self) -> date:
        """The current day, in UTC."""
        return datetime.fromtimestamp(self._clock(), UTC).date()

    async def check(self, connection: AsyncConnection, client: Client | None) -> None:
        """Raise ServiceError 429 if a client has used up its daily budget."""
        if client is None or (client.daily_tokens is None and client.daily_cost is None):
            return
        tokens, cost = await spent(connection, client.owner, self.today.isoformat())
        if client.daily_tokens is not None and tokens >= client.daily_tokens:
            raise self._over(f"the key has used the {client.daily_tokens} tokens that it may use per day")
        if client.daily_cost is not None and cost >= client.daily_cost:
            raise self._over(f"the key has used the {client.daily_cost:g} that it may cost per day")

    async def add(self, connection: AsyncConnection, owner: str, uses: Sequence[Use]) -> None:
        """Add to an owner's usage of today."""
        await add_uses(connection, owner, self.today.isoformat(), uses)

    def _over(self, message: str) -> ServiceError:
        tomorrow = datetime.combine(self.today + timedelta(days=1), datetime.min.time(), UTC)
        message_text = f"{message}; it can continue at {tomorrow:%Y-%m-%dT%H:%M:%SZ}"
        wait = tomorrow.timestamp() - self._clock()
        return ServiceError(429, message_text, code="budget_exceeded", retry_after=wait)


_COUNTED: IdentityCache[int] = IdentityCache(4)
"""Tokens of the last prompts: those of a turn are needed for its response and for the usage of its owner."""


def uses_of(exchanged: Sequence[UpstreamExchange], character: str, plan: Plan | None) -> list[Use]:
    """Return the usage of a turn's requests, one entry per model.

    Args:
        exchanged: The requests and their replies.
        character: The character of the turn.
        plan: The prompt of the last request: its tokens are used if the provider reports none.
    """
    found: dict[tuple[str, str], Use] = {}
    for each in exchanged:
        usage = each.reply.usage
        if not usage.reported:
            usage = estimated_usage(each.reply, plan if each is exchanged[-1] else None, each.request.messages or ())
        model = each.request.model
        use = Use(
            upstream=each.upstream,
            model=model,
            character=character,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            predicted_tokens=each.predicted_tokens,
            cost=cost_of(usage, price_of(each.config, model)),
        )
        before = found.get((use.upstream, use.model))
        found[use.upstream, use.model] = use if before is None else _sum(before, use)
    return list(found.values())


def passed_use(upstream: str, config: UpstreamConfig, model: str, answer: Json) -> Use:
    """Return the usage of a forwarded request (embeddings, moderations), if the answer reports it.

    Args:
        upstream: The upstream's name.
        config: Its settings.
        model: The model that was asked.
        answer: The answer.
    """
    counts = answer.get("usage") if is_object(answer) else None
    tokens = counts.get("prompt_tokens") if is_object(counts) else None
    usage = Usage(input_tokens=tokens if isinstance(tokens, int) and tokens > 0 else 0)
    cost = cost_of(usage, price_of(config, model))
    return Use(upstream=upstream, model=model, input_tokens=usage.input_tokens, cost=cost)


def estimated_usage(reply: Reply, plan: Plan | None, messages: Sequence[MessageLike] = ()) -> Usage:
    """Estimate the tokens of a request whose provider reports none.

    Args:
        reply: The reply.
        plan: The prompt, if known: its tokens are already counted.
        messages: The messages of the request otherwise.
    """
    counts = getattr(plan, "token_counts", None)
    if isinstance(counts, dict):
        prompt = sum(counts.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # a table of numbers
    elif plan is not None:
        prompt = _COUNTED.get(plan)
        if prompt is None:
            prompt = _COUNTED.put(sum(count_tokens(each.content) for each in plan.messages if each.content), plan)
    else:
        prompt = sum(count_tokens(text) for text in map(_text, messages) if text)
    return Usage(input_tokens=prompt, output_tokens=_tokens(reply.text, plan))


def _tokens(text: str, plan: Plan | None) -> int:
    """Return the tokens of a text, counted as those of the prompt; 0 there may mean that it cannot be counted so."""
    own = plan.count_tokens if plan is not None and text else None
    return (own(text) if own is not None else 0) or count_tokens(text)


def price_of(config: UpstreamConfig, model: str) -> Price | None:
    """Return the price of a model: that of the first pattern that matches its name."""
    return next((price for pattern, price in config.prices.items() if fnmatchcase(model, pattern)), None)


def cost_of(usage: Usage, price: Price | None) -> float:
    """Return the cost of a request; 0 without a price."""
    if price is None:
        return 0.0
    cached = min(usage.cached_tokens, usage.input_tokens)
    reading = price.input if price.cached is None else price.cached
    new = usage.input_tokens - cached
    return (new * price.input + cached * reading + usage.output_tokens * price.output) / MILLION


def period(first: date | None, last: date | None, today: date) -> tuple[str, str]:
    """Return the days of a report; by default the last thirty."""
    last = last or today
    first = first or last - timedelta(days=min(USAGE_REPORT_DAYS - 1, last.toordinal() - 1))
    if first > last:
        raise ServiceError(
            422, f"the first day, {first}, is after the last, {last}", code="invalid_request", param="first"
        )
    return first.isoformat(), last.isoformat()


async def usage_report(
    database: Database, *, first: str, last: str, by: Sequence[Grouping] = GROUPINGS, owner: str | None = None
) -> list[dict[str, object]]:
    """Return the usage, grouped as requested.

    Args:
        database: The database.
        first: The first day.
        last: The last day.
        by: What the totals are grouped by.
        owner: Only this owner; None for all.

    Raises:
        ServiceError: The report would be too long.
    """
    chosen = list(dict.fromkeys(by))
    async with database.read() as connection:
        rows = await read_usage(connection, first=first, last=last, by=chosen, owner=owner, limit=MAX_USAGE_ROWS + 1)
    if len(rows) > MAX_USAGE_ROWS:
        message = f"the report has more than {MAX_USAGE_ROWS} rows: ask for fewer days, or group by less"
        raise ServiceError(422, message, code="report_too_long", param="by")
    return rows


def usage_csv(rows: Sequence[Mapping[str, object]], by: Sequence[Grouping]) -> str:
    """Return the report as CSV with a header."""
    columns: list[str] = []
    for each in dict.fromkeys(by):
        columns += {"key": ["key", "key_name"], "model": ["upstream", "model"]}.get(each, [each])
    file = io.StringIO()
    writer = csv.DictWriter(file, [*columns, *COUNTS], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _sum(one: Use, other: Use) -> Use:
    counts = {name: getattr(one, name) + getattr(other, name) for name in COUNTS}
    return Use(upstream=one.upstream, model=one.model, character=one.character, **counts)


def _text(message: MessageLike) -> str:
    content = message.content if isinstance(message, Message) else message.get("content")
    if is_sequence(content):
        return "\n".join(str(part.get("text", "")) for part in content if is_mapping(part))
    return content if isinstance(content, str) else ""


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
    table = table_of(tables.Usage)
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
    rows = (await connection.execute(select(tables.ApiKey.id, tables.ApiKey.name))).all()
    return {f"{KEY_PREFIX}{key_id}": name for key_id, name in rows}


@cache
def _adding(*, on_sqlite: bool) -> sqlite.Insert | postgresql.Insert:
    table, made = table_of(tables.Usage), upsert_into(tables.Usage, on_sqlite=on_sqlite)
    sums = {name: table.c[name] + made.excluded[name] for name in COUNTS}
    return made.on_conflict_do_update(index_elements=list(_NAMES), set_=sums)


def _spent() -> Rows:
    table = table_of(tables.Usage)
    sums = func.sum(table.c.input_tokens + table.c.output_tokens), func.sum(table.c.cost)
    return select(*sums).where(table.c.owner == bindparam("owner"), table.c.day == bindparam("day"))


_SPENT = _spent()
