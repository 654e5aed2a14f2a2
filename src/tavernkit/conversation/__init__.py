"""One object that a bot is written with: a chat, its model and where it is saved."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
