"""Usage and daily budgets of keys: tokens, and money if models have prices."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import Plan, count_tokens
from tavernkit._values import IdentityCache, Json, is_mapping, is_object, is_sequence
from tavernkit.dialects._messages import MessageLike
from tavernkit.models import Reply, Request, Usage
from tavernkit.prompt._message import Message
from tavernkit.server.access.keys import Client
from tavernkit.server.config import Price, UpstreamConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.limits import MAX_USAGE_ROWS, USAGE_REPORT_DAYS
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.usage import COUNTS, GROUPINGS, Grouping, Use, add_uses, read_usage, spent

MILLION = 1_000_000


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
