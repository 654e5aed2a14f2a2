"""A scripted model and test hosts for users' own tests."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
