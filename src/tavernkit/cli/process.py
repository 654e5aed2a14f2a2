"""The process of a command: its exit codes and its output streams."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes."""

    OK = 0
    """Success."""
    PROBLEMS = 1
    """Problems were found (``lint``), something was lost (``convert``), or a check failed (``lore test``)."""
    USAGE = 2
    """Wrong usage, an input that cannot be read, or an output that cannot be written."""
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


COMPLAINTS_AS_JSON: ContextVar[bool] = ContextVar("complaints_as_json", default=False)
"""True if warnings and errors are written as JSON, one object per line."""


@contextmanager
def complaining_as_json(wanted: bool) -> Generator[None]:
    """Write warnings and errors as JSON in this context."""
    token = COMPLAINTS_AS_JSON.set(wanted)
    try:
        yield
    finally:
        COMPLAINTS_AS_JSON.reset(token)


def prepare_streams() -> None:
    """Write UTF-8 to files and pipes on every system; characters that a terminal cannot show are escaped."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (``>&-``)
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            encoding_is_set = stream.isatty() or bool(os.environ.get("PYTHONIOENCODING"))
            stream.reconfigure(encoding=None if encoding_is_set else "utf-8", errors="backslashreplace")


def flush_output(code: int) -> int:
    """Flush the output; return another exit code if it cannot be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return give_up_output(error)
    return code


def give_up_output(error: OSError) -> int:
    """Stop writing to stdout, as its reader closed it or its disk is full, and return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's flush at exit does not fail
    if isinstance(error, BrokenPipeError):
        return ExitCode.UNREAD
    from tavernkit.cli.terminal import complain

    with complaining_as_json("--json" in sys.argv):
        complain(error.strerror or str(error), kind="error")
    return ExitCode.USAGE
