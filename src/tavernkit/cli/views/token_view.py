"""Tokens in the terminal."""

from __future__ import annotations

from rich.text import Text

from tavernkit.budget._tokenization import Tokenization
from tavernkit.cli.terminal import visible

_STYLES = ("black on light_sky_blue1", "black on khaki1", "black on light_pink1", "black on pale_green1")


def coloured_tokens(text: str, tokenized: Tokenization) -> Text:
    """Return the text with coloured tokens, or separated by bars without colour."""
    if tokenized.offsets is None:
        return Text(visible(text))
    shown = Text()
    end = 0
    for number, (start, stop) in enumerate(tokenized.offsets):
        if start < end:
            continue  # the remaining bytes of a character that is already shown
        shown.append("|" if number else "", style="dim")
        shown.append(visible(text[start:stop]), style=_STYLES[number % len(_STYLES)])
        end = stop
    return shown
