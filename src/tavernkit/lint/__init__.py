"""What will surprise the author of a card, book, preset, template or script: found before a model sees it."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
