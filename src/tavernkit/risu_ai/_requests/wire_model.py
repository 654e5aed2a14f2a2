"""What goes over the wire for a model: its name there, its format, address and parameters, as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from importlib.resources import files
from typing import Any

from tavernkit._dataclass import dataclass


class WireFormat(IntEnum):
    """RisuAI's numbers for the formats of requests."""

    OPENAI = 0
    LEGACY_INSTRUCT = 1
    ANTHROPIC = 2
    MISTRAL = 4
    GOOGLE = 5
    VERTEX = 6
    COHERE = 8
    BEDROCK = 17
    RESPONSES = 18


@dataclass(frozen=True, slots=True)
class Provider:
    """Where requests of a format go: the address, the header with the key and whose key it is."""

    key: str
    url: str
    header: str = "Authorization"
    scheme: str = "Bearer "
    ending: str = ""
    """What is added to the address of a proxy."""


PROVIDERS: Mapping[int, Provider] = {
    WireFormat.OPENAI: Provider("openai", "https://api.openai.com/v1/chat/completions", ending="chat/completions"),
    WireFormat.LEGACY_INSTRUCT: Provider("openai", "https://api.openai.com/v1/completions"),
    WireFormat.ANTHROPIC: Provider(
        "anthropic", "https://api.anthropic.com/v1/messages", "x-api-key", scheme="", ending="messages"
    ),
    WireFormat.MISTRAL: Provider("mistral", "https://api.mistral.ai/v1/chat/completions"),
    WireFormat.COHERE: Provider("cohere", "https://api.cohere.com/v1/chat"),
    WireFormat.RESPONSES: Provider("openai", "https://api.openai.com/v1/responses", ending="responses"),
}
OPENROUTER = Provider("openrouter", "https://openrouter.ai/api/v1/chat/completions")
ENDPOINT_KEYS: Mapping[str, str] = {"api.deepseek.com": "deepseek", "api.deepinfra.com": "deepinfra"}
"""Whose key models with an address of their own want."""

LEGACY_MODEL = "gpt-3.5-turbo-instruct"
DEFAULT_OPENROUTER_MODEL = "openai/gpt-3.5-turbo"
OLD_COHERE_MODELS = frozenset({"cohere-command-r-03-2024", "cohere-command-r-plus-04-2024"})
"""Models that know no safety mode."""


@dataclass(frozen=True, slots=True)
class _Table:
    parameters: Mapping[str, tuple[str, ...]]
    endpoints: Mapping[str, str]


@cache
def _table() -> _Table:
    path = files("tavernkit.risu_ai._requests").joinpath("model_parameters.json")
    raw: Any = json.loads(path.read_text(encoding="utf-8"))
    lists: list[tuple[str, ...]] = [tuple(names) for names in raw["lists"]]
    models: dict[str, int] = raw["models"]
    return _Table({model: lists[number] for model, number in models.items()}, raw["endpoints"])


DEFAULT_PARAMETERS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")


def parameters_of(model: str) -> tuple[str, ...]:
    """The parameters RisuAI sends to a model, in order."""
    return _table().parameters.get(model, DEFAULT_PARAMETERS)


def endpoint_of(model: str) -> str | None:
    """The address of a model that has one of its own."""
    return _table().endpoints.get(model)
