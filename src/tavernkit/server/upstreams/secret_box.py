"""Secrets in the database, encrypted."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken

from tavernkit.server.errors import ServiceError


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
