"""Line breaks, characters that would otherwise mean something, and small pieces of HTML."""

from __future__ import annotations

import codecs
import math

from tavernkit.risu_ai._cbs.functions.strings import lenient_base64
from tavernkit.risu_ai._cbs.limits import MAX_CHARACTERS, FunctionFailure
from tavernkit.risu_ai._cbs.registry import CBSCall, FunctionGroup

markup_functions = FunctionGroup("markup")


@markup_functions("br", "newline", pure=True)
def br(_: CBSCall) -> str:
    """A line break."""
    return "\n"


@markup_functions("cbr", "cnl", "cnewline", args=("count",), pure=True)
def cbr(call: CBSCall) -> str:
    """A backslash and an ``n``; with a count, the tag itself that many times."""
    if not call.args:
        return "\\n"
    count = call.number(0)
    if math.isnan(count):
        return ""
    count = max(1.0, count)
    if count * len(call.tag) > MAX_CHARACTERS:
        raise FunctionFailure("the count is too large")
    return call.tag * int(count)  # not the backslash and the `n`, as RisuAI's help says


@markup_functions("decbo", "displayescapedcurlybracketopen", pure=True)
def decbo(_: CBSCall) -> str:
    """An opening brace that means nothing until it is shown."""
    return "\ue9b8"


@markup_functions("decbc", "displayescapedcurlybracketclose", pure=True)
def decbc(_: CBSCall) -> str:
    """A closing brace that means nothing until it is shown."""
    return "\ue9b9"


@markup_functions("bo", "ddecbo", "doubledisplayescapedcurlybracketopen", pure=True)
def bo(_: CBSCall) -> str:
    """Two opening braces that mean nothing until they are shown."""
    return "\ue9b8\ue9b8"


@markup_functions("bc", "ddecbc", "doubledisplayescapedcurlybracketclose", pure=True)
def bc(_: CBSCall) -> str:
    """Two closing braces that mean nothing until they are shown."""
    return "\ue9b9\ue9b9"


@markup_functions("displayescapedbracketopen", "debo", "(", pure=True)
def debo(_: CBSCall) -> str:
    """An opening parenthesis that means nothing until it is shown."""
    return "\ue9ba"


@markup_functions("displayescapedbracketclose", "debc", ")", pure=True)
def debc(_: CBSCall) -> str:
    """A closing parenthesis that means nothing until it is shown."""
    return "\ue9bb"


@markup_functions("displayescapedanglebracketopen", "deabo", "<", pure=True)
def deabo(_: CBSCall) -> str:
    """A less-than sign that means nothing until it is shown."""
    return "\ue9bc"


@markup_functions("displayescapedanglebracketclose", "deabc", ">", pure=True)
def deabc(_: CBSCall) -> str:
    """A greater-than sign that means nothing until it is shown."""
    return "\ue9bd"


@markup_functions("displayescapedcolon", "dec", pure=True)
def dec(_: CBSCall) -> str:
    """A colon that means nothing until it is shown."""
    return "\ue9be"


@markup_functions("displayescapedsemicolon", ";", pure=True)
def semicolon(_: CBSCall) -> str:
    """A semicolon that means nothing until it is shown."""
    return "\ue9bf"


def _one_mark_a_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("tavernkit.one_mark_a_byte", _one_mark_a_byte)


@markup_functions("file", args=("name", "data"))
def file(call: CBSCall) -> str:
    """A file inside the text: its name when shown, else its content (base64)."""
    if call.context.display:
        return f'<br><div class="risu-file">{call.shown(0)}</div><br>'
    return lenient_base64(call.text(1)).decode("utf-8", "tavernkit.one_mark_a_byte")


@markup_functions("button", args=("label", "trigger"), pure=True)
def button(call: CBSCall) -> str:
    """A button that runs a trigger."""
    return f'<button class="button-default" risu-trigger="{call.shown(1)}">{call.shown(0)}</button>'


@markup_functions("risu", args=("size",), pure=True)
def risu(call: CBSCall) -> str:
    """RisuAI's logo."""
    size = call.get(0) or "45"
    return f'<img src="/logo2.png" style="height:{size}px;width:{size}px" />'


@markup_functions("tex", "latex", "katex", args=("formula",), pure=True)
def tex(call: CBSCall) -> str:
    """A formula."""
    return f"$${call.shown(0)}$$"


@markup_functions("ruby", "furigana", args=("text", "reading"), pure=True)
def ruby(call: CBSCall) -> str:
    """A text with its reading above."""
    return f"<ruby>{call.shown(0)}<rp> (</rp><rt>{call.shown(1)}</rt><rp>) </rp></ruby>"


_HTML = str.maketrans({'"': "&quot;", "'": "&#39;", "<": "&lt;", ">": "&gt;"})


@markup_functions("codeblock", args=("language", "code"), pure=True)
def codeblock(call: CBSCall) -> str:
    """A block of source code; the language may be left out."""
    code = call.text(max(len(call.args) - 1, 0)).translate(_HTML)
    if len(call.args) > 1:
        return f'<pre-hljs-placeholder lang="{call.args[0]}">{code}</pre-hljs-placeholder>'
    return f"<pre><code>{code}</code></pre>"
