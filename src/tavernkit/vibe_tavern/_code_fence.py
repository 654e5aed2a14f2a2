"""Takes the code fence off an answer that is nothing but one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tavernkit._text.blank import trim_blanks

FENCE: Final = "```"


def without_fence(text: str, *, labels: Sequence[str]) -> str:
    """Return the inside of a text that is one code fence as a whole, else the text; a known label goes too."""
    if len(text) < 2 * len(FENCE) or not (text.startswith(FENCE) and text.endswith(FENCE)):
        return text
    inner = text[len(FENCE) : -len(FENCE)]
    label = next((label for label in labels if inner.startswith(label)), "")
    return trim_blanks(inner.removeprefix(label))
