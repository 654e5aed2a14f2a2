"""World Info: reads, scans and explains lorebooks as SillyTavern does."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
