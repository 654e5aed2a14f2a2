"""What RisuAI knows a model can take: its flags, which decide how messages are rewritten for a request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from tavernkit._dataclass import dataclass

FULL_SYSTEM, FIRST_SYSTEM = "hasFullSystemPrompt", "hasFirstSystemPrompt"
ALTERNATE_ROLE, STARTS_WITH_USER = "requiresAlternateRole", "mustStartWithUserInput"
DEVELOPER_ROLE, IMAGE_INPUT = "DeveloperRole", "hasImageInput"
PREFIX_FIELD, THINKING_FIELD = "deepSeekPrefix", "deepSeekThinkingInput"

CUSTOM_MODEL_PREFIX = "xcustom:::"


@dataclass(frozen=True, slots=True)
class _Table:
    names: tuple[str, ...]
    models: Mapping[str, frozenset[str]]


@cache
def _table() -> _Table:
    raw: Any = json.loads(files("tavernkit.risu_ai").joinpath("model_flags.json").read_text(encoding="utf-8"))
    names = tuple(raw["flag_names"])
    return _Table(names, {model: frozenset(names[number] for number in row) for model, row in raw["models"].items()})


def flag_names(numbers: Iterable[object]) -> frozenset[str]:
    """Names of the flags a database stores as numbers; unknown numbers are left out."""
    names = _table().names
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
    listed = _table().models.get(model)
    if listed is not None:
        return listed if custom_flags is None else flag_names(custom_flags)
    if model.startswith(CUSTOM_MODEL_PREFIX) and custom_models is not None:
        return flag_names(custom_models.get(model, ()))
    return frozenset()
