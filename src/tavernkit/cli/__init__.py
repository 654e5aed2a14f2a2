"""The command line: commands, and nothing that another program could want."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the ``tavernkit`` command and end the process with its exit code."""
    from tavernkit.cli.app import run

    sys.exit(run(sys.argv[1:]))
