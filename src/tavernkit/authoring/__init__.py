"""Tools for authors: tests of cards, books and presets, and what changed between two versions of them."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
