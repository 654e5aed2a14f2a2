"""A plan as people look at it: by source, with the cost of each part, on a page or in a terminal."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
