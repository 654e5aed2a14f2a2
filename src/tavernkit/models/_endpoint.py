"""Where a server is, how to reach it, and its secrets, which no error and no log may show."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from types import NoneType
from typing import Final
from urllib.parse import urlsplit

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, is_list, is_mapping, is_object
from tavernkit.errors import ConfigError
from tavernkit.models._limits import CONNECT_SECONDS, REPLY_SECONDS, STREAM_READ_SECONDS

DEFAULT_BASE_URL: Final = "http://localhost:8000"
DEFAULT_API_PREFIX: Final = "/v1"
_FROM_ENVIRONMENT: Final = ("base_url", "api_key", "api_prefix", "timeout", "connect_timeout", "read_timeout")
_TIMEOUTS: Final = ("timeout", "connect_timeout", "read_timeout")
REPLACEMENT: Final = "[redacted]"
_MIN_LENGTH: Final = 4
"""Shorter values are not secrets, and replacing them would spoil texts."""
_WORDS: Final = frozenset(("bearer", "basic", "digest", "token"))
_SENSITIVE: Final = ("authorization", "auth", "key", "token", "secret", "cookie", "password")


@dataclass(frozen=True, slots=True)
class Redactor:
    """Knows secrets and replaces them wherever they are."""

    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, *secrets: str | None, headers: Mapping[str, str] | None = None) -> Redactor:
        """Collect secrets, and the values of headers whose names mark them as secret."""
        found = [secret for secret in secrets if secret]
        for name, value in (headers or {}).items():
            if is_sensitive(name):
                found += [value, *value.split()]
        usable = {secret for secret in found if len(secret) >= _MIN_LENGTH and secret.lower() not in _WORDS}
        return cls(tuple(sorted(usable, key=len, reverse=True)))

    def with_headers(self, headers: Mapping[str, str]) -> Redactor:
        """Return a redactor that also knows the secrets of these headers."""
        found = Redactor.of(*self.secrets, headers=headers)
        return self if found.secrets == self.secrets else found

    def text(self, text: str) -> str:
        """Remove secrets from a text."""
        for secret in self.secrets:
            text = text.replace(secret, REPLACEMENT)
        return text

    def json(self, value: Json) -> Json:
        """Remove secrets from JSON, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if is_list(value):
            return [self.json(item) for item in value]
        if is_object(value):
            return {self.text(key): self.json(item) for key, item in value.items()}
        return value

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Remove secrets from headers; values of sensitive headers are replaced completely."""
        return {name: REPLACEMENT if is_sensitive(name) else self.text(value) for name, value in headers.items()}


def is_sensitive(name: str) -> bool:
    """Return True if a header with this name contains a secret."""
    lowered = name.lower()
    return any(word in lowered for word in _SENSITIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server's address, key and time limits. Printing it shows no key.

    ``timeout`` is in seconds and is the limit for connecting and for reading unless ``connect_timeout`` and
    ``read_timeout`` say otherwise.
    """

    base_url: str = DEFAULT_BASE_URL
    """The address of the server."""
    api_key: str | None = field(default=None, repr=False)
    """The key, sent in the form that the provider requires."""
    api_prefix: str | None = DEFAULT_API_PREFIX
    """The path between the address and the endpoint; ``/v1`` by default."""
    timeout: float | None = None
    connect_timeout: float | None = None
    read_timeout: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """More headers for every request."""

    def __post_init__(self) -> None:
        _refuse_secrets_of_wrong_types(self)
        set_field = object.__setattr__
        prefix = (self.api_prefix or "").strip().strip("/")
        prefix = f"/{prefix}" if prefix else ""
        base = self.base_url.strip().removesuffix("/")
        if urlsplit(base).scheme not in ("http", "https"):
            raise ConfigError("base_url must start with http:// or https://", code="INVALID_BASE_URL")
        set_field(self, "base_url", base.removesuffix(prefix) if prefix else base)
        set_field(self, "api_prefix", prefix)
        key = (self.api_key or "").strip()
        if not (key.isascii() and (key.isprintable() or not key)):
            raise ConfigError("api_key has characters that no header can carry", code="INVALID_API_KEY")
        set_field(self, "api_key", key or None)
        for name in _TIMEOUTS:
            set_field(self, name, _seconds(getattr(self, name)))

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None, **fields: object) -> Endpoint:
        """Read fields that are not given from TAVERNKIT_BASE_URL, TAVERNKIT_API_KEY and related variables.

        Args:
            environment: The variables; those of the process by default.
            fields: Fields that are given.
        """
        environment = os.environ if environment is None else environment
        found: dict[str, object] = {}
        for name in _FROM_ENVIRONMENT:
            value = environment.get(f"TAVERNKIT_{name.upper()}")
            if value is not None and (value.strip() or name == "api_prefix"):
                found[name] = value
        return cls(**{**found, **fields})  # pyright: ignore[reportArgumentType]  # checked in __post_init__

    @property
    def url(self) -> str:
        """The address that paths such as ``/chat/completions`` are added to."""
        return f"{self.base_url}{self.api_prefix}"

    @property
    def redactor(self) -> Redactor:
        """Removes this endpoint's secrets from texts."""
        return Redactor.of(self.api_key, urlsplit(self.base_url).password, headers=self.headers)

    def timeouts(self, *, stream: bool = False) -> tuple[float, float]:
        """Return the limits for connecting and for reading, in seconds."""
        read = self.read_timeout or self.timeout or (STREAM_READ_SECONDS if stream else REPLY_SECONDS)
        return self.connect_timeout or self.timeout or CONNECT_SECONDS, read


def _seconds(value: object) -> float | None:
    """Read a number above zero; anything else counts as not set."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None


def _refuse_secrets_of_wrong_types(endpoint: Endpoint) -> None:
    """Name the type of a wrong value, never the value: it may be a secret."""
    headers: object = endpoint.headers
    checks = {
        "base_url": ("text", isinstance(endpoint.base_url, str)),  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        "api_key": ("text or None", isinstance(endpoint.api_key, (str, NoneType))),  # pyright: ignore[reportUnnecessaryIsInstance]  # as above
        "headers": (
            "a mapping of texts",
            is_mapping(headers) and all(isinstance(value, str) for value in headers.values()),
        ),
    }
    for name, (wanted, right) in checks.items():
        if not right:
            raise ConfigError(f"{name} must be {wanted}, not {type(getattr(endpoint, name)).__name__}")
