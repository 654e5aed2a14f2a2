"""Normalised names of providers."""

from __future__ import annotations

from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._options import option_name

ALIASES = {"open_router": "openrouter", "volcanoengine": "volcano_engine", "volcano": "volcano_engine"}
"""Other spellings of providers with their own defaults."""


def provider_id(value: object) -> str:
    """Normalise a provider name: trimmed, lower case, ``_`` for ``-``, aliases resolved."""
    if not isinstance(value, str) or not (name := option_name(value)):
        raise ConfigError(f"provider must be a name such as 'openai', not {value!r}", code="PROVIDER_REQUIRED")
    return ALIASES.get(name, name)


def model_id(value: object) -> str:
    """Check that a model name is not blank, and return it unchanged."""
    if not isinstance(value, str) or not option_name(value):
        raise ConfigError(f"model must be a model id such as 'gpt-5', not {value!r}", code="MODEL_REQUIRED")
    return value
