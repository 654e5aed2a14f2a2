"""The lore contracts that both platforms' engines implement, and what they share."""

from tavernkit.lore.contracts import LoreBook, LoreEngine, LoreEntry, LoreResult, TokenCounter

__all__ = ["LoreBook", "LoreEngine", "LoreEntry", "LoreResult", "TokenCounter"]
