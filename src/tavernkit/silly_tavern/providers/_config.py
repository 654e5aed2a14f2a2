"""The settings of SillyTavern's server that affect requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, freeze_object, is_mapping, is_sequence

PROMPT_PLACEHOLDER = "[Start a new chat]"


@dataclass(frozen=True, slots=True)
class RequestOverride:
    """Headers for text backends on some hosts (``host:port``)."""

    hosts: Sequence[str]
    """Hosts as ``host:port``."""
    headers: Mapping[str, str] = field(repr=False)
    """The headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SillyTavernConfig:
    """Settings of SillyTavern's ``config.yaml``; the defaults are those of the shipped file."""

    prompt_placeholder: str = PROMPT_PLACEHOLDER
    """The user message that is added if a provider requires one and there is none."""
    openai_randomize_user_id: bool = False
    """Send a random user id to OpenAI."""
    gemini_api_version: str = "v1beta"
    """The version in the address of Google AI Studio."""
    gemini_thought_signatures: bool = True
    """Send thought signatures back to Google."""
    gemini_enable_system_prompt_cache: bool = False
    """Mark the system prompt for the cache, for Gemini over OpenRouter."""
    mistral_enable_prefix: bool = False
    """Let Mistral continue a message of the assistant at the end."""
    claude_enable_system_prompt_cache: bool = False
    """Mark Claude's system prompt and tools for the cache."""
    claude_caching_at_depth: int = -1
    """Mark the message at this depth for Claude's cache; -1 for none."""
    claude_extended_ttl: bool = False
    """Keep Claude's cache for an hour instead of five minutes."""
    claude_enable_adaptive_thinking: bool = False
    """Let Claude decide how much it thinks, on models that support it."""
    ollama_keep_alive: int = -1
    """Ollama's ``keep_alive``: seconds that the model stays in memory; -1 for no limit."""
    ollama_batch_size: int = -1
    """Ollama's ``num_batch``; -1 for Ollama's own."""
    request_overrides: Sequence[RequestOverride] = ()
    """More headers for some hosts."""

    @classmethod
    def from_yaml(cls, data: Mapping[str, object]) -> SillyTavernConfig:
        """Read the parsed ``config.yaml``; a key may be nested or dotted (``claude.extendedTTL``).

        Missing values and values of the wrong type keep the default.
        """
        values: dict[str, object] = {}
        for key, name in CONFIG_KEYS.items():
            value = _lookup(data, key)
            shipped: object = getattr(DEFAULT_CONFIG, name)
            if type(value) is type(shipped):
                values[name] = value
        overrides = _lookup(data, "requestOverrides")
        if is_sequence(overrides):
            values["request_overrides"] = tuple(_override(item) for item in overrides if is_mapping(item))
        return cls(**values)  # pyright: ignore[reportArgumentType]  # each of the type of its shipped value

    @property
    def cache_ttl(self) -> str:
        """How long a cache entry lives."""
        return "1h" if self.claude_extended_ttl else "5m"


CONFIG_KEYS: Mapping[str, str] = {
    "promptPlaceholder": "prompt_placeholder",
    "openai.randomizeUserId": "openai_randomize_user_id",
    "gemini.apiVersion": "gemini_api_version",
    "gemini.thoughtSignatures": "gemini_thought_signatures",
    "gemini.enableSystemPromptCache": "gemini_enable_system_prompt_cache",
    "mistral.enablePrefix": "mistral_enable_prefix",
    "claude.enableSystemPromptCache": "claude_enable_system_prompt_cache",
    "claude.cachingAtDepth": "claude_caching_at_depth",
    "claude.extendedTTL": "claude_extended_ttl",
    "claude.enableAdaptiveThinking": "claude_enable_adaptive_thinking",
    "ollama.keepAlive": "ollama_keep_alive",
    "ollama.batchSize": "ollama_batch_size",
}
"""Keys of ``config.yaml`` and their attributes."""

DEFAULT_CONFIG = SillyTavernConfig()


def _lookup(data: Mapping[str, object], dotted: str) -> object:
    if dotted in data:
        return data[dotted]
    value: object = data
    for key in dotted.split("."):
        value = value.get(key) if is_mapping(value) else None
    return value


def _override(item: Mapping[str, object]) -> RequestOverride:
    hosts = item.get("hosts")
    headers: FrozenObject = freeze_object(found) if is_mapping(found := item.get("headers")) else EMPTY_OBJECT
    return RequestOverride(
        tuple(str(host) for host in hosts) if is_sequence(hosts) else (),
        {name: str(value) for name, value in headers.items()},
    )
