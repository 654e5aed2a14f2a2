"""The model table of RisuAI 2026.1.90, as far as ``metadata`` prints it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from tavernkit.risu_ai._objects import RisuCustomModel


class ModelInfo(NamedTuple):
    """RisuAI's data about a model, with its numbers for format, provider and tokenizer."""

    name: str
    short_name: str
    internal_id: str
    format: int
    provider: int
    tokenizer: int


_UNKNOWN_PROVIDER = 4
_PREFIXES = {"hf:::": (10, 9, 12), "horde:::": (16, 10, 0)}
_CUSTOM_PREFIX = "xcustom:::"


@cache
def _table() -> Mapping[str, ModelInfo]:
    rows = json.loads(files("tavernkit.risu_ai._cbs").joinpath("models.json").read_text(encoding="utf-8"))
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
        table.setdefault(row["id"], info)
    return table


def model_info(model: str, custom_models: Iterable[RisuCustomModel] = ()) -> ModelInfo:
    """Look up a model: in the table, by its prefix, among the user's own models; an unknown one has only its id."""
    found = _table().get(model)
    if found is not None:
        return found
    for prefix, numbers in _PREFIXES.items():
        if model.startswith(prefix):
            name = model.removeprefix(prefix)
            return ModelInfo(name, name, name, *numbers)
    if model.startswith(_CUSTOM_PREFIX):
        for custom in custom_models:
            if custom.id == model:
                name = custom.name
                return ModelInfo(name, name, custom.internal_id, custom.format, _UNKNOWN_PROVIDER, custom.tokenizer)
    return ModelInfo(model, model, model, 0, _UNKNOWN_PROVIDER, 0)
