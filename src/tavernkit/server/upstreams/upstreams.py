"""All model servers by name, the routes between them, and their keys in the database."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import importlib
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from cryptography.fernet import Fernet, InvalidToken
from sqlalchemy import delete, insert, select, update

from tavernkit.errors import ConfigError
from tavernkit.models import Model
from tavernkit.server.config import SCRIPTED, ServerConfig, UpstreamConfig
from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.limits import UPSTREAM_KEY_SECONDS
from tavernkit.server.storage.database import Database, advisory_lock
from tavernkit.server.storage.tables import UpstreamSecret
from tavernkit.server.upstreams.upstream import Upstream, make_model
from tavernkit.vibe_tavern import OpenTelemetryInstrumenter

logger = logging.getLogger("tavernkit.server")

DIALECT_NOT_AVAILABLE = "dialect_not_available"


class Upstreams:
    """All model servers by name."""

    def __init__(self, config: ServerConfig, *, models: Mapping[str, Model] | None = None) -> None:
        self._default = config.default_upstream
        given = models or {}
        self._telemetry = OpenTelemetryInstrumenter() if config.telemetry else None
        self._upstreams = {
            name: Upstream(name, each, self._watch(given.get(name) or _first_model(name, each)))
            for name, each in config.upstreams.items()
            if not each.route
        }
        self._routes = {name: each.route for name, each in config.upstreams.items() if each.route}
        for name, route in self._routes.items():
            if unknown := [each.upstream for each in route if each.upstream not in self._upstreams]:
                message = f"the setting 'upstreams.{name}.route' of the server: there is no upstream {unknown[0]!r}"
                raise ConfigError(message, code="NO_UPSTREAM")

    def load(self) -> None:
        """Import the HTTP client, for which the first reply of a process would wait otherwise."""
        if any(each.config.dialect != SCRIPTED for each in self._upstreams.values()):
            importlib.import_module("httpx")

    def _watch(self, model: Model) -> Model:
        return model if self._telemetry is None else self._telemetry.model(model)

    def span(self, name: str) -> AbstractContextManager[object]:
        """Open the trace span of a turn with a character, if telemetry is on."""
        return nullcontext() if self._telemetry is None else self._telemetry.run(name)

    def names(self) -> list[str]:
        """Names of the upstreams, the default one first."""
        return sorted(self._upstreams, key=lambda name: name != self._default)

    def route(self, name: str | None, dialect: str | None, key: str) -> list[tuple[Upstream, frozenset[str]]]:
        """Return the upstreams to ask, in order, each with the failures after which it is used.

        Args:
            name: The name that a client chooses, if any.
            dialect: The dialect that it requests, if any.
            key: Requests with the same key get the same one, so that a provider's cache is used.
        """
        routes = self._routes.get(name if name is not None else self._default)
        if routes is None or dialect is not None:
            return [(self.get(name, dialect), frozenset())]
        weighted = [each for each in routes if each.weight > 0] or list(routes[:1])
        first = max(weighted, key=lambda each: _lot(key, each.upstream) ** (1 / max(each.weight, 1e-9)))
        others = [each for each in routes if each is not first]
        return [(self._upstreams[each.upstream], frozenset(each.on)) for each in (first, *others)]

    def find(self, name: str | None = None, dialect: str | None = None) -> Upstream | None:
        """Return the upstream of ``get()``; None if none speaks the dialect."""
        try:
            return self.get(name, dialect)
        except ServiceError as error:
            if error.code != DIALECT_NOT_AVAILABLE:
                raise
            return None

    def get(self, name: str | None = None, dialect: str | None = None) -> Upstream:
        """Return an upstream by name, else the default one, else the first that speaks the dialect."""
        named = name if name is not None else self._default
        if named in self._routes and (name is not None or dialect is None):
            return self._upstreams[self._routes[named][0].upstream]
        if name is not None:
            if name not in self._upstreams:
                raise ServiceError(400, f"there is no upstream {name!r}", code="upstream_not_found", param="upstream")
            return self._upstreams[name]
        chosen = self._upstreams.get(self._default)
        if chosen is not None and dialect in (None, chosen.model.dialect):
            return chosen
        for upstream in self._upstreams.values():
            if upstream.model.dialect == dialect:
                return upstream
        raise ServiceError(
            400, f"no upstream supports the dialect {dialect!r}; POST /api/build shows it", code=DIALECT_NOT_AVAILABLE
        )

    def speaks(self, dialect: str) -> bool:
        """Return True if an upstream speaks this dialect."""
        return any(each.model.dialect == dialect for each in self._upstreams.values())

    def offering(self, kind: Literal["embedding", "moderation"], name: str | None = None) -> Upstream:
        """Return the upstream for embeddings or moderations: chosen, the first with a model, or the default.

        Args:
            kind: ``embedding`` or ``moderation``.
            name: The name of an upstream.
        """
        candidates = [self.get(each) for each in ([name] if name is not None else self.names())]
        fitting = [each for each in candidates if each.config.dialect in ("openai", "text")]
        if not fitting:
            raise ServiceError(400, f"no upstream has {kind}s", code="endpoint_not_available")
        having = (each for each in fitting if getattr(each.config, f"{kind}_model") is not None)
        return next(having, fitting[0])

    def embedding(self) -> Upstream | None:
        """Return the first upstream with an embedding model."""
        named = (self._upstreams[name] for name in self.names())
        return next((each for each in named if each.config.embedding_model is not None), None)

    def known_fields(self) -> set[str]:
        """Options that some upstream accepts."""
        return {name for each in self._upstreams.values() for name in each.config.fields or ()}

    async def replace_key(self, name: str, api_key: str | None) -> None:
        """Set another key of an upstream, or that of the settings."""
        upstream = self.get(name)
        await upstream.replace_model(self._watch(make_model(upstream.config, api_key=api_key)), api_key)

    async def aclose(self) -> None:
        """Close all connections."""
        for upstream in self._upstreams.values():
            await upstream.model.aclose()


def _first_model(name: str, config: UpstreamConfig) -> Model:
    try:
        return make_model(config)
    except ConfigError as error:
        raise ConfigError(f"the setting 'upstreams.{name}' of the server: {error}", code=error.code) from error


def _lot(key: str, name: str) -> float:
    """Return a number between 0 and 1 that depends on the session and the upstream."""
    drawn = int.from_bytes(hashlib.sha256(f"{key}\0{name}".encode()).digest()[:8], "big")
    return (drawn + 1) / (2**64 + 1)


class SecretBox:
    """Encrypts and decrypts secrets with the server's ``secret_key``; fails without one."""

    def __init__(self, secret_key: str | None) -> None:
        self._fernet: Fernet | None = None
        if secret_key:
            key = hashlib.scrypt(secret_key.encode(), salt=b"tavernkit.server", n=2**14, r=8, p=1, dklen=32)
            self._fernet = Fernet(base64.urlsafe_b64encode(key))

    @property
    def usable(self) -> bool:
        """True if there is a key."""
        return self._fernet is not None

    def seal(self, secret: str) -> str:
        """Encrypt a secret."""
        if self._fernet is None:
            raise ServiceError(409, "secrets are stored only if the server has a secret_key", code="secret_key_missing")
        return self._fernet.encrypt(secret.encode()).decode()

    def open(self, sealed: str) -> str | None:
        """Decrypt a secret; None if it was encrypted with another key."""
        if self._fernet is None:
            return None
        try:
            return self._fernet.decrypt(sealed.encode()).decode()
        except InvalidToken:
            return None


