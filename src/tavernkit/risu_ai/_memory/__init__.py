"""Long-term memory: summaries and recalled texts that replace what no longer fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tavernkit._values import FrozenObject
from tavernkit.risu_ai._memory.contract import (
    MEMORY_MEMOS,
    Embed,
    MemoryInput,
    MemoryModels,
    MemoryOutcome,
    Summarize,
)
from tavernkit.risu_ai._memory.hypa_v2 import hanurai, hypa_v2
from tavernkit.risu_ai._memory.hypa_v3 import HypaV3Settings, hypa_v3
from tavernkit.risu_ai._memory.supa import supa_memory

SUPA_MEMORY = "SupaMemory"
"""The default kind of memory."""

HANURAI_MEMORY = "HanuraiMemory"
"""The kind of memory that makes no summaries."""

HYPA_V3 = "HypaMemory V3"


def uses_memory(settings: FrozenObject) -> bool:
    """Return True if a kind of memory is enabled in RisuAI's database."""
    kind = settings.get("supaModelType")
    named = kind is not None and kind != "none"
    return named or any(settings.get(key) for key in ("hanuraiEnable", "hypav2", "hypaV3"))


def memory_name(settings: FrozenObject) -> str:
    """Return the name of the kind of memory that is enabled in the database."""
    return next((name for key, name, _ in _KINDS if settings.get(key)), SUPA_MEMORY)


def needs_embeddings(settings: FrozenObject) -> bool:
    """Return True if the kind of memory that is enabled in the database searches for similar texts."""
    name = memory_name(settings)
    if name == HYPA_V3:
        return HypaV3Settings.of(settings).similar_ratio > 0
    return name != SUPA_MEMORY or bool(settings.get("hypaMemory"))


def remember(given: MemoryInput) -> MemoryOutcome:
    """Run the kind of memory that is enabled in the database; raises ``MemoryFailedError``."""
    for key, _, run in _KINDS:
        if given.settings.get(key):
            return run(given)
    return supa_memory(given, hypa=bool(given.settings.get("hypaMemory")))


# In the order in which RisuAI looks for them: others that are enabled, too, do nothing.
_KINDS: Sequence[tuple[str, str, Callable[[MemoryInput], MemoryOutcome]]] = (
    ("hanuraiEnable", HANURAI_MEMORY, hanurai),
    ("hypav2", "HypaMemory V2", hypa_v2),
    ("hypaV3", HYPA_V3, hypa_v3),
)


__all__ = [
    "HANURAI_MEMORY",
    "MEMORY_MEMOS",
    "Embed",
    "MemoryInput",
    "MemoryModels",
    "MemoryOutcome",
    "Summarize",
    "memory_name",
    "needs_embeddings",
    "remember",
    "uses_memory",
]
