"""Prompt caches: what a provider has cached of a prompt, what it costs, what breaks the cache, and how to keep it.

>>> from tavernkit.cache import PROFILES
>>> PROFILES["anthropic"].breakpoints
4
"""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
