"""RisuAI's lorebook: entries, the scan and its explanation."""

from tavernkit.risu_ai._lorebook.engine import LorebookEngine, LorebookSettings, LoreSources, ScanInput, lore_of
from tavernkit.risu_ai._lorebook.entry import CompiledLore, LorebookEntry
from tavernkit.risu_ai._lorebook.keys import KeyHit, LoreMessage
from tavernkit.risu_ai._lorebook.result import ActiveLore, LorebookResult, LoreInjection

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
