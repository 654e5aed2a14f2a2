"""The lore contracts that both platforms' engines satisfy, and what they share."""

from tavernkit.lore._contracts import LoreEngine, LoreEntry, LoreResult, LoreRow, TokenCounter

__all__ = ["LoreEngine", "LoreEntry", "LoreResult", "LoreRow", "TokenCounter"]
