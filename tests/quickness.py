"""How long work may take that grows with its input and no faster."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

LONG = 10.0
"""Seconds: what is linear takes less than three on a slow machine, what is not takes minutes."""


@contextmanager
def linear_time() -> Generator[None]:
    """Fail when the work inside takes long. Processor time counts, whatever else the machine does."""
    started = time.process_time()
    yield
    assert time.process_time() - started < LONG
