"""Character cards of every format, read and written, safely."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
