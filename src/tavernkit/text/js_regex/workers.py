"""The pool of worker processes.

Workers are started when they are needed, a few are kept, and one that runs out of time is killed. They end with this
process, also when it is killed itself: their input ends then, and a running match ends by its alarm. A forked child
starts its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Sequence
from pathlib import Path

import regress

from tavernkit.text.js_regex import limits, worker
from tavernkit.text.js_regex.engine import Engine

_MARGIN = 5.0
"""Seconds that a worker lives longer than its caller is willing to wait, should nobody kill it."""


class OutOfTimeError(Exception):
    """A match took longer than it may."""


class WorkerError(Exception):
    """A worker could not be started, or ended without an answer."""


class Worker:
    """One worker process."""

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
        self._ready = False

    def ask(self, engine: Engine, text: str, timeout: float, *, everything: bool) -> Sequence[int]:
        """Run a match; the result is the offsets of all groups of all matches, one after the other."""
        self._wait_for_start()
        source, flags, data = engine.source.encode(), engine.flags.encode(), text.encode()
        header = worker.REQUEST.pack(
            *(len(source), len(flags), len(data)),
            *(engine.first_group, engine.group_count + 1, everything),
            *(timeout, timeout * limits.BUSY_FACTOR + _MARGIN),
        )
        deadline = time.monotonic() + timeout * (limits.BUSY_FACTOR if worker.has_timers() else 1)
        try:
            self._write(header + source + flags + data)
        except OSError as error:
            raise WorkerError("the worker process is gone") from error
        status, count = worker.REPLY.unpack(self._read(worker.REPLY.size, deadline))
        offsets = array("q")
        offsets.frombytes(self._read(count * offsets.itemsize, deadline))
        if status != worker.FOUND:
            raise WorkerError("the worker process could not compile the pattern")
        return offsets

    def _wait_for_start(self) -> None:
        if self._ready:
            return
        try:
            self._read(worker.REPLY.size, time.monotonic() + limits.WORKER_START_TIMEOUT)
        except OutOfTimeError:
            raise WorkerError("the worker process did not start in time") from None
        self._ready = True

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._input.write(rest) or 0 :]

    def _read(self, size: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self._read_some(size, deadline)
            if not part:
                raise self._reason()
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _reason(self) -> Exception:
        """Tell why the process ended: by its timer, or by a mishap."""
        if worker.has_timers() and self._process.wait() == -signal.SIGPROF:
            return OutOfTimeError()
        return WorkerError("the worker process ended without an answer")

    def _read_some(self, size: int, deadline: float) -> bytes:
        if sys.platform == "win32":
            return self._read_or_kill(size, deadline)
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise OutOfTimeError
        return os.read(self._output.fileno(), size)

    def _read_or_kill(self, size: int, deadline: float) -> bytes:
        """Read where pipes cannot be waited for: a timer kills the process, which ends the read."""
        timer = threading.Timer(max(deadline - time.monotonic(), 0), self._process.kill)
        timer.start()
        part = os.read(self._output.fileno(), size)
        timer.cancel()
        timer.join()
        if not part and time.monotonic() >= deadline:
            raise OutOfTimeError
        return part

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


class WorkerPool:
    """Workers for whoever needs one; at most :data:`limits.MAX_WORKERS` at a time."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._slots = threading.BoundedSemaphore(limits.MAX_WORKERS)
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()

    def run(self, engine: Engine, text: str, timeout: float, *, everything: bool) -> Sequence[int]:
        """Run a match in a worker; raises :class:`OutOfTimeError` or :class:`WorkerError`."""
        with self._slots:
            idle = self._take_idle()
            if idle is not None:
                # It may have ended by itself just now.
                with contextlib.suppress(WorkerError):
                    return self._ask(idle, engine, text, timeout, everything=everything)
            return self._ask(Worker(), engine, text, timeout, everything=everything)

    def _ask(self, one: Worker, engine: Engine, text: str, timeout: float, *, everything: bool) -> Sequence[int]:
        with self._lock:
            self._busy.add(one)
        keep = False
        try:
            offsets = one.ask(engine, text, timeout, everything=everything)
            keep = True
        finally:
            with self._lock:
                self._busy.discard(one)
                keep = keep and len(self._idle) < limits.MAX_IDLE_WORKERS
                if keep:
                    self._idle.append(one)
            if not keep:
                one.stop()
        return offsets

    def _take_idle(self) -> Worker | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    @property
    def idle_count(self) -> int:
        """How many workers wait for work."""
        return len(self._idle)

    def close(self) -> None:
        """Stop the workers that are idle; the pool can be used again."""
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.stop()

    def forget(self) -> None:
        """Start anew after a fork: the workers belong to the parent."""
        for one in (*self._idle, *self._busy):
            one.forget()
        self._reset()


pool = WorkerPool()
"""The workers of this process."""

atexit.register(pool.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.forget)
