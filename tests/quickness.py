"""How long work may take that grows with its input and no faster."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

LONG = 10.0
"""Seconds: what is linear takes less than three on a slow machine, what is not takes minutes."""


@contextmanager
def at_most(seconds: float) -> Generator[None]:
    """Fail when the work inside takes longer. Processor time counts, whatever else the machine does."""
    started = time.process_time()
    yield
    assert time.process_time() - started < seconds


def linear_time() -> AbstractContextManager[None]:
    """Fail when the work inside takes long."""
    return at_most(LONG)
