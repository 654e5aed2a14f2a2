"""The shipped example: an original character, lorebook, preset and chat, in SillyTavern's own formats."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

NAMES = ("aria.json", "tidewatch.json", "preset.json", "chat.jsonl", "grid.toml")
"""The card, the lorebook, the chat-completion preset, the chat, and a grid of them for batches."""


def example_path(name: str) -> Path:
    """Return the path of one of ``NAMES``.

    >>> example_path("aria.json").name
    'aria.json'

    Raises:
        ValueError: There is no file of this name.
    """
    if name not in NAMES:
        raise ValueError(f"no example {name!r}; there are {', '.join(NAMES)}")
    return Path(str(files("tavernkit.examples").joinpath(name)))
