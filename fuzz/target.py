"""What a fuzzing target is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that takes bytes from strangers; ``surfaces`` are the vectors whose texts it begins with."""

    name: str
    run: Callable[[bytes], object]
    surfaces: tuple[str, ...] = ()
    seeds: tuple[bytes, ...] = (b"",)
    prepare: Callable[[], object] = bool
    """What is done once before, and is not timed."""


def as_text(data: bytes) -> str:
    """Decode what may be text; a first byte 255 keeps what is no UTF-8 as lone surrogates."""
    return data.decode("utf-8", "surrogateescape" if data[:1] == b"\xff" else "replace")
