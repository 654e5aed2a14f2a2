"""Reports about a plan: by source, with the cost of each part, as a page or for the terminal."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
