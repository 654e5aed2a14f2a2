"""Weights of tokens that users give to texts, in the settings and for a character."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tavernkit._values import is_sequence
from tavernkit.risu_ai._objects import RisuCharacter
from tavernkit.risu_ai._requests.messages import RequestRules

_ESCAPES = {"n": "\n", "r": "\r", "\\": "\\"}
_ESCAPED = re.compile(r"\\([nr\\])")


def with_bias(rules: RequestRules, character: RisuCharacter | None, expand: Callable[[str], str]) -> RequestRules:
    """Return the rules with all weights for a chat: those of the settings, then those of the character.

    Args:
        rules: The rules of the model.
        character: The character of the chat.
        expand: Expands macros in the texts; escaped line ends and backslashes are unescaped after that.
    """
    rows = [*_rows(rules.setting("bias")), *_rows(None if character is None else character.raw.get("bias"))]
    if not rows:
        return rules
    return replace(rules, bias=tuple((_unescape(expand(text)), weight) for text, weight in rows))


def _rows(value: object) -> list[tuple[str, float]]:
    rows = value if is_sequence(value) else ()
    return [
        (row[0], row[1])
        for row in rows
        if is_sequence(row) and len(row) > 1 and isinstance(row[0], str) and isinstance(row[1], (int, float))
    ]


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: _ESCAPES[found[1]], text)
