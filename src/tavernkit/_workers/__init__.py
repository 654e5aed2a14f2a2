"""Worker processes with limits set by the operating system, for code that cannot be limited inside this process.

There is one pool and one protocol; other packages define the ``Job`` that runs in them.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Job:
    """A kind of work: a file that a worker process loads once.

    The file defines ``Handler``, a class without arguments whose ``handle(payload, ask)`` gets the bytes of a request
    and returns those of its reply; ``ask`` sends bytes to the caller and returns the answer. It should import little,
    because imports happen with the first request.
    """

    file: Path
    name: bytes = field(init=False, repr=False, compare=False)
    """The file as a message names it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", str(self.file).encode())


class WorkerError(Exception):
    """A worker process could not be started, or ended without an answer, for example out of memory."""


class RetiredError(WorkerError):
    """A worker process ended because it was idle for too long, just as a request was sent."""


class OutOfTimeError(WorkerError):
    """A request used up its processor time."""


class StuckError(WorkerError):
    """A request took too long by the clock without using up its processor time: the machine is busy."""


class BusyError(StuckError):
    """No worker process was free, or started, in time."""


class JobFailedError(Exception):
    """The job itself raised an error, whose message this is."""


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
