"""Runs the command as a user does: in a process of its own, with or without a terminal."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tavernkit.cli.app import run

EXAMPLES = Path(__file__).parents[2] / "src" / "tavernkit" / "examples"
CARD, BOOK, PRESET, CHAT = (
    str(EXAMPLES / name) for name in ("aria.json", "tidewatch.json", "preset.json", "chat.jsonl")
)
PATIENCE = 60.0


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str = ""


class Tavernkit:
    """Calls the command in this process and keeps what it printed."""

    def __init__(self, capsys: object) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Outcome:
        self._capsys.readouterr()  # pyright: ignore[reportAttributeAccessIssue]
        code = run(arguments)
        printed = self._capsys.readouterr()  # pyright: ignore[reportAttributeAccessIssue]
        return Outcome(code, printed.out, printed.err)


def in_process(*arguments: str, stdin: str | None = None) -> Outcome:
    """Run a real process without a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "tavernkit", *arguments], capture_output=True, text=True, timeout=PATIENCE, input=stdin
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def new_terminal() -> tuple[int, int]:
    """Open a pseudo-terminal; skip the test where there is none."""
    return pytest.importorskip("pty", reason="there are no pseudo-terminals").openpty()


def heed_interrupts() -> None:
    """Let a new process heed Ctrl+C, which one that is started in the background of a shell does not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def in_terminal(*arguments: str) -> Outcome:
    """Run the command in this process, with a pseudo-terminal for what it prints."""
    master, slave = new_terminal()
    printed: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # what Linux says when the other side is closed
            while data := os.read(master, 65536):
                printed.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    before = sys.stdin, sys.stdout, sys.stderr
    try:
        with os.fdopen(slave, "wb", buffering=0) as raw:
            shown = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
            sys.stdin, sys.stdout, sys.stderr = io.StringIO(), shown, shown
            code = run(arguments)
            shown.detach()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        reader.join(PATIENCE)
        os.close(master)
    return Outcome(code, b"".join(printed).decode("utf-8", "replace"))


class Terminal:
    """A real process in a pseudo-terminal, with somebody typing."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._master, slave = new_terminal()
        settings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **(environment or {})}
        settings.pop("NO_COLOR", None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tavernkit", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=settings,
            close_fds=True,
            preexec_fn=heed_interrupts,
        )
        os.close(slave)
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def wait_for(self, *texts: str) -> str:
        """Read until one of the texts was printed after what was read before."""
        start = len(self.seen)
        deadline = time.monotonic() + PATIENCE
        while not any(text in self.seen[start:] for text in texts):
            if not self._read(deadline):
                raise AssertionError(f"the command ended without {texts}: {self.seen[-2000:]}")
        return self.seen[start:]

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._master, line.encode() + b"\n")

    def interrupt(self) -> None:
        """Press Ctrl+C."""
        self._process.send_signal(signal.SIGINT)

    def finish(self) -> Outcome:
        """Read to the end."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        os.close(self._master)
        return Outcome(self._process.wait(timeout=PATIENCE), self.seen)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            self._process.kill()
            raise AssertionError(f"the command did not answer in time: {self.seen[-2000:]}")
        try:
            data = os.read(self._master, 65536)
        except OSError:  # what Linux says when the other side is closed
            return False
        self.seen += self._decoder.decode(data)
        return bool(data)


def arguments_of(*more: str) -> Sequence[str]:
    """The example's files as arguments."""
    return (CARD, "--book", BOOK, "--preset", PRESET, "--chat", CHAT, *more)
