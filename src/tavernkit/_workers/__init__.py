"""Worker processes with limits set by the operating system, for code that cannot be limited inside this process.

There is one pool and one protocol; other packages define the ``Job`` that runs in them.
"""

from tavernkit._workers.job import BusyError, Job, JobFailedError, OutOfTimeError, StuckError, WorkerError
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
