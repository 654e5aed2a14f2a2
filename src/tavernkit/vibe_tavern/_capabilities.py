"""What a model of a provider supports, and the rules about requests that are checked before anything is sent."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping

from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import trim_blanks
from tavernkit._values import is_mapping
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._options import option_name
from tavernkit.vibe_tavern.errors import PreflightError


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one model of one provider supports. For unknown providers, ``json_schema`` is assumed to be missing.

    ``context_window_tokens`` and ``reserved_response_tokens`` are the application's budget; if a window is given, the
    pipeline refuses prompts that do not fit.
    """

    provider: str
    """The provider, such as ``openrouter``."""
    model: str
    """The provider's model id."""
    supports_tools: bool = True
    """True if the model can call tools."""
    supports_response_format_json_object: bool = True
    """True if the model can be asked for JSON."""
    supports_response_format_json_schema: bool = False
    """True if the model can be asked for JSON of a given schema."""
    supports_streaming: bool = True
    """True if replies can be streamed."""
    supports_parallel_tool_calls: bool = False
    """True if one reply may call several tools."""
    context_window_tokens: int | None = None
    reserved_response_tokens: int = 0

    def __post_init__(self) -> None:
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be True or False", code="CAPABILITY_NOT_BOOLEAN")
        window, reserve = self.context_window_tokens, self.reserved_response_tokens
        if window is not None and (not _is_integer(window) or window < 1):
            raise ConfigError(
                f"context_window_tokens must be a positive integer or None, not {window!r}",
                code="INVALID_CONTEXT_WINDOW",
            )
        if not _is_integer(reserve) or reserve < 0 or (window is not None and reserve > window):
            raise ConfigError(
                f"reserved_response_tokens must be an integer from 0 to the context window, not {reserve!r}",
                code="INVALID_RESERVED_TOKENS",
            )


_SWITCHES = tuple(field.name for field in dataclasses.fields(Capabilities) if field.name.startswith("supports_"))
_OVERRIDABLE = frozenset((*_SWITCHES, "context_window_tokens", "reserved_response_tokens"))

_FULL_OPENAI: Mapping[str, object] = {
    "supports_response_format_json_schema": True,
    "supports_parallel_tool_calls": True,
}
_NO_STRUCTURED_OUTPUT: Mapping[str, object] = {
    "supports_response_format_json_object": False,
    "supports_response_format_json_schema": False,
}

PROVIDERS: Mapping[str, Mapping[str, object]] = {
    "openai": _FULL_OPENAI,
    "openrouter": _FULL_OPENAI,
    "volcano_engine": {"supports_parallel_tool_calls": True},
    "anthropic": {**_NO_STRUCTURED_OUTPUT, "supports_parallel_tool_calls": True},
    "google": {"supports_response_format_json_schema": True},
}
"""Capabilities of known providers that differ from the default."""

MODELS: Mapping[str, tuple[tuple[str, Mapping[str, object]], ...]] = {
    "openrouter": (
        ("anthropic/*", {"supports_response_format_json_schema": False}),
        ("openai/*", _NO_STRUCTURED_OUTPUT),
        ("minimax/*", _NO_STRUCTURED_OUTPUT),
        ("minimax/minimax-m2-her", {"supports_tools": False}),
    ),
}
"""Capabilities of models that differ from their provider's: all matching rules apply, later ones win.

A pattern is a whole model id, or the start of one with ``*`` at its end.
"""


class CapabilitiesRegistry:
    """Layers of capabilities of providers and models; later layers win, and overrides of a call win over all.

    Args:
        providers: Capabilities by provider.
        models: Patterns of model names and their capabilities, by provider.
    """

    def __init__(
        self,
        *,
        providers: Mapping[str, Mapping[str, object]] = PROVIDERS,
        models: Mapping[str, tuple[tuple[str, Mapping[str, object]], ...]] = MODELS,
    ) -> None:
        self._providers = dict(providers)
        self._models = dict(models)
        self._defaults: Mapping[str, object] = {}
        self._lock = threading.Lock()

    def configure_default_overrides(self, **values: object) -> None:
        """Set defaults for every model, which calls can override.

        Meant for the token budget: ``configure_default_overrides(context_window_tokens=32_768)``. Replaces the previous
        defaults; without arguments, removes them.
        """
        known = _check_values(values)
        with self._lock:
            self._defaults = known

    def register_provider(self, provider: str, **values: object) -> None:
        """Set what a provider supports; replaces earlier values.

        Args:
            provider: The provider's name.
            values: Capabilities by name, such as ``supports_tools`` or ``context_window_tokens``.
        """
        known = _check_values(values)
        with self._lock:
            self._providers = {**self._providers, provider_id(provider): known}

    def copy(self) -> CapabilitiesRegistry:
        """Return an independent copy."""
        twin = CapabilitiesRegistry(providers=self._providers, models=self._models)
        twin._defaults = self._defaults
        return twin

    def resolve(self, provider: str, model: str, overrides: Mapping[str, object] | None = None) -> Capabilities:
        """Return what a model supports.

        Args:
            provider: The provider.
            model: The provider's model id.
            overrides: Values that override the known ones.
        """
        name, model = provider_id(provider), model_id(model)
        layers: list[Mapping[str, object]] = [self._providers.get(name, {})]
        layers.extend(values for pattern, values in self._models.get(name, ()) if _matches(pattern, model))
        layers += [self._defaults, _by_option_name(overrides or {})]
        merged: dict[str, object] = {}
        for layer in layers:
            merged.update(layer)
        return Capabilities(provider=name, model=model, **merged)  # pyright: ignore[reportArgumentType]  # checked inside


