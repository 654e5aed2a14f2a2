"""Where a server is and how to reach it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Final
from urllib.parse import urlsplit

from tavernkit.arguments import check_fields, checked, require
from tavernkit.errors import ConfigError
from tavernkit.text.blank import trim_blanks
from tavernkit.values import is_mapping
from tavernkit.vibe_tavern.options import integer, positive_number
from tavernkit.vibe_tavern.transports.redaction import Redactor

DEFAULT_BASE_URL: Final = "http://localhost:8000"
DEFAULT_API_PREFIX: Final = "/v1"
DEFAULT_MAX_RETRIES: Final = 2
_SECRETS: Final = {"base_url": "text", "api_key": "text or None", "headers": "a mapping of texts"}
"""Fields that may hold a secret, and what they must be."""

_TIMEOUTS: Final = ("timeout", "open_timeout", "read_timeout")
STREAM_READ_TIMEOUT: Final = 60.0
"""Seconds that a stream may be silent, unless configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server's address, key and patience. Printing it shows no key.

    ``timeout`` is in seconds and holds for connecting and reading unless ``open_timeout`` and ``read_timeout`` say
    otherwise. Requests that fail with 408, 409, 429, 5xx or a broken connection are retried ``max_retries`` times.
    """

    base_url: str = DEFAULT_BASE_URL
    api_key: str | None = field(default=None, repr=False)
    api_prefix: str | None = DEFAULT_API_PREFIX
    timeout: float | None = None
    open_timeout: float | None = None
    read_timeout: float | None = None
    max_retries: int = DEFAULT_MAX_RETRIES
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        _refuse_unshown(self)
        check_fields(self, (*_TIMEOUTS, *_SECRETS))
        set_field = object.__setattr__
        prefix = trim_blanks(self.api_prefix or "").strip("/")
        prefix = f"/{prefix}" if prefix else ""
        base = trim_blanks(self.base_url).removesuffix("/")
        if urlsplit(base).scheme not in ("http", "https"):
            raise ConfigError("base_url must start with http:// or https://", code="INVALID_BASE_URL")
        set_field(self, "base_url", base.removesuffix(prefix) if prefix else base)
        set_field(self, "api_prefix", prefix)
        key = trim_blanks(self.api_key or "")
        if not (key.isascii() and (key.isprintable() or not key)):
            raise ConfigError("api_key has characters that no header can carry", code="INVALID_API_KEY")
        set_field(self, "api_key", key or None)
        for name in _TIMEOUTS:
            given: object = getattr(self, name)
            require(f"Endpoint.{name}", given, float | str | None, "a number of seconds or None")
            set_field(self, name, positive_number(given))
        if self.max_retries < 0:
            raise ConfigError("max_retries must be 0 or more", code="INVALID_MAX_RETRIES")

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None, **fields: object) -> Endpoint:
        """Read what is not given from TAVERNKIT_BASE_URL, TAVERNKIT_API_KEY, TAVERNKIT_API_PREFIX and their like."""
        environment = os.environ if environment is None else environment
        if not is_mapping(environment):
            raise ConfigError(f"environment must be a mapping of texts, not {type(environment).__name__}")
        known = ("base_url", "api_key", "api_prefix", "timeout", "open_timeout", "read_timeout", "max_retries")
        found: dict[str, object] = {}
        for name in known:
            value = environment.get(f"TAVERNKIT_{name.upper()}")
            if not isinstance(value, (str, NoneType)):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
                raise ConfigError(f"environment must be a mapping of texts; TAVERNKIT_{name.upper()} is none")
            if value is not None and (trim_blanks(value) or name == "api_prefix"):
                found[name] = (integer(value) or 0) if name == "max_retries" else value
        return cls(**{**found, **fields})  # pyright: ignore[reportArgumentType]  # checked in __post_init__

    @property
    def url(self) -> str:
        """The address that paths such as ``/chat/completions`` are added to."""
        return f"{self.base_url}{self.api_prefix}"

    @property
    def redactor(self) -> Redactor:
        """Takes this endpoint's secrets out of texts."""
        password = urlsplit(self.base_url).password
        return Redactor.of(self.api_key, password, headers=self.headers)

    @checked
    def timeouts(self, *, stream: bool = False) -> dict[str, float | None]:
        """The time limits in the words of HTTP clients; empty when nothing is configured."""
        read = self.read_timeout or self.timeout
        if stream and read is None:
            read = STREAM_READ_TIMEOUT
        connect = self.open_timeout or self.timeout
        if read is None and connect is None:
            return {}
        return {"timeout": self.timeout, "connect": connect, "read": read}


def _refuse_unshown(endpoint: Endpoint) -> None:
    """Refuse what may hold a secret and is of a wrong kind: its kind is told, never the value."""
    headers: object = endpoint.headers
    right = {
        "base_url": isinstance(endpoint.base_url, str),  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        "api_key": isinstance(endpoint.api_key, (str, NoneType)),  # pyright: ignore[reportUnnecessaryIsInstance]  # as above
        "headers": is_mapping(headers) and all(isinstance(value, str) for value in headers.values()),
    }
    for name, wanted in _SECRETS.items():
        if not right[name]:
            raise ConfigError(f"Endpoint.{name} must be {wanted}, not {type(getattr(endpoint, name)).__name__}")
