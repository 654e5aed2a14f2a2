"""Whole provider requests: what SillyTavern's server sends for a chat-completion body.

>>> from tavernkit.silly_tavern.providers.chat import build_request
>>> request = build_request({"chat_completion_source": "openai", "model": "gpt-4o", "messages": []})
>>> request.path
'/chat/completions'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tavernkit.errors import ConfigError
from tavernkit.silly_tavern.providers.chat.claude import claude_request
from tavernkit.silly_tavern.providers.chat.google import google_request
from tavernkit.silly_tavern.providers.chat.openai_like import (
    custom_request,
    deepseek_request,
    mistral_request,
    openai_request,
    xai_request,
)
from tavernkit.silly_tavern.providers.chat.request import PageRequest, ProviderRequest
from tavernkit.silly_tavern.providers.config import DEFAULT_CONFIG, ServerConfig
from tavernkit.silly_tavern.providers.converters.messages import copied
from tavernkit.silly_tavern.providers.converters.names import PromptNames
from tavernkit.silly_tavern.providers.converters.post_process import post_process
from tavernkit.values import Json, JsonObject

SOURCES: Mapping[str, Callable[[PageRequest], ProviderRequest]] = {
    "claude": claude_request,
    "makersuite": google_request,
    "vertexai": google_request,
    "mistralai": mistral_request,
    "deepseek": deepseek_request,
    "xai": xai_request,
    "openai": openai_request,
    "custom": custom_request,
}
"""The chat-completion sources whose requests are known exactly."""


def build_request(body: Mapping[str, Json], config: ServerConfig = DEFAULT_CONFIG) -> ProviderRequest:
    """Make the request of a body with ``chat_completion_source``, ``messages`` and the preset's values."""
    source = body.get("chat_completion_source")
    make = SOURCES.get(source) if isinstance(source, str) else None
    if make is None:
        known = ", ".join(SOURCES)
        raise ConfigError(f"unknown chat_completion_source {source!r}; pass one of {known}", code="UNKNOWN_SOURCE")
    names = PromptNames.from_request(body)
    messages = copied(body.get("messages"))
    kind = body.get("custom_prompt_post_processing")
    if isinstance(kind, str) and kind:
        messages = post_process(messages, kind, names, config)
    plain: JsonObject = dict(body)
    return make(PageRequest(body=plain, messages=messages, names=names, config=config))


__all__ = ["SOURCES", "ProviderRequest", "build_request"]
