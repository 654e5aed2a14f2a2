"""World Info: lorebooks as SillyTavern reads, scans and explains them."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
