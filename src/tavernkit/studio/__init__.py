"""Studio: a page that shows the prompt while authors edit its inputs."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
