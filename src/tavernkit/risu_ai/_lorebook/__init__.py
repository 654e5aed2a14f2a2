"""RisuAI's lorebook: entries, the scan and its explanation."""

from tavernkit.risu_ai._lorebook.compiled import CompiledLore
from tavernkit.risu_ai._lorebook.engine import LorebookEngine, LorebookSettings, ScanInput
from tavernkit.risu_ai._lorebook.entry import LorebookEntry
from tavernkit.risu_ai._lorebook.keys import KeyHit
from tavernkit.risu_ai._lorebook.result import ActiveLore, LorebookResult, LoreInjection
from tavernkit.risu_ai._lorebook.sources import LoreSources, lore_of
from tavernkit.risu_ai._lorebook.texts import LoreMessage

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