class UpstreamKeys:
    """Stores encrypted keys, and makes the upstreams use them."""

    def __init__(
        self,
        database: Database,
        secrets: SecretBox,
        upstreams: Upstreams,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._secrets = secrets
        self._upstreams = upstreams
        self._clock = clock
        self._known: dict[str, str] = {}
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()

    async def set(self, name: str, api_key: str) -> None:
        """Store an upstream's key and use it from now on."""
        if name not in self._upstreams.names():  # a route has no key of its own
            raise not_found("upstream", name)
        sealed, now = self._secrets.seal(api_key), time.time()
        async with self._database.write() as connection:
            await advisory_lock(connection, f"upstreams/{name}")
            statement = update(UpstreamSecret).where(UpstreamSecret.name == name)
            found = await connection.execute(statement.values(sealed=sealed, updated_at=now))
            if found.rowcount == 0:
                await connection.execute(insert(UpstreamSecret).values(name=name, sealed=sealed, updated_at=now))
        await self.refresh()

    async def remove(self, name: str) -> None:
        """Remove a stored key; the key of the settings is used again."""
        async with self._database.write() as connection:
            gone = await connection.execute(delete(UpstreamSecret).where(UpstreamSecret.name == name))
        if gone.rowcount == 0:
            raise not_found("key of the upstream", name)
        await self.refresh()

    async def keep_fresh(self) -> None:
        """Load keys stored by other processes, if the last check is too long ago."""
        if self._secrets.usable and self._is_old():
            async with self._looking:
                if self._is_old():  # only one of the waiting tasks checks
                    await self._look()

    async def refresh(self) -> None:
        """Load all stored keys."""
        async with self._looking:
            await self._look()

    def _is_old(self) -> bool:
        return self._clock() - self._looked_at >= UPSTREAM_KEY_SECONDS

    async def _look(self) -> None:
        async with self._database.read() as connection:
            rows = (await connection.execute(select(UpstreamSecret.name, UpstreamSecret.sealed))).all()
        stored: dict[str, str] = {name: sealed for name, sealed in rows if name in self._upstreams.names()}
        for name in {*stored, *self._known}:
            if stored.get(name) != self._known.get(name):
                await self._use(name, stored.get(name))
        self._known = stored
        self._looked_at = self._clock()

    async def _use(self, name: str, sealed: str | None) -> None:
        key = self._secrets.open(sealed) if sealed is not None else None
        if key is None and sealed is not None:
            logger.warning(
                "the stored key of the upstream %r is not used: it was encrypted with another secret_key", name
            )
            return
        await self._upstreams.replace_key(name, key)
