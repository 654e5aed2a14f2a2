"""The ``{{name}}`` of instruct sequences."""

from __future__ import annotations

import re

from tavernkit._text.js_regex import JSRegex
from tavernkit._text.traced import substitute

NOBODY = "System"
"""Stands in for the name of a message that has none."""

NAME_MACRO = ("name",)
"""What macro expansion must leave in a sequence."""

_NAME = "{{name}}"
_ANY_CASE = re.compile(r"\{\{name\}\}", re.IGNORECASE | re.ASCII)


def replace_name(text: str, name: str) -> str:
    """Put a name into a sequence. ``$&`` and the like in it count, as in a JavaScript replacement."""
    if "{{" not in text or _NAME not in text.lower():
        return text
    if type(text) is not str and "$" not in name:
        return substitute(_ANY_CASE, lambda _found: name or NOBODY, text, kind="expanded", name="name")
    return JSRegex.compile(r"\{\{name\}\}", "gi").replace(text, name or NOBODY)
