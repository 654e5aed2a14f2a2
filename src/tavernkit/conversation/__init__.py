"""Conversations: a chat, its model and the place where it is saved."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
