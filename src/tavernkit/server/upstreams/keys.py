"""Upstream keys in the database: all workers use a changed key within seconds."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Callable

from cryptography.fernet import Fernet, InvalidToken
from sqlalchemy import delete, insert, select, update

from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.limits import UPSTREAM_KEY_SECONDS
from tavernkit.server.storage.database import Database, advisory_lock
from tavernkit.server.storage.tables import UpstreamSecret
from tavernkit.server.upstreams.upstreams import Upstreams


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
        self._upstreams.get(name)
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
        if key is not None or sealed is None:  # keys encrypted with another secret_key are skipped
            await self._upstreams.replace_key(name, key)
