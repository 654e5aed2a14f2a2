"""SillyTavern: builds its prompts from its files."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
