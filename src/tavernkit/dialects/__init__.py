"""Converts messages to provider payloads: one module per provider, and a registry."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
