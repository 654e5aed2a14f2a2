"""Jobs of worker processes, and why they fail."""

from __future__ import annotations

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
