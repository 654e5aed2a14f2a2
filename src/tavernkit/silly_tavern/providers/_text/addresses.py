"""Addresses and headers of text backends."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from tavernkit.silly_tavern.providers._config import SillyTavernConfig
from tavernkit.silly_tavern.providers._request import json_headers

DEFAULT_PORTS: Mapping[str, int] = {"http": 80, "https": 443}


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
