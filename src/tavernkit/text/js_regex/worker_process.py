"""One worker process, and talking to it with a deadline."""

from __future__ import annotations

import contextlib
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import regress

from tavernkit.text.js_regex import limits, worker
from tavernkit.text.js_regex.engine import Engine

_MARGIN = 5.0
"""Seconds that a worker lives longer than its caller is willing to wait, should nobody kill it."""

T = TypeVar("T")


class OutOfTimeError(Exception):
    """A match was still running at its deadline, ``ran`` seconds after it was asked for."""

    def __init__(self, ran: float) -> None:
        super().__init__(f"still running after {ran:g} s")
        self.ran = ran


class NotStartedError(Exception):
    """A worker was still starting at the deadline."""


class WorkerError(Exception):
    """A worker could not be started, or ended without an answer."""


class _LateError(Exception):
    """The deadline passed while something was read or written."""


class Worker:
    """One worker process, used by one caller at a time. It is made at once and starts by itself."""

    def __init__(self) -> None:
        arguments = [
            *(sys.executable, "-I", "-S", worker.__file__, str(Path(regress.__file__).parent.parent)),
            *(str(limits.WORKER_IDLE_SECONDS), str(limits.WORKER_MEMORY)),
        ]
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own script, run by our own interpreter
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise WorkerError(f"the worker process did not start: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout
        self._made_at = time.monotonic()
        self._ready = False
        if sys.platform != "win32":
            # A write of more than the pipe holds must come back, so that it can be given up.
            os.set_blocking(self._input.fileno(), False)

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """Whether the process is known to have started."""
        if self._ready or sys.platform == "win32":
            return self._ready
        return _is(self._output.fileno(), select.POLLIN, 0)

    @property
    def is_overdue(self) -> bool:
        """Whether it has been starting for so long that it is not worth waiting for."""
        return not self._ready and time.monotonic() - self._made_at > limits.WORKER_START_TIMEOUT

    def wait_until_ready(self, deadline: float) -> None:
        """Wait until the process has started; raises :class:`NotStartedError` if it is not ready in time."""
        if self._ready:
            return
        try:
            self._read(worker.REPLY.size, deadline)
        except _LateError:
            raise NotStartedError from None
        self._ready = True

    def ask(self, engine: Engine, text: str, deadline: float, *, everything: bool) -> Sequence[int]:
        """Run a match; the result is the offsets of all groups of all matches, one after the other."""
        asked_at = time.monotonic()
        source, flags, data = engine.source.encode(), engine.flags.encode(), text.encode()
        header = worker.REQUEST.pack(
            *(len(source), len(flags), len(data)),
            *(engine.first_group, engine.group_count + 1, everything),
            max(deadline - asked_at, 0) + _MARGIN,
        )
        try:
            self._write(header + source + flags + data, deadline)
            status, count = worker.REPLY.unpack(self._read(worker.REPLY.size, deadline))
            offsets = self._read(count * 8, deadline)
        except _LateError:
            raise OutOfTimeError(time.monotonic() - asked_at) from None
        if status != worker.FOUND:
            raise WorkerError("the worker process could not compile the pattern")
        return struct.unpack(f"<{count}q", offsets)

    def _write(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._write_some(rest, deadline) :]
        except OSError as error:
            raise WorkerError("the worker process is gone") from error

    def _write_some(self, data: memoryview, deadline: float) -> int:
        if sys.platform == "win32":
            return self._or_kill(lambda: os.write(self._input.fileno(), data), deadline)
        with contextlib.suppress(BlockingIOError):
            return os.write(self._input.fileno(), data)
        _wait_for(self._input.fileno(), select.POLLOUT, deadline)
        return 0

    def _read(self, size: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self._read_some(size, deadline)
            if not part:
                raise WorkerError("the worker process ended without an answer")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _read_some(self, size: int, deadline: float) -> bytes:
        if sys.platform == "win32":
            return self._or_kill(lambda: os.read(self._output.fileno(), size), deadline)
        _wait_for(self._output.fileno(), select.POLLIN, deadline)
        return os.read(self._output.fileno(), size)

    def _or_kill(self, action: Callable[[], T], deadline: float) -> T:
        """Read or write where pipes cannot be waited for: a timer kills the process, which ends the action."""
        timer = threading.Timer(max(deadline - time.monotonic(), 0), self._process.kill)
        timer.start()
        try:
            done = action()
        except OSError:
            done = None
        timer.cancel()
        timer.join()
        if not done:
            if time.monotonic() >= deadline:
                raise _LateError
            raise WorkerError("the worker process ended without an answer")
        return done

    def kill(self) -> None:
        """Let the process end now; :meth:`stop` is still needed."""
        self._process.kill()

    def stop(self) -> None:
        """Kill the process and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        self._close()

    def forget(self) -> None:
        """Let go of a process that belongs to the parent of this one."""
        self._close()
        self._process.returncode = 0

    def _close(self) -> None:
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError):
                pipe.close()


def _wait_for(file: int, event: int, deadline: float) -> None:
    if not _is(file, event, max(deadline - time.monotonic(), 0)):
        raise _LateError


def _is(file: int, event: int, seconds: float) -> bool:
    """Tell whether a pipe is ready within some time: to be read or written, or because the other side is gone."""
    poll = select.poll()
    poll.register(file, event)
    return bool(poll.poll(seconds * 1000))
