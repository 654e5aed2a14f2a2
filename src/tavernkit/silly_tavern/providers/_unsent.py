"""Finds settings that are not sent to the provider: the request is the same without them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from random import Random

from tavernkit._values import Json, JsonObject
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern.providers._chat.page import ChatInput, chat_page_body
from tavernkit.silly_tavern.providers._chat.requests import chat_request
from tavernkit.silly_tavern.providers._request import DEFAULT_CONFIG, Connection, RequestRefusedError, SillyTavernConfig
from tavernkit.silly_tavern.providers._text.given import TextInput, with_defaults
from tavernkit.silly_tavern.providers._text.page import KOBOLD, NOVELAI, text_page_body, text_request

ANY_CONNECTION = Connection(key="-", access_token="-", project="-")
ANY_MESSAGES: tuple[JsonObject, ...] = ({"role": "user", "content": "-"},)

NEUTRAL: Mapping[str, object] = {
    "temperature": 1,
    "top_p": 1,
    "top_k": 0,
    "min_p": 0,
    "top_a": 0,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "seed": -1,
    "n": 1,
    "reasoning_effort": "auto",
    "verbosity": "auto",
    "enable_web_search": False,
    "request_images": False,
    "use_sysprompt": False,
}
"""Attributes of a preset, and their neutral values."""

GIVEN = ("stop_strings", "logit_bias", "token_probabilities", "tools", "json_schema")
"""Attributes of a ``ChatInput`` that choose something if they are set."""

NOT_SAMPLERS = re.compile(
    r"type|preset|preset_settings(_novel)?|streaming(_kobold|_novel)?|bypass_.*|openrouter_.*|.*_model"
)
"""Settings of text completion that are for the page itself, or for another backend."""


def unsent_chat_settings(preset: Preset, given: ChatInput, config: SillyTavernConfig = DEFAULT_CONFIG) -> list[str]:
    """Return the settings of a chat completion that its source or model does not get.

    Neutral values, such as a ``top_k`` of 0, are ignored. Names are those of ``Preset`` and
    ``ChatInput``.

    Args:
        preset: The preset.
        given: Other inputs of the body.
        config: The server's settings.
    """
    chosen = {name: neutral for name, neutral in NEUTRAL.items() if getattr(preset, name) != neutral}
    added = [name for name in GIVEN if getattr(given, name)]
    try:
        whole = _chat(preset, given, config)
        return [
            *(name for name in chosen if _chat(preset.replace(**{name: chosen[name]}), given, config) == whole),
            *(name for name in added if _chat(preset, _without(given, name), config) == whole),
        ]
    except RequestRefusedError:
        return []  # the request itself says why


def unsent_text_settings(
    backend: str, settings: Mapping[str, Json], given: TextInput, config: SillyTavernConfig = DEFAULT_CONFIG
) -> list[str]:
    """Return the settings of a text completion that its backend does not get.

    Only settings that differ from SillyTavern's defaults are listed.

    Args:
        backend: One of ``TEXT_BACKENDS``.
        settings: Sampler settings, as for ``text_page_body()``.
        given: The prompt and other inputs of the body.
        config: The server's settings.

    Raises:
        ConfigError: The backend is not known.
    """
    quiet = replace(given, prompt="-", random=None, warn=_ignore)
    whole = _text(backend, settings, quiet, config)
    defaults = with_defaults(backend if backend in (KOBOLD, NOVELAI) else "text", {})
    return [
        name
        for name, value in settings.items()
        if name in defaults
        and value != defaults[name]
        and not NOT_SAMPLERS.fullmatch(name)
        and _text(backend, {**settings, name: defaults[name]}, quiet, config) == whole
    ]


def _chat(preset: Preset, given: ChatInput, config: SillyTavernConfig) -> JsonObject:
    body = chat_page_body(preset, ANY_MESSAGES, given)
    return chat_request(body, ANY_CONNECTION, config, random=Random(0), warn=_ignore).body


def _without(given: ChatInput, attribute: str) -> ChatInput:
    nothing: object = getattr(ChatInput(), attribute)
    return replace(given, **{attribute: nothing})  # pyright: ignore[reportArgumentType]  # the field's own default


def _text(backend: str, settings: Mapping[str, Json], given: TextInput, config: SillyTavernConfig) -> JsonObject:
    body = text_page_body(backend, settings, replace(given, random=Random(0)))
    return text_request(backend, body, ANY_CONNECTION, config).body


def _ignore(_message: str) -> None:
    """Ignore a warning: making the request itself warns."""
