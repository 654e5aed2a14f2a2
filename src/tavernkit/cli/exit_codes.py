"""The exit codes of all commands."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes."""

    OK = 0
    """Success."""
    PROBLEMS = 1
    """Problems were found (``lint``), something was lost (``convert``), or a check failed (``lore test``)."""
    USAGE = 2
    """Wrong usage, or an input cannot be read."""
    OVER_BUDGET = 3
    """The required parts of the prompt do not fit the token budget."""
    MODEL = 4
    """The model or its endpoint failed."""
    INTERNAL = 70
    """A bug in this program."""
    INTERRUPTED = 130
    """Ended by Ctrl+C."""
    UNREAD = 141
    """The reader of the output closed it (``| head``)."""
