"""Streamed replies: the scripts of a chat see the text so far with each piece, once all pieces have arrived.

So no piece waits for a script, and no script blocks an event loop.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from tavernkit.risu_ai._limits import MAX_SCRIPTED_PIECES
from tavernkit.risu_ai._sending.exchange import Answer, Ask, Chunk, NextChunk, StreamOpened


def receive(steps: Generator[Ask, Answer, object], heard: Sequence[str]) -> None:
    """Pass the pieces of a stream to a send. It may take long, so this is for a thread.

    Args:
        steps: The send, which has asked for a reply.
        heard: The pieces.
    """
    ask = steps.send(StreamOpened())
    scripted = not isinstance(ask, NextChunk) or ask.scripted
    for piece in joined(heard, scripted=scripted or any("{" in piece for piece in heard)):
        steps.send(Chunk(piece))


def joined(heard: Sequence[str], *, scripted: bool) -> list[str]:
    """Join pieces to at most ``MAX_SCRIPTED_PIECES``, and to one if no script runs.

    Args:
        heard: The pieces.
        scripted: True if scripts or macros may see them.
    """
    texts = [piece for piece in heard if piece]
    step = max(-(-len(texts) // MAX_SCRIPTED_PIECES) if scripted else len(texts), 1)
    return ["".join(texts[start : start + step]) for start in range(0, len(texts), step)]
