"""The OpenAI-compatible service (extra ``server``): characters are models, sessions are kept.

>>> from tavernkit.server import ServerConfig, create_app           # doctest: +SKIP
>>> app = create_app(ServerConfig())                                # doctest: +SKIP
"""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
