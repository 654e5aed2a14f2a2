"""Removes a code fence around a whole answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tavernkit._text.coerce import trim_blanks

FENCE: Final = "```"


def without_fence(text: str, *, labels: Sequence[str]) -> str:
    """Return the content of a text that is a single code fence, else the text; known labels are removed."""
    if len(text) < 2 * len(FENCE) or not (text.startswith(FENCE) and text.endswith(FENCE)):
        return text
    inner = text[len(FENCE) : -len(FENCE)]
    label = next((label for label in labels if inner.startswith(label)), "")
    return trim_blanks(inner.removeprefix(label))
