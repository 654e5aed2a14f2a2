"""CBS, RisuAI's Curly Braced Syntax: the language of its cards, lore, scripts and templates."""

from tavernkit.risu_ai._cbs.blocks import unescape
from tavernkit.risu_ai._cbs.engine import CBSEngine
from tavernkit.risu_ai._cbs.functions import standard_registry
from tavernkit.risu_ai._cbs.limits import FunctionFailure
from tavernkit.risu_ai._cbs.media import MediaSettings, ShownInlay, replace_assets, replace_inlays
from tavernkit.risu_ai._cbs.registry import CBSCall, CBSFunction, CBSRegistry, FunctionGroup
from tavernkit.risu_ai._cbs.run import CBSDiagnostic, CBSResult

__all__ = [
    "CBSCall",
    "CBSDiagnostic",
    "CBSEngine",
    "CBSFunction",
    "CBSRegistry",
    "CBSResult",
    "FunctionFailure",
    "FunctionGroup",
    "MediaSettings",
    "ShownInlay",
    "replace_assets",
    "replace_inlays",
    "standard_registry",
    "unescape",
]
