"""SillyTavern: its files in, its prompt out."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
