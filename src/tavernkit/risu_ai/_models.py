"""The models of RisuAI 2026.1.90: what ``metadata`` prints of them, and how requests for them are written.

Tables tell a model's name at its provider, its format, address and parameters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from tavernkit._dataclass import dataclass
from tavernkit.risu_ai._objects import RisuCustomModel


class ModelInfo(NamedTuple):
    """RisuAI's data about a model, with its numbers for format, provider and tokenizer."""

    name: str
    short_name: str
    internal_id: str
    format: int
    provider: int
    tokenizer: int


FULL_SYSTEM, FIRST_SYSTEM = "hasFullSystemPrompt", "hasFirstSystemPrompt"
ALTERNATE_ROLE, STARTS_WITH_USER = "requiresAlternateRole", "mustStartWithUserInput"
DEVELOPER_ROLE, IMAGE_INPUT = "DeveloperRole", "hasImageInput"
PREFIX_FIELD, THINKING_FIELD = "deepSeekPrefix", "deepSeekThinkingInput"
"""Flags of models: what they can take."""

_UNKNOWN_PROVIDER = 4
_PREFIXES = {"hf:::": (10, 9, 12), "horde:::": (16, 10, 0)}
CUSTOM_MODEL_PREFIX = "xcustom:::"


@cache
def _models() -> Mapping[str, ModelInfo]:
    rows = json.loads(files("tavernkit.risu_ai").joinpath("models.json").read_text(encoding="utf-8"))
    table: dict[str, ModelInfo] = {}
    for row in rows:
        name = row["name"] or row["id"]
        info = ModelInfo(
            name,
            row["shortName"] or name,
            row["internalID"] or row["id"],
            row["format"],
            row["provider"],
            row["tokenizer"],
        )
        table.setdefault(row["id"], info)  # of several rows RisuAI finds the first
    return table


def model_info(model: str, custom_models: Iterable[RisuCustomModel] = ()) -> ModelInfo:
    """Look up a model: in the table, by its prefix, among the user's own models; an unknown one has only its id."""
    found = _models().get(model)
    if found is not None:
        return found
    for prefix, numbers in _PREFIXES.items():
        if model.startswith(prefix):
            name = model.removeprefix(prefix)
            return ModelInfo(name, name, name, *numbers)
    if model.startswith(CUSTOM_MODEL_PREFIX):
        for custom in custom_models:
            if custom.id == model:
                name = custom.name
                return ModelInfo(name, name, custom.internal_id, custom.format, _UNKNOWN_PROVIDER, custom.tokenizer)
    return ModelInfo(model, model, model, 0, _UNKNOWN_PROVIDER, 0)


@dataclass(frozen=True, slots=True)
class _Flags:
    names: tuple[str, ...]
    models: Mapping[str, frozenset[str]]


@cache
def _flags() -> _Flags:
    raw: Any = json.loads(files("tavernkit.risu_ai").joinpath("model_flags.json").read_text(encoding="utf-8"))
    names = tuple(raw["flag_names"])
    return _Flags(names, {model: frozenset(names[number] for number in row) for model, row in raw["models"].items()})


def flag_names(numbers: Iterable[object]) -> frozenset[str]:
    """Names of the flags a database stores as numbers; unknown numbers are left out."""
    names = _flags().names
    known = (number for number in numbers if isinstance(number, (int, float)) and not isinstance(number, bool))
    return frozenset(names[int(number)] for number in known if 0 <= number < len(names) and number == int(number))


def model_flags(
    model: str,
    *,
    custom_flags: Iterable[object] | None = None,
    custom_models: Mapping[str, Iterable[object]] | None = None,
) -> frozenset[str]:
    """The flags of a model id.

    ``custom_flags`` (numbers) replace those of every model in RisuAI's table; ``custom_models`` has the flags of the
    models a user defined (``xcustom:::…``). An unknown model has none.
    """
    listed = _flags().models.get(model)
    if listed is not None:
        return listed if custom_flags is None else flag_names(custom_flags)
    if model.startswith(CUSTOM_MODEL_PREFIX) and custom_models is not None:
        return flag_names(custom_models.get(model, ()))
    return frozenset()


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
