"""Batches: grids of cards, presets, personas, chats, messages and seeds, built (and sent) on one core or a cluster."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
