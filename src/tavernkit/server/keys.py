"""API keys: creating, checking and revoking them, and rate limits."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypeAlias, get_args

from sqlalchemy import RowMapping, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.cards import DEFAULT_LIMITS, Limits
from tavernkit.server.config import ServerConfig
from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.limits import RATE_WINDOW_SECONDS
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.statements import select_by, table_of, upsert_into
from tavernkit.server.storage.tables import ApiKey, RateWindow, new_id

Scope: TypeAlias = Literal["chat", "read", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""``chat``: talk to characters and own sessions. ``read``, ``write``: the library. ``admin``: everything."""

PREFIX = "tk-"
"""The prefix of keys."""

KEY_PREFIX = "key:"
"""The prefix of owners that are keys in the database."""


@dataclass(frozen=True, slots=True)
class Client:
    """The client of a request; ``owner`` is whose sessions it sees."""

    owner: str
    scopes: frozenset[str]
    rate_limit: int | None = None
    daily_tokens: int | None = None
    daily_cost: float | None = None
    limits: Limits = DEFAULT_LIMITS
    """Limits of its builds."""

    def may(self, scope: Scope) -> bool:
        """Return True if the client has a scope."""
        return scope in self.scopes or "admin" in self.scopes


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key without its secret."""

    id: str
    name: str
    scopes: tuple[str, ...]
    rate_limit: int | None
    daily_tokens: int | None
    daily_cost: float | None
    created_at: float
    revoked_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The limits of a key."""

    rate_limit: int | None = None
    """Requests per minute."""
    daily_tokens: int | None = None
    daily_cost: float | None = None


ADMIN_OWNER = "admin"
"""The owner of the admin key's sessions."""

LOCAL = Client("local", frozenset(SCOPES))
"""The client of a server without keys."""


class Keys:
    """The keys of a server."""

    def __init__(self, config: ServerConfig, database: Database) -> None:
        self._config = config
        self._database = database
        self._required = config.keys_required
        self._local = replace(LOCAL, limits=config.limits_of(LOCAL.owner))

    async def client(self, token: str | None) -> Client:
        """Return the client of a token; raises if there is none."""
        if self._is_admin_key(token):
            return Client(ADMIN_OWNER, frozenset(SCOPES), limits=self._config.limits_of(ADMIN_OWNER))
        if token is None or not token.startswith(PREFIX):
            if not self._required:
                # Clients such as the openai SDK must send something: without keys, any value is accepted.
                return self._local
            message = "the API key is not one of this server's" if token else "an API key is required"
            raise ServiceError(401, f"{message}: Authorization: Bearer {PREFIX}…", code="invalid_api_key")
        # Looked up every time, so that a revoked key stops working at once.
        return await self._look_up(digest_of(token))

    async def count(self, client: Client) -> None:
        """Count a request; raises if there were too many. All processes count together."""
        limit = client.rate_limit or (self._config.rate_limit if client is not self._local else None)
        if limit is None:
            return
        now = time.time()
        window = int(now // RATE_WINDOW_SECONDS)
        async with self._database.write(together=True) as connection:
            requests = await _count(connection, client.owner, window, sqlite_=self._database.sqlite)
        if requests > limit:
            wait = (window + 1) * RATE_WINDOW_SECONDS - now
            raise ServiceError(
                429, f"more than {limit} requests per minute", code="rate_limit_exceeded", retry_after=wait
            )

    async def create(
        self, name: str, scopes: tuple[Scope, ...], allowance: Allowance | None = None
    ) -> tuple[KeyInfo, str]:
        """Create a key; its text is shown once and never stored.

        Args:
            name: What it is for.
            scopes: What it may do.
            allowance: How much of it.
        """
        token = f"{PREFIX}{secrets.token_urlsafe(32)}"
        allowed = asdict(allowance or Allowance())
        info = KeyInfo(id=new_id(), name=name, scopes=scopes, created_at=time.time(), revoked_at=None, **allowed)
        values = {**asdict(info), "scopes": list(scopes), "digest": digest_of(token)}
        async with self._database.write() as connection:
            await connection.execute(insert(ApiKey).values(values))
        return info, token

    async def list(self) -> list[KeyInfo]:
        """Return all keys, including revoked ones."""
        query = select(*_KEY_COLUMNS).order_by(ApiKey.created_at)
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [_info(row) for row in rows]

    async def change(self, key_id: str, changes: Mapping[str, object]) -> KeyInfo:
        """Change the name or limits of an active key, from its next request on."""
        query = select(*_KEY_COLUMNS).where(ApiKey.id == key_id, ApiKey.revoked_at.is_(None))
        async with self._database.write() as connection:
            if changes:
                await connection.execute(update(ApiKey).where(ApiKey.id == key_id).values(dict(changes)))
            row = (await connection.execute(query)).mappings().one_or_none()
            if row is None:
                raise not_found("key", key_id)
        return _info(row)

    async def revoke(self, key_id: str) -> None:
        """Revoke a key."""
        async with self._database.write() as connection:
            statement = update(ApiKey).where(ApiKey.id == key_id, ApiKey.revoked_at.is_(None))
            found = await connection.execute(statement.values(revoked_at=time.time()))
            if found.rowcount == 0:
                raise not_found("key", key_id)

    async def _look_up(self, digest: str) -> Client:
        async with self._database.read() as connection:
            row = (await connection.execute(_BY_DIGEST, {"digest": digest})).mappings().one_or_none()
        if row is None or row["revoked_at"] is not None:
            raise ServiceError(401, "the API key is unknown or revoked", code="invalid_api_key")
        info = _info(row)
        return Client(
            f"{KEY_PREFIX}{info.id}",
            frozenset(info.scopes),
            info.rate_limit,
            info.daily_tokens or self._config.daily_tokens,
            info.daily_cost or self._config.daily_cost,
            self._config.limits_of(info.name, info.id),
        )

    def _is_admin_key(self, token: str | None) -> bool:
        admin = self._config.admin_key
        if admin is None or token is None:
            return False
        return hmac.compare_digest(token.encode(), admin.get_secret_value().encode())


_KEY = tuple(each.name for each in fields(KeyInfo))
_KEY_COLUMNS = [table_of(ApiKey).c[name] for name in _KEY]
_BY_DIGEST = select_by(ApiKey, _KEY, ("digest",))


def _info(row: RowMapping) -> KeyInfo:
    values: dict[str, Any] = {**row, "scopes": tuple(str(each) for each in row["scopes"])}
    return KeyInfo(**values)


def digest_of(token: str) -> str:
    """Return the stored hash of a key. Keys are long and random, so a plain hash cannot be reversed."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


async def _count(connection: AsyncConnection, key_id: str, window: int, *, sqlite_: bool) -> int:
    statement = (
        upsert_into(RateWindow, on_sqlite=sqlite_)
        .values(key_id=key_id, window_start=window, requests=1)
        .on_conflict_do_update(
            index_elements=[RateWindow.key_id, RateWindow.window], set_={"requests": RateWindow.requests + 1}
        )
        .returning(RateWindow.requests)
    )
    requests = (await connection.execute(statement)).scalar_one()
    if requests == 1:
        await connection.execute(delete(RateWindow).where(RateWindow.key_id == key_id, RateWindow.window < window))
    return requests
