"""The private-use characters that ``#escape`` and similar blocks write, and their meaning."""

from __future__ import annotations

import re

from tavernkit._text.traced import substitute

_CHARACTERS = str.maketrans(
    {
        "\ue9b8": "{",
        "\ue9b9": "}",
        "\ue9ba": "(",
        "\ue9bb": ")",
        "\ue9bc": "&lt;",
        "\ue9bd": "&gt;",
        "\ue9be": ":",
        "\ue9bf": ";",
    }
)


_BRACES = str.maketrans({"{": "\ue9b8", "}": "\ue9b9", "(": "\ue9ba", ")": "\ue9bb"})


def escape_braces(text: str) -> str:
    """Escape braces and parentheses, so that no macro in the text can act."""
    return text.translate(_BRACES)


def unescape(text: str) -> str:
    """Turn escaped characters back, as RisuAI does before it sends or shows a text (angle brackets as entities)."""
    if text.isascii():
        return text
    return text.translate(_CHARACTERS) if type(text) is str else substitute(_ESCAPED, _written, text)


def _written(found: re.Match[str]) -> str:
    return found[0].translate(_CHARACTERS)


_ESCAPED = re.compile("[\ue9b8-\ue9bf]")
