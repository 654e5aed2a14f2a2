"""SillyTavern's macros: the Macros 2.0 engine, the legacy engine, and every built-in macro."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
