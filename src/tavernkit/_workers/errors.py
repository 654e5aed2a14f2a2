"""Errors of worker processes."""

from __future__ import annotations


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
