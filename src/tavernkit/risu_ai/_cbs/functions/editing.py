"""Functions that edit the text before them."""

from __future__ import annotations

from tavernkit._text.js_values import trim_end
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.registry import FunctionGroup
from tavernkit.risu_ai._cbs.source import joined

functions = FunctionGroup("editing")


def _written(call: CBSCall) -> str:
    """Return the text before the tag; the whole text counts as work each time."""
    text = joined(call.buffer)
    call.run.session.step(len(text) >> 8)
    return trim_end(text)


@functions("bkspc", edits=True)
def bkspc(call: CBSCall) -> str:
    """Remove the last word before the tag."""
    text = _written(call)
    cut = max(text.rfind(" "), text.rfind("\n"), text.rfind("\t"), 0)
    call.buffer[:] = [trim_end(text[:cut])]
    return ""


@functions("erase", edits=True)
def erase(call: CBSCall) -> str:
    """Remove the unfinished last sentence before the tag."""
    text = _written(call)
    cut = max(text.rfind(end) for end in ".!?\n") + 1
    call.buffer[:] = [trim_end(text[:cut])]
    return ""