def _check_values(values: Mapping[str, object]) -> dict[str, object]:
    """Check default values now, instead of when a model is looked up."""
    named = _by_option_name(values)
    Capabilities(provider="any", model="any", **named)  # pyright: ignore[reportArgumentType]  # checked inside
    return named


def _by_option_name(values: Mapping[str, object]) -> dict[str, object]:
    unknown = sorted(str(name) for name in set(values) - _OVERRIDABLE)
    if unknown:
        raise ConfigError(
            f"unknown capabilities: {', '.join(unknown)}; known ones: {', '.join(sorted(_OVERRIDABLE))}",
            code="UNKNOWN_CAPABILITY",
        )
    return {name: value for name, value in values.items() if value is not None}


def _matches(pattern: str, model: str) -> bool:
    return model.startswith(pattern[:-1]) if pattern.endswith("*") else model == pattern


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


default_registry = CapabilitiesRegistry()
"""The default registry."""

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


JSON_OBJECT = "json_object"
JSON_SCHEMA = "json_schema"
OTHER = "other"


@dataclass(frozen=True, slots=True)
class _Facts:
    capabilities: Capabilities
    stream: bool
    tools: bool
    format: str | None


_RULES: tuple[tuple[str, str, Callable[[_Facts], bool]], ...] = (
    (
        "TOOLS_WITH_RESPONSE_FORMAT",
        "tools and response_format cannot be in one request",
        lambda facts: facts.tools and facts.format is not None,
    ),
    (
        "STREAM_WITH_TOOLS_OR_FORMAT",
        "only plain chat is streamed: send tools and response_format without stream",
        lambda facts: facts.stream and (facts.tools or facts.format is not None),
    ),
    (
        "TOOLS_UNSUPPORTED",
        "{model} of {provider} does not take tools",
        lambda facts: facts.tools and not facts.capabilities.supports_tools,
    ),
    (
        "STREAMING_UNSUPPORTED",
        "{model} of {provider} does not stream",
        lambda facts: facts.stream and not facts.capabilities.supports_streaming,
    ),
    (
        "JSON_OBJECT_UNSUPPORTED",
        "{model} of {provider} does not take response_format json_object",
        lambda facts: facts.format == JSON_OBJECT and not facts.capabilities.supports_response_format_json_object,
    ),
    (
        "JSON_SCHEMA_UNSUPPORTED",
        "{model} of {provider} does not take response_format json_schema",
        lambda facts: facts.format == JSON_SCHEMA and not facts.capabilities.supports_response_format_json_schema,
    ),
    (
        "RESPONSE_FORMAT_UNSUPPORTED",
        "{model} of {provider} does not take a response_format",
        lambda facts: (
            facts.format == OTHER
            and not facts.capabilities.supports_response_format_json_object
            and not facts.capabilities.supports_response_format_json_schema
        ),
    ),
)


def validate_request(
    capabilities: Capabilities, *, stream: bool = False, tools: bool = False, response_format: object = None
) -> None:
    """Raise ``PreflightError`` with the code of the first rule that the request breaks."""
    facts = _Facts(capabilities, stream, tools, response_format_kind(response_format))
    for code, message, broken in _RULES:
        if broken(facts):
            raise PreflightError(message.format(model=capabilities.model, provider=capabilities.provider), code=code)


def response_format_kind(value: object) -> str | None:
    """Return the kind of a ``response_format``: ``json_object``, ``json_schema``, ``other``, or None."""
    if value is None or value is False:  # other values that say nothing, such as {} or "", ask for a format
        return None
    if is_mapping(value):
        kind = value.get("type")
        if isinstance(kind, str) and trim_blanks(kind) in (JSON_OBJECT, JSON_SCHEMA):
            return trim_blanks(kind)
    return OTHER
