"""The time of worker processes, by the thread that uses them."""

from __future__ import annotations

import threading
import time


class _Waited(threading.local):
    seconds = 0.0
    processor_seconds = 0.0


waited = _Waited()
"""What the calling thread has waited for workers, and their processor time."""


def seconds_waited() -> float:
    """Return how long this thread has waited for workers in total, which its own processor clock does not count."""
    return waited.seconds


def processor_seconds() -> float:
    """Return the total processor time of this thread's jobs in workers. It does not depend on the machine's load."""
    return waited.processor_seconds


def processor_clock() -> float:
    """Return the processor time of this thread and of its jobs in workers."""
    return time.thread_time() + waited.processor_seconds
