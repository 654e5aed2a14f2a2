"""Makes models from short names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from tavernkit.arguments import require
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.models._http import HttpModel
from tavernkit.models.anthropic import AnthropicModel
from tavernkit.models.endpoint import Endpoint
from tavernkit.models.google import API_VERSION, GoogleModel
from tavernkit.models.limits import RETRIES
from tavernkit.models.openai import OpenAIModel, TextModel
from tavernkit.models.parameters import ServerFields
from tavernkit.models.protocol import Model
from tavernkit.models.scripted import Script, ScriptedModel
from tavernkit.models.wrappers import with_retries

SCRIPTED: Final = "scripted"
_VERSION: Final = re.compile(r"/v\d+[a-z]*\d*/?$")


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a provider is, what speaks to it, and where its key is kept."""

    make: type[HttpModel]
    base_url: str | None
    """None: there is no usual address."""
    keys: tuple[str, ...] = ()
    """Environment variables that hold the key."""
    address: str = ""
    """The environment variable that holds another address."""
    api_prefix: str = "/v1"


PROVIDERS: Final[Mapping[str, Provider]] = {
    "openai": Provider(OpenAIModel, "https://api.openai.com", ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "anthropic": Provider(AnthropicModel, "https://api.anthropic.com", ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"),
    "google": Provider(
        GoogleModel,
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        api_prefix=f"/{API_VERSION}",
    ),
    "text": Provider(TextModel, None, ("OPENAI_API_KEY",)),
    "openrouter": Provider(OpenAIModel, "https://openrouter.ai/api", ("OPENROUTER_API_KEY",)),
    "deepseek": Provider(OpenAIModel, "https://api.deepseek.com", ("DEEPSEEK_API_KEY",)),
    "mistral": Provider(OpenAIModel, "https://api.mistral.ai", ("MISTRAL_API_KEY",)),
    "groq": Provider(OpenAIModel, "https://api.groq.com/openai", ("GROQ_API_KEY",)),
    "xai": Provider(OpenAIModel, "https://api.x.ai", ("XAI_API_KEY",)),
}
"""Providers by name."""


def model(
    name: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    max_retries: int = RETRIES,
    replies: Sequence[Script] | None = None,
    fields: ServerFields | None = None,
    warn: Warn = log_warning,
    environment: Mapping[str, str] | None = None,
) -> Model:
    """Make a model from ``provider:name``.

    >>> model("openai:gpt-4o")                                                     # doctest: +SKIP
    >>> model("openai:my-model", base_url="http://localhost:8000")                 # doctest: +SKIP
    >>> model("anthropic:claude-sonnet-4-5", timeout=60, max_retries=0)            # doctest: +SKIP
    >>> model("scripted", replies=["Hello."]).name
    'scripted-model'

    Args:
        name: ``openai:NAME``, ``anthropic:NAME``, ``google:NAME``, ``text:NAME`` (text completion), ``openrouter:NAME``
            and others, or ``scripted``. Without a NAME each request has to name its model.
        api_key: The key; by default it is read from the provider's usual environment variable.
        base_url: The address of another server that speaks the same protocol, with or without ``/v1``.
        headers: Additional headers.
        timeout: Seconds to wait for a reply, or for the next piece of a stream.
        max_retries: How often a request that failed before the reply began is sent again.
        replies: What the scripted model says, in order.
        fields: Which options the server takes, where names of models do not tell.
        warn: Called with options that the provider or the model does not take.
        environment: Environment variables; those of the process by default.

    Raises:
        ConfigError: The provider is unknown, or there is no address.
    """
    require("name", name, str)
    provider, _, model_name = name.partition(":")
    if provider == SCRIPTED:
        return ScriptedModel(*(replies or ()), name=model_name or "scripted-model")
    if replies is not None:
        raise ConfigError("replies are for the scripted model: tk.model('scripted', replies=[…])")
    known = PROVIDERS.get(provider)
    if known is None:
        raise ConfigError(_unknown(name, provider), code="UNKNOWN_PROVIDER")
    variables = os.environ if environment is None else environment
    address = base_url or variables.get(known.address) or known.base_url
    if address is None:
        raise ConfigError(f"{name!r} needs base_url: there is no usual server for it", code="BASE_URL_REQUIRED")
    endpoint = Endpoint(
        base_url=address,
        api_key=api_key or next((value for key in known.keys if (value := variables.get(key))), None),
        api_prefix="" if _VERSION.search(address) else known.api_prefix,
        headers=headers or {},
        timeout=timeout,
    )
    # A provider's own server wants a key; other servers may not.
    wanted = known.keys[0] if endpoint.base_url == known.base_url else ""
    made = known.make(model_name, endpoint, warn=warn, key_variable=wanted, fields=fields)
    return with_retries(made, retries=max_retries)


def _unknown(name: str, provider: str) -> str:
    known = [*PROVIDERS, SCRIPTED]
    near = get_close_matches(provider, known, n=1)
    if near:
        return f"no provider {provider!r}: did you mean {name.replace(provider, near[0], 1)!r}?"
    if ":" not in name:
        return f"{name!r} names no provider: pass 'openai:{name}', or another of {', '.join(known)}"
    return f"no provider {provider!r}: known are {', '.join(known)}"
