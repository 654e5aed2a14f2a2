"""The ``{{name}}`` of instruct sequences."""

from __future__ import annotations

import re

from tavernkit._text.js_regex import JSRegex
from tavernkit._text.traced import substitute

NOBODY = "System"
"""The default name of a message."""

NAME_MACRO = ("name",)
"""The macro that expansion must leave in a sequence."""

_NAME = "{{name}}"
_ANY_CASE = re.compile(r"\{\{name\}\}", re.IGNORECASE | re.ASCII)


def replace_name(text: str, name: str) -> str:
    """Put a name into a sequence. ``$&`` and similar patterns in it are special, as in a JavaScript replacement."""
    if "{{" not in text or _NAME not in text.lower():
        return text
    if type(text) is not str and "$" not in name:
        return substitute(_ANY_CASE, lambda _found: name or NOBODY, text, kind="expanded", name="name")
    return JSRegex.compile(r"\{\{name\}\}", "gi").replace(text, name or NOBODY)
