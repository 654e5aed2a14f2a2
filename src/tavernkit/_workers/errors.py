"""Why a worker process gave no answer."""

from __future__ import annotations


class WorkerError(Exception):
    """A worker process could not be started, or ended without an answer, for lack of memory for example."""


class RetiredError(WorkerError):
    """A worker process ended by itself just when it was asked, as nothing had been asked for long."""


class OutOfTimeError(WorkerError):
    """A request used up its processor time."""


class StuckError(WorkerError):
    """A request did not end in time by the clock, though it did not use up its processor time: the machine is busy."""


class BusyError(StuckError):
    """No worker process was free, or started, in time."""


class JobFailedError(Exception):
    """The job itself raised; the message is its error's."""
