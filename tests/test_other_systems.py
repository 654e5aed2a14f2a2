"""Nothing but worker limits needs what only POSIX has: modules such as ``resource``, ``os.fork``, interval timers.

These tests hide all of it. They do not show that Windows works, only that nothing asks for what it lacks.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HIDE = """
import os, signal, sys
for name in ("resource", "fcntl", "termios", "pwd", "grp", "pty", "tty", "uvloop", "readline"):
    sys.modules[name] = None
for name in ("fork", "forkpty", "setsid", "killpg", "getuid", "geteuid", "register_at_fork", "openpty", "posix_spawn",
             "pread", "sched_getaffinity", "getpgid", "setpgid", "fchmod", "nice", "getloadavg", "wait4", "O_NOFOLLOW"):
    if hasattr(os, name):
        delattr(os, name)
os.process_cpu_count = os.cpu_count  # as where there is no sched_getaffinity
for name in ("SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGPROF", "setitimer", "alarm", "pthread_sigmask"):
    if hasattr(signal, name):
        delattr(signal, name)
"""
IMPORT_ALL = """
import importlib, pkgutil, tavernkit
for module in pkgutil.walk_packages(tavernkit.__path__, "tavernkit."):
    if not module.name.endswith(("__main__", "migrations.env")):
        importlib.import_module(module.name)
"""
COMMAND = """
if __name__ == "__main__":
    from tavernkit.cli.app import run
    sys.exit(run(sys.argv[1:]))
"""


POSIX = {"resource", "fcntl", "termios", "pwd", "grp", "pty", "tty"}


def test_modules_of_tests_can_be_collected() -> None:
    """Tests that need such a module skip themselves: `pytest.importorskip`."""
    files = (file for file in Path(__file__).parent.rglob("*.py") if file.name != "__main__.py")
    found = {file: POSIX & set(_imports(file)) for file in files}
    assert not {file: names for file, names in found.items() if names}


def _imports(file: Path) -> Iterator[str]:
    """Modules that are imported when a file is."""
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module is not None:
            yield statement.module


def run_hidden(code: str, *arguments: str, folder: Path) -> str:
    """Run a program where POSIX is hidden, and where it is an error to leave the encoding of a file to the system."""
    program = folder / "program.py"
    program.write_text(HIDE + code, encoding="utf-8")
    strict = ("-X", "warn_default_encoding", "-W", "error::EncodingWarning")
    done = subprocess.run(
        [sys.executable, *strict, str(program), *arguments], capture_output=True, text=True, timeout=120, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_can_be_imported(tmp_path: Path) -> None:
    run_hidden(IMPORT_ALL, folder=tmp_path)


COMMANDS = [
    ["demo"],
    ["macros", "eval", "{{roll::1d20}}"],
    ["chat", "--say", "Hi"],
    ["lint", "aria.json", "tidewatch.json"],
    ["explain", "aria.json", "--html", "report.html"],
    ["card", "convert", "aria.json", "aria.png"],
    ["test", "--record", "aria.tavern.yaml", "aria.json", "--message", "Hi"],
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_work(command: list[str], tmp_path: Path) -> None:
    run_hidden(COMMAND, "demo", "--files", ".", folder=tmp_path)
    arguments = [*command, "aria.json", "--model", "scripted"] if command[0] == "chat" else command
    assert run_hidden(COMMAND, *arguments, folder=tmp_path)


def test_a_batch_has_worker_processes(tmp_path: Path) -> None:
    run_hidden(COMMAND, "demo", "--files", ".", folder=tmp_path)
    shown = run_hidden(COMMAND, "batch", "grid.toml", "--out", "made", "--limit", "40", "--jobs", "2", folder=tmp_path)
    assert json.loads(shown)["records"] == 40


def test_expensive_patterns_end(tmp_path: Path) -> None:
    code = """
if __name__ == "__main__":
    from tavernkit._text.js_regex import JSRegex
    JSRegex("(a+)+b").search("a" * 64, warn=print)
"""
    assert "it counts as no match" in run_hidden(code, folder=tmp_path)
