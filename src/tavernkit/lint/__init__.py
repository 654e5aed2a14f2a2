"""Finds mistakes and surprises in cards, books, presets, templates and scripts before a model sees them."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
