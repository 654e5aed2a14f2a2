"""Messages to provider payloads: one module a provider, and a registry."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
