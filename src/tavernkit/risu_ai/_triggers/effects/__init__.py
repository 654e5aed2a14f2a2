"""All effects, one module per family."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tavernkit.risu_ai._triggers.effects import arrays, character, chat, flow, hosts, strings
from tavernkit.risu_ai._triggers.program import EffectHandler, EffectTable

_FAMILIES: tuple[EffectTable, ...] = (
    flow.effects,
    chat.effects,
    strings.effects,
    arrays.effects,
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
