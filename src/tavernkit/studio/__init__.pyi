from tavernkit.studio._app import create_app as create_app
from tavernkit.studio._document import Document as Document
from tavernkit.studio._studio import Studio as Studio
from tavernkit.studio._workspace import Workspace as Workspace

__all__: list[str]
