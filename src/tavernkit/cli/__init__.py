"""The command line. Other programs should not import it."""

from __future__ import annotations

import gc
import sys

from tavernkit import __version__

GARBAGE_THRESHOLD = 200_000
"""Garbage collection threshold: a command imports many objects, none of which is garbage, and ends soon."""


def main() -> None:
    """Run the ``tavernkit`` command and end the process with its exit code."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    try:
        from tavernkit.cli.process import flush_output, prepare_streams

        prepare_streams()
        code = flush_output(_run(sys.argv[1:]))
    except KeyboardInterrupt:
        code = 130  # ExitCode.INTERRUPTED, which may not be imported yet
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:  # often used in scripts: needs no slow imports
        from tavernkit.cli.process import give_up_output

        try:
            print(__version__)
        except OSError as error:
            return give_up_output(error)
        return 0
    from tavernkit.cli.app import run

    return run(arguments)
