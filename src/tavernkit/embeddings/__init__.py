"""Embeddings of texts, and an index that finds the nearest."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
