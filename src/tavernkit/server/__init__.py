"""The OpenAI-compatible service (extra ``server``): characters are models, sessions are kept.

>>> from tavernkit.server import ServerConfig, create_app           # doctest: +SKIP
>>> app = create_app(ServerConfig())                                # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from tavernkit._lazy import lazy_exports

if TYPE_CHECKING:
    from tavernkit.server.app import create_app as create_app
    from tavernkit.server.config import ServerConfig as ServerConfig
    from tavernkit.server.config import UpstreamConfig as UpstreamConfig
    from tavernkit.server.config import load_config as load_config
    from tavernkit.server.prune import prune as prune
    from tavernkit.server.run import serve as serve
    from tavernkit.server.service import Service as Service

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".app": ("create_app",),
        ".config": ("ServerConfig", "UpstreamConfig", "load_config"),
        ".prune": ("prune",),
        ".run": ("serve",),
        ".service": ("Service",),
    },
)
