"""The chat as it is searched."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit.silly_tavern.chat.core_chat import CoreMessage
from tavernkit.values import LazySequence


def scan_messages(core: Sequence[CoreMessage], *, with_names: bool) -> Sequence[str]:
    """The core chat newest first, as keys are looked for in it; each text is made when the search reaches it."""
    newest = len(core) - 1

    def text(place: int) -> str:
        message = core[newest - place]
        return f"{message.line.name}: {message.text}" if with_names else message.text

    return LazySequence(len(core), text)
