"""A preset chain: each send picks one of the presets it names."""

from __future__ import annotations

import math
from collections.abc import Callable

from tavernkit.errors import Warn
from tavernkit.risu_ai.build_context import BuildContext
from tavernkit.risu_ai.files.preset import Preset


def chained_preset(context: BuildContext, random: Callable[[], float], warn: Warn) -> Preset:
    """The preset of a send: the one given, one of the chain, or the one in force."""
    settings = context.settings
    if context.preset is not None or not settings.preset_chain:
        return context.active_preset
    names = [name.strip() for name in settings.preset_chain.split(",")]
    wanted = names[min(math.floor(random() * len(names)), len(names) - 1)]
    found = next((preset for preset in settings.presets if preset.name == wanted), None)
    if found is None:
        warn(f"the preset chain names {wanted!r}, which is not among the presets; the one in force is used")
        return context.active_preset
    return found
