"""The request to a provider, and its inputs besides the page's body."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import field
from urllib.parse import urlsplit

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject
from tavernkit.errors import ConfigError
from tavernkit.silly_tavern.providers._config import SillyTavernConfig

CONTENT_TYPE = "application/json"
DEFAULT_PORTS: Mapping[str, int] = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """SillyTavern's data about a provider: keys, accounts, its model list.

    Args:
        key: The stored API key; without one most sources are refused.
        access_token: The token of a Google service account (Vertex AI in ``full`` mode).
        project: The project that service account belongs to.
        secret: Any secret text, used to hash session ids (Fireworks).
        cached_models: Models with a price for cache writes in OpenRouter's list.
    """

    key: str = field(default="", repr=False)
    access_token: str = field(default="", repr=False)
    project: str = ""
    secret: str = field(default="", repr=False)
    cached_models: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One HTTP request: send ``body`` as JSON.

    ``url`` and ``headers`` may contain keys: ``repr()`` leaves them out, and ``masked()`` hides them.
    """

    url: str = field(repr=False)
    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    method: str = "POST"
    """The HTTP method."""
    secrets: Collection[str] = field(default=(), repr=False, compare=False)
    """Keys that ``masked()`` hides."""

    def masked(self, mark: str = "<key>") -> ProviderRequest:
        """Return a copy that is safe to show: ``mark`` replaces every key in the address and the headers."""
        return dataclasses.replace(
            self,
            url=self._hide(self.url, mark),
            headers={name: self._hide(value, mark) for name, value in self.headers.items()},
            secrets=(),
        )

    def _hide(self, text: str, mark: str) -> str:
        for secret in sorted(filter(None, self.secrets), key=len, reverse=True):
            text = text.replace(secret, mark)
        return text


class RequestRefusedError(ConfigError):
    """SillyTavern's server would not send the request: ``status`` and ``answer`` are what the page would get."""

    def __init__(self, message: str, *, code: str, status: int = 400, answer: Json = None) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.answer: Json = {"error": True} if answer is None else answer


def json_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request with a JSON body: lower-case names, no spaces around values."""
    plain = {"content-type": CONTENT_TYPE, **{name.lower(): value for name, value in headers.items()}}
    return {name: value.strip() for name, value in plain.items()}


def local_address(server: str) -> str:
    """Return an address with the first ``localhost`` replaced by ``127.0.0.1``."""
    return server.replace("localhost", "127.0.0.1", 1)


def override_headers(url: str, headers: Mapping[str, str], config: SillyTavernConfig) -> dict[str, str]:
    """Return headers with those of ``requestOverrides`` for the address; the first matching entry counts."""
    host = _host(url)
    overrides = [each.headers for each in config.request_overrides if host in each.hosts]
    extra = {name.lower(): value for name, value in overrides[0].items()} if overrides else {}
    return json_headers({**headers, **extra})


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    name = parts.hostname or ""
    return name if port in (None, DEFAULT_PORTS.get(parts.scheme)) else f"{name}:{port}"
