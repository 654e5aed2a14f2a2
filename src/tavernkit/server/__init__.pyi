from tavernkit.server.app import create_app as create_app
from tavernkit.server.config import ServerConfig as ServerConfig
from tavernkit.server.config import UpstreamConfig as UpstreamConfig
from tavernkit.server.config import load_config as load_config
from tavernkit.server.retention import prune as prune
from tavernkit.server.run import serve as serve
from tavernkit.server.service import Service as Service
from tavernkit.server.session_store import SessionStore as SessionStore

__all__: list[str]
