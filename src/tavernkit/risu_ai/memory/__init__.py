"""Long-term memory: summaries and recollections that stand in for what no longer fits."""

from __future__ import annotations

from tavernkit.risu_ai.memory.contract import (
    MEMORY_MEMOS,
    Embed,
    MemoryInput,
    MemoryModels,
    MemoryOutcome,
    Summarize,
)
from tavernkit.risu_ai.memory.hanurai import hanurai
from tavernkit.risu_ai.memory.hypa_v2 import hypa_v2
from tavernkit.risu_ai.memory.hypa_v3 import hypa_v3
from tavernkit.risu_ai.memory.supa import supa_memory
from tavernkit.values import FrozenObject


def uses_memory(settings: FrozenObject) -> bool:
    """Tell whether RisuAI's database has a kind of memory switched on."""
    kind = settings.get("supaModelType")
    named = kind is not None and kind != "none"
    return named or any(settings.get(key) for key in ("hanuraiEnable", "hypav2", "hypaV3"))


def remember(given: MemoryInput) -> MemoryOutcome:
    """Run the kind of memory that the database asks for; raises :class:`MemoryFailedError`."""
    settings = given.settings
    if settings.get("hanuraiEnable"):
        return hanurai(given)
    if settings.get("hypav2"):
        return hypa_v2(given)
    if settings.get("hypaV3"):
        return hypa_v3(given)
    return supa_memory(given, hypa=bool(settings.get("hypaMemory")))


__all__ = [
    "MEMORY_MEMOS",
    "Embed",
    "MemoryInput",
    "MemoryModels",
    "MemoryOutcome",
    "Summarize",
    "remember",
    "uses_memory",
]
