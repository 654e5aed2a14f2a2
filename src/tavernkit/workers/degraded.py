"""Remembering that a busy machine, not the input, decided something."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_noted: ContextVar[list[str] | None] = ContextVar("degraded", default=None)


@contextmanager
def noting_degraded() -> Generator[list[str]]:
    """Collect what :func:`note_degraded` reports meanwhile."""
    reasons: list[str] = []
    token = _noted.set(reasons)
    try:
        yield reasons
    finally:
        _noted.reset(token)


def note_degraded(reason: str) -> None:
    """Note that a result is not what it would be on a machine that is not stuck."""
    reasons = _noted.get()
    if reasons is not None and reason not in reasons:
        reasons.append(reason)
