"""Studio: a page on which authors see the prompt, change what it is made of, and see it change."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
