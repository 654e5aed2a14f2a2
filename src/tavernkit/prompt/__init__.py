"""Messages, blocks, plans and the pipeline that makes them: knows nothing of platforms, files or networks."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
