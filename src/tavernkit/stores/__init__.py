"""Chat history and variables: protocols and in-memory versions."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
