"""SillyTavern's own macros, in modules by subject."""

from __future__ import annotations

from tavernkit.errors import Warn, log_warning
from tavernkit.silly_tavern._macros.builtin import card, settings, time, utility, variable
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroRegistry

SUBJECTS = (utility, card, time, variable, settings)
"""The modules of the macros that SillyTavern itself has."""

OUR_OWN = MacroRegistry()
"""Macros that SillyTavern does not have."""

OUR_OWN.register(
    "slot",
    utility.outlet,
    args=(MacroArgument("key"),),
    category="utility",
    description="The same as {{outlet}}: text of the World Info outlet with this key.",
    example="{{slot::lore}}",
)


def silly_tavern_registry(*, warn: Warn = log_warning) -> MacroRegistry:
    """Return exactly the macros of SillyTavern 1.19.0; ``warn`` is called for duplicate registrations."""
    return MacroRegistry((definition for subject in SUBJECTS for definition in subject.macros), warn=warn)


def default_registry(*, warn: Warn = log_warning) -> MacroRegistry:
    """Return the macros of SillyTavern and the few that this library adds."""
    registry = silly_tavern_registry(warn=warn)
    for definition in OUR_OWN:
        registry.add(definition)
    return registry
