"""Secrets in the database, encrypted."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken

from tavernkit.server.errors import ServiceError


class SecretBox:
    """Seals and opens secrets with the server's ``secret_key``; without one it refuses to."""

    def __init__(self, secret_key: str | None) -> None:
        self._fernet: Fernet | None = None
        if secret_key:
            key = hashlib.scrypt(secret_key.encode(), salt=b"tavernkit.server", n=2**14, r=8, p=1, dklen=32)
            self._fernet = Fernet(base64.urlsafe_b64encode(key))

    @property
    def usable(self) -> bool:
        """True if there is a key to seal and open with."""
        return self._fernet is not None

    def seal(self, secret: str) -> str:
        """Encrypt a secret."""
        if self._fernet is None:
            raise ServiceError(409, "secrets are stored only if the server has a secret_key", code="secret_key_missing")
        return self._fernet.encrypt(secret.encode()).decode()

    def open(self, sealed: str) -> str | None:
        """Decrypt a secret; nothing if it was sealed with another key."""
        if self._fernet is None:
            return None
        try:
            return self._fernet.decrypt(sealed.encode()).decode()
        except InvalidToken:
            return None
