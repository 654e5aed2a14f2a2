"""Sets up the output streams: encoding, closed pipes, and JSON for programs."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from tavernkit.cli.exit_codes import ExitCode

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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            encoding_is_set = stream.isatty() or bool(os.environ.get("PYTHONIOENCODING"))
            stream.reconfigure(encoding=None if encoding_is_set else "utf-8", errors="backslashreplace")


def flush_output(code: int) -> int:
    """Flush the output; return another exit code if the reader has closed it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's flush at exit does not fail
        return ExitCode.UNREAD
    return code
