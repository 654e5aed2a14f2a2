"""One worker process, and the communication with it."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tavernkit._workers import (
    BusyError,
    Job,
    JobFailedError,
    OutOfTimeError,
    RetiredError,
    StuckError,
    WorkerError,
    limits,
    process,
)

if TYPE_CHECKING:
    from tavernkit._workers.windows_job import JobObject

_MARGIN = 5.0
"""Seconds that a worker may live longer than its caller waits, unless it is killed."""

_END_SECONDS = 5.0
_SIGALRM, _SIGPROF, _JOB_TIME = 14, 27, 1816
"""How an idle process ends, and one whose processor time is used up: a signal, or an exit code on Windows."""

Answer = Callable[[bytes], bytes]
"""Answers questions of a running job."""

T = TypeVar("T")


class _LateError(Exception):
    """The deadline passed while something was read or written."""


class Worker:
    """One worker process, used by one caller at a time. It starts in the background.

    ``jobs`` are loaded while it starts.
    """

    def __init__(self, jobs: Sequence[Job] = ()) -> None:
        arguments = [
            *(_executable(), "-I", "-S", "-B", process.__file__),
            *(str(limits.IDLE_SECONDS), str(limits.MEMORY), os.pathsep.join(str(job.file) for job in jobs)),
            *filter(os.path.isabs, sys.path),
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
        # It has no work yet, so there is no hurry.
        self._job = _job_object(self._process) if sys.platform == "win32" else None
        self._pipes = self._process.stdin, self._process.stdout
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._made_at = time.monotonic()
        self._ready = False
        self._deadline = 0.0
        self._nested = False
        self.processor_time = 0.0
        """Processor seconds of the last request."""
        if sys.platform != "win32":
            # A write larger than the pipe's buffer must return, so that it can be cancelled.
            os.set_blocking(self._input, False)
            self._poll = _poll(self._output, select.POLLIN).poll

    @property
    def is_alive(self) -> bool:
        """True if the process is running."""
        if self._ready and sys.platform != "win32":
            # Nothing is expected from it now: if there is something to read, it is the end.
            return not self._poll(0)
        return self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """True if the process is known to have started."""
        if self._ready or sys.platform == "win32":
            return self._ready
        return bool(self._poll(0))

    @property
    def is_overdue(self) -> bool:
        """True if it has been starting for too long to wait for it."""
        return not self._ready and time.monotonic() - self._made_at > limits.MAX_WAIT_SECONDS

    def wait_until_ready(self, deadline: float) -> None:
        """Wait until the process has started; raises ``BusyError`` if it is not ready in time."""
        if self._ready:
            return
        self._deadline = deadline
        try:
            self._read(1)
        except _LateError:
            raise BusyError(f"its worker did not start within {limits.MAX_WAIT_SECONDS:g} seconds") from None
        self._ready = True

    def request(
        self, job: Job, payload: bytes, seconds: float, *, answer: Answer | None = None, fresh: bool = False
    ) -> bytes:
        """Run a job in the process.

        Args:
            job: The job.
            payload: The input of the job.
            seconds: How much processor time it may take.
            answer: Answers the job's questions; the state of a job that may ask is kept for the next request.
            fresh: Discard its state from earlier requests.

        Raises:
            OutOfTimeError: The processor time was used up. The process is killed, as with all other errors except the
                last.
            StuckError: It took far longer by the clock.
            WorkerError: The process ended otherwise.
            JobFailedError: The job raised.
        """
        seconds = min(seconds, limits.MAX_SECONDS)
        wall = max(seconds * limits.WALL_FACTOR, limits.LEAST_WALL_SECONDS)
        name = job.name
        state = (process.FRESH if fresh else 0) | (process.KEPT if answer is not None else 0)
        header = process.REQUEST.pack(process.ASKED, len(name), seconds, wall + _MARGIN, state, len(payload))
        nested = self._nested
        if not nested:
            self._deadline = time.monotonic() + wall
            if self._job is not None:  # where the process cannot limit its processor time itself
                self._job.limit_time(seconds)
        self._nested = True
        try:
            self._write(header + name + payload)
            return self._reply(answer)
        except _LateError:
            raise StuckError(f"did not end within {wall:g} seconds on this machine") from None
        except WorkerError:
            ended_by = self._ended_by()
            if ended_by in (-_SIGPROF, _JOB_TIME):
                raise OutOfTimeError(f"took longer than {seconds:g} seconds") from None
            if ended_by == -_SIGALRM:
                raise RetiredError("the worker process had nothing to do for too long") from None
            raise
        finally:
            self._nested = nested
            if not nested and self._job is not None:
                self._job.limit_time(None)

    def _reply(self, answer: Answer | None) -> bytes:
        while True:
            kind, used, payload = self._message()
            if kind == process.QUESTION and answer is not None:
                self._answer(answer, payload)
                continue
            self.processor_time = used
            if kind == process.DONE:
                return payload
            raise JobFailedError(payload.decode("utf-8", "replace"))

    def _message(self) -> tuple[int, float, bytes]:
        """Read a message: kind, processor time, payload. The two sides take turns, so there is one at a time."""
        data = self._read_some(process.CHUNK)
        if len(data) < process.REPLY.size:
            data += self._read(process.REPLY.size - len(data))
        kind, used, size = process.REPLY.unpack_from(data)
        missing = process.REPLY.size + size - len(data)
        if size > limits.MAX_MESSAGE or missing < 0:
            raise WorkerError("the worker process answered with too much")
        if missing:
            data += self._read(missing)
        return kind, used, data[process.REPLY.size :]

    def _answer(self, answer: Answer, question: bytes) -> None:
        """Answer a question; the time this takes does not count."""
        asked_at = time.monotonic()
        text = answer(question)
        self._deadline += time.monotonic() - asked_at
        self._write(process.ANSWER.pack(process.ANSWERED, len(text)) + text)

    def _ended_by(self) -> int | None:
        """Wait for the end of a process that closed its pipes, and return how it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_END_SECONDS)
        return None

    def _write(self, data: bytes) -> None:
        try:
            written = self._write_some(data)
            while written < len(data):
                written += self._write_some(memoryview(data)[written:])
        except OSError as error:
            raise WorkerError("the worker process is gone") from error

    def _write_some(self, data: bytes | memoryview) -> int:
        if sys.platform == "win32":
            return self._or_kill(lambda: os.write(self._input, data))
        try:
            return os.write(self._input, data)
        except BlockingIOError:
            self._wait_for(self._input, select.POLLOUT)
            return 0

    def _read(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            parts.append(self._read_some(size))
            size -= len(parts[-1])
        return b"".join(parts)

    def _read_some(self, size: int) -> bytes:
        if sys.platform == "win32":
            return self._or_kill(lambda: os.read(self._output, size))
        if not self._poll(max(self._deadline - time.monotonic(), 0) * 1000):
            raise _LateError
        data = os.read(self._output, size)
        if not data:
            raise WorkerError("the worker process ended without an answer")
        return data

    def _or_kill(self, action: Callable[[], T]) -> T:
        """Read or write on systems that cannot wait for pipes: a timer kills the process, which ends the action."""
        deadline = self._deadline
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
        """Kill the process; ``stop()`` is still needed."""
        self._process.kill()

    def stop(self) -> None:
        """Kill the process and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        self._close()

    def forget(self) -> None:
        """Forget a process that belongs to our parent process."""
        self._close()
        self._process.returncode = 0

    def _close(self) -> None:
        self._ready = False
        if self._job is not None:
            self._job.close()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()

    def _wait_for(self, file: int, event: int) -> None:
        if not _poll(file, event).poll(max(self._deadline - time.monotonic(), 0) * 1000):
            raise _LateError


def _executable() -> str:
    """Return the real interpreter: on Windows, that of an environment starts another one, outside the limits."""
    own = sys.executable
    return str(getattr(sys, "_base_executable", own)) if sys.platform == "win32" else own


def _job_object(started: subprocess.Popen[bytes]) -> JobObject:
    from tavernkit._workers.windows_job import JobObject

    handle = int(getattr(started, "_handle", 0))  # there is no other way to get it
    return JobObject(handle, limits.MEMORY)


def _poll(file: int, event: int) -> select.poll:
    """Return a poll object for a pipe, which is ready for reading or writing, or because it was closed."""
    poll = select.poll()
    poll.register(file, event)
    return poll
