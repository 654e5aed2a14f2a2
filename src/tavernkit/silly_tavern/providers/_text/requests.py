"""Makes the page's body and the request for any text-completion backend."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._values import Json, JsonObject
from tavernkit.errors import ConfigError
from tavernkit.silly_tavern.providers._config import DEFAULT_CONFIG, SillyTavernConfig
from tavernkit.silly_tavern.providers._request import Connection, ProviderRequest
from tavernkit.silly_tavern.providers._text.backends import BACKENDS, textgen_request
from tavernkit.silly_tavern.providers._text.given import TextInput
from tavernkit.silly_tavern.providers._text.kobold import kobold_body, kobold_request
from tavernkit.silly_tavern.providers._text.novelai import novelai_body, novelai_request
from tavernkit.silly_tavern.providers._text.page import textgen_body

KOBOLD, NOVELAI = "kobold", "novelai"
TEXT_BACKENDS: tuple[str, ...] = (*BACKENDS, KOBOLD, NOVELAI)
"""Every text-completion backend: SillyTavern's types, and the two with their own protocols."""


def text_page_body(backend: str, settings: Mapping[str, Json], given: TextInput) -> JsonObject:
    """Make the body that SillyTavern's page posts to its server for a text completion.

    Args:
        backend: One of ``TEXT_BACKENDS``.
        settings: Sampler settings by the names of a preset file of that backend (``temp``, ``rep_pen``, …; the
            model is one of them: ``vllm_model``, ``model_novel``, …). Missing settings have SillyTavern's defaults.
        given: The prompt and other inputs of the body.

    Raises:
        ConfigError: The backend is not known.
    """
    require_backend(backend)
    if backend == KOBOLD:
        return kobold_body(settings, given)
    if backend == NOVELAI:
        return novelai_body(settings, given)
    return textgen_body(backend, settings, given)


def text_request(
    backend: str,
    body: Mapping[str, Json],
    connection: Connection | None = None,
    config: SillyTavernConfig = DEFAULT_CONFIG,
) -> ProviderRequest:
    """Make the request that SillyTavern's server sends for a body of ``text_page_body()``.

    Args:
        backend: One of ``TEXT_BACKENDS``.
        body: The page's body; its ``api_server`` says where the backend is.
        connection: The API key, if the backend needs one.
        config: The server's settings.

    Raises:
        ConfigError: The backend is not known.
        RequestRefusedError: SillyTavern would send nothing (NovelAI without a key).
    """
    require_backend(backend)
    connection = connection or Connection()
    if backend == KOBOLD:
        return kobold_request(body, config)
    if backend == NOVELAI:
        return novelai_request(body, connection)
    return textgen_request(backend, body, connection, config)


def require_backend(backend: str) -> None:
    """Raise an error that lists the known backends if this one is unknown."""
    if backend not in TEXT_BACKENDS:
        known = ", ".join(TEXT_BACKENDS)
        raise ConfigError(f"unknown text backend {backend!r}; pass one of {known}", code="UNKNOWN_BACKEND")
