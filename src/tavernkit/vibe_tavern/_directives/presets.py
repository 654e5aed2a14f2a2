"""Ready-made directives options for providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tavernkit._values import deep_merge, is_mapping
from tavernkit.vibe_tavern._capabilities import provider_id
from tavernkit.vibe_tavern._directives.config import DEFAULT_REPAIRS, MODES
from tavernkit.vibe_tavern._options import merge_names

Options = dict[str, object]

_LISTS: Final = ("message_transforms", "response_transforms")


def merge(*parts: Mapping[str, object] | None) -> Options:
    """Merge options: later parts win, request overrides merge deeply, lists of transforms unite."""
    merged: Options = {}
    for part in parts:
        for key, value in (part or {}).items():
            old = merged.get(key)
            if key in _LISTS:
                merged[key] = merge_names(old, value)
            elif is_mapping(old) and (value is None or is_mapping(value)):
                merged[key] = deep_merge(old, value or {})
            else:
                merged[key] = value
    return merged


def default_directives() -> Options:
    """Return the preset for every provider."""
    return {"modes": list(MODES), "repair_retry_count": DEFAULT_REPAIRS}


def provider_defaults(provider: str) -> Options:
    """Return the preset of a provider; empty for an unknown one.

    OpenRouter is asked to use only providers that support the parameters, if the answer's format depends on them.
    """
    if provider_id(provider) != "openrouter":
        return {}
    return {
        "structured_request_overrides": {"provider": {"require_parameters": True}},
        "prompt_only_request_overrides": {"provider": {"require_parameters": False}},
    }


def preset_for(provider: str) -> Options:
    """Return all defaults of a provider, below the application's own options. No model has quirks here so far."""
    return merge(default_directives(), provider_defaults(provider))
