"""RisuAI's lorebook: entries, the scan and its explanation."""

from tavernkit.risu_ai.lorebook.compiled import CompiledLore
from tavernkit.risu_ai.lorebook.engine import LorebookEngine, LorebookSettings, ScanInput
from tavernkit.risu_ai.lorebook.entry import LorebookEntry
from tavernkit.risu_ai.lorebook.keys import KeyHit
from tavernkit.risu_ai.lorebook.result import ActiveLore, LorebookResult, LoreInjection
from tavernkit.risu_ai.lorebook.sources import LoreSources, lore_of
from tavernkit.risu_ai.lorebook.texts import LoreMessage

__all__ = [
    "ActiveLore",
    "CompiledLore",
    "KeyHit",
    "LoreInjection",
    "LoreMessage",
    "LoreSources",
    "LorebookEngine",
    "LorebookEntry",
    "LorebookResult",
    "LorebookSettings",
    "ScanInput",
    "lore_of",
]
