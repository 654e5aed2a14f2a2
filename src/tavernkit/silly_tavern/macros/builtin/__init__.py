"""SillyTavern's own macros, in modules by subject."""

from __future__ import annotations

from tavernkit.silly_tavern.macros.builtin import (
    card,
    chat,
    extension,
    flow,
    instruct,
    names,
    outlets,
    random,
    state,
    time,
    utility,
    variable,
)
from tavernkit.silly_tavern.macros.registry import MacroRegistry

SUBJECTS = (utility, flow, random, names, card, chat, time, variable, instruct, state, extension)
"""The modules of the macros that SillyTavern itself has."""


def silly_tavern_registry() -> MacroRegistry:
    """Exactly the macros of SillyTavern 1.19.0."""
    return MacroRegistry(definition for subject in SUBJECTS for definition in subject.macros)


def default_registry() -> MacroRegistry:
    """The macros of SillyTavern and the few that this library adds."""
    registry = silly_tavern_registry()
    for definition in outlets.macros:
        registry.add(definition)
    return registry
