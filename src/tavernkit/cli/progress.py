"""A bar for work that may take long; only a terminal sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

SHOWN_FROM = 8
"""Fewer things are done before a bar could be read."""


def following(things: Sequence[T], what: str) -> Iterator[T]:
    """Go through things and show on stderr how far it got."""
    from rich.progress import track

    from tavernkit.cli.terminal import console

    screen = console(stderr=True)
    if len(things) < SHOWN_FROM or not screen.is_terminal:
        return iter(things)
    return iter(track(things, description=what, console=screen, transient=True))
