"""Worker processes, for what cannot be bounded inside this one: they have limits from the operating system.

One pool, one protocol, one place for the limits. What runs in them is a ``Job`` of another room.
"""

from tavernkit._workers.errors import BusyError, JobFailedError, OutOfTimeError, StuckError, WorkerError
from tavernkit._workers.job import Job
from tavernkit.errors import note_degraded, noting_degraded

__all__ = [
    "BusyError",
    "Job",
    "JobFailedError",
    "OutOfTimeError",
    "StuckError",
    "WorkerError",
    "note_degraded",
    "noting_degraded",
]
