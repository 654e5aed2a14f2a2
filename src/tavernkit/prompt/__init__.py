"""Messages, blocks, plans and the pipeline that makes them, independent of platforms, files and networks."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
