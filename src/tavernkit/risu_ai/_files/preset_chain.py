"""A preset chain: each send picks one of its presets."""

from __future__ import annotations

import math
from collections.abc import Callable

from tavernkit.errors import Warn
from tavernkit.risu_ai._context import RisuAIContext
from tavernkit.risu_ai._files.settings import Settings


def chained_settings(context: RisuAIContext, random: Callable[[], float], warn: Warn) -> Settings:
    """Return the settings of a send: switched to a preset of the chain, unless the application passes one."""
    settings = context.settings
    if context.preset is not None or not settings.preset_chain:
        return settings
    names = [name.strip() for name in settings.preset_chain.split(",")]
    wanted = names[min(math.floor(random() * len(names)), len(names) - 1)]
    found = next((index for index, preset in enumerate(settings.presets) if preset.name == wanted), None)
    if found is None:
        warn(f"the preset chain names {wanted!r}, which is not among the presets; the one in force is used")
        return settings
    return settings.switch_preset(found)
