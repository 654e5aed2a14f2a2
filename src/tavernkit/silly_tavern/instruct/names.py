"""The ``{{name}}`` of instruct sequences."""

from __future__ import annotations

from tavernkit.text.js_regex import JSRegex

NOBODY = "System"
"""Stands in for the name of a message that has none."""

NAME_MACRO = ("name",)
"""What macro expansion must leave in a sequence."""

_NAME = "{{name}}"


def replace_name(text: str, name: str) -> str:
    """Put a name into a sequence. ``$&`` and the like in it count, as in a JavaScript replacement."""
    if "{{" not in text or _NAME not in text.lower():
        return text
    return JSRegex.compile(r"\{\{name\}\}", "gi").replace(text, name or NOBODY)
