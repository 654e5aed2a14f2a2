"""All effects, one module per family."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tavernkit.risu_ai._triggers.effects import (
    arrays,
    character,
    chat,
    dicts,
    flow,
    hosts,
    legacy_lore,
    lore,
    prompt,
    strings,
    variables,
)
from tavernkit.risu_ai._triggers.registry import EffectHandler, EffectTable

_FAMILIES: tuple[EffectTable, ...] = (
    variables.effects,
    flow.effects,
    prompt.effects,
    chat.effects,
    strings.effects,
    arrays.effects,
    dicts.effects,
    lore.effects,
    legacy_lore.effects,
    character.effects,
    hosts.effects,
)


@cache
def standard_effects() -> Mapping[str, EffectHandler]:
    """All effects by type."""
    handlers: dict[str, EffectHandler] = {}
    for family in _FAMILIES:
        repeated = handlers.keys() & family.handlers.keys()
        if repeated:
            raise ValueError(f"effects in two families: {', '.join(sorted(repeated))}")
        handlers.update(family.handlers)
    return MappingProxyType(handlers)
