"""What the exit code of every command means."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes."""

    OK = 0
    """Done, and nothing to complain about."""
    PROBLEMS = 1
    """Done, and problems were found (``lint``), something is lost (``convert``) or not so (``lore test``)."""
    USAGE = 2
    """The command was called in a wrong way, or an input cannot be read."""
    OVER_BUDGET = 3
    """What must be in the prompt does not fit its token budget."""
    MODEL = 4
    """The model or its endpoint failed."""
    INTERNAL = 70
    """A defect of this program."""
    INTERRUPTED = 130
    """Ended by Ctrl+C."""
    UNREAD = 141
    """The reader of the output went away (``| head``)."""
