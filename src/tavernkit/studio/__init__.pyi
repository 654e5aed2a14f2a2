from tavernkit.studio.app import create_app as create_app
from tavernkit.studio.document import Document as Document
from tavernkit.studio.studio import Studio as Studio
from tavernkit.studio.workspace import Workspace as Workspace

__all__: list[str]
