"""The request to a provider, and its inputs besides the page's body: the connection and the server's settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from urllib.parse import urlsplit

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, Json, JsonObject, freeze_object, is_mapping, is_sequence
from tavernkit.errors import ConfigError

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
