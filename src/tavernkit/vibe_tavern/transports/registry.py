"""Chooses a transport by the protocol that a provider speaks."""

from __future__ import annotations

from typing import Final

from tavernkit.arguments import checked
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.vibe_tavern.options import option_name
from tavernkit.vibe_tavern.transports.base import Transport
from tavernkit.vibe_tavern.transports.endpoint import Endpoint

DIALECTS: Final = ("openai", "anthropic", "google")
"""The protocols there are transports for."""


@checked
def create_transport(dialect: str, endpoint: Endpoint, *, warn: Warn = log_warning) -> Transport:
    """Make the transport of a dialect; its SDK is imported with the first request."""
    name = option_name(dialect)
    if name == "openai":
        from tavernkit.vibe_tavern.transports.openai import OpenAITransport

        return OpenAITransport(endpoint, warn=warn)
    if name == "anthropic":
        from tavernkit.vibe_tavern.transports.anthropic import AnthropicTransport

        return AnthropicTransport(endpoint, warn=warn)
    if name == "google":
        from tavernkit.vibe_tavern.transports.google import GoogleTransport

        return GoogleTransport(endpoint, warn=warn)
    raise ConfigError(
        f"there is no transport for dialect {dialect!r}; there are {', '.join(DIALECTS)}",
        code="NO_TRANSPORT_FOR_DIALECT",
    )
