"""Names for outlets that SillyTavern does not have."""

from __future__ import annotations

from tavernkit.silly_tavern._macros.builtin.utility import outlet
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroRegistry

macros = MacroRegistry()

macros.register(
    "slot",
    outlet,
    args=(MacroArgument("key"),),
    category="utility",
    description="The same as {{outlet}}: text of the World Info outlet with this key.",
    example="{{slot::lore}}",
)
