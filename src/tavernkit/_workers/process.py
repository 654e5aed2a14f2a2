"""The program of a worker process: it runs jobs until its limits end it.

Started as a script, without site packages and with as few imports as possible, so that it starts quickly. Its arguments
are the idle seconds after which it ends, its memory limit, the jobs to load ahead, and the
directories that modules are imported from. It reads requests from its standard input and writes replies to its standard
output until the input ends.
"""

from __future__ import annotations

import os
import struct
import sys
from contextlib import suppress
from time import process_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class _Handler(Protocol):
        def handle(self, payload: bytes, ask: Callable[[bytes], bytes]) -> bytes: ...


REQUEST = struct.Struct("<BHddBI")
"""Kind; size of the job's file name; seconds of processor time, and of clock time in case the parent has died; what to
do with the job's state; size of the payload."""

FRESH, KEPT = 1, 2
"""The job's earlier state is discarded; state is kept, so the process does not end when idle."""

ANSWER = struct.Struct("<BI")
"""Kind and size of the payload: the parent's answer to a question."""

REPLY = struct.Struct("<BdI")
"""Kind, processor time used, size of the payload."""

ASKED, ANSWERED = 0, 1
"""Kinds of messages to the process."""

READY, QUESTION, DONE, FAILED = 0, 1, 2, 3
"""Kinds of messages from the process."""

CHUNK = 1 << 16
"""How many bytes are read at once at least, if they are there: what a pipe holds."""

_STARTED = struct.Struct("<B")


class _NoTimers:
    """A replacement for systems without timers."""

    ITIMER_REAL = ITIMER_PROF = 0

    def setitimer(self, which: int, seconds: float) -> tuple[float, float]:
        """Do nothing."""
        return 0.0, 0.0


def _timers() -> _NoTimers:
    try:
        # Not from the public module, which makes enumerations of all signals: a fifth of the start time.
        import _signal  # pyright: ignore[reportMissingImports]  # a built-in module without types
    except ImportError:
        return _NoTimers()
    return _signal if hasattr(_signal, "setitimer") else _NoTimers()  # pyright: ignore[reportReturnType]  # both have timers


def _limit(memory: int) -> None:
    try:
        import resource
    except ImportError:
        return
    for what, size in (("RLIMIT_AS", memory), ("RLIMIT_CORE", 0), ("RLIMIT_FSIZE", 0)):
        number = getattr(resource, what)
        soft, hard = resource.getrlimit(number)
        if soft == resource.RLIM_INFINITY or soft > size:
            resource.setrlimit(number, (size, hard if what == "RLIMIT_AS" else size))


class _Process:
    """Reads requests and answers them. While a job waits for an answer from the parent, it may get another request."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._timers = _timers()
        self._jobs: dict[str, type[_Handler]] = {}
        self._handlers: dict[str, _Handler] = {}
        self._depth = 0
        self._keeps_state = False
        # Printed text must not mix with our messages.
        self._input, self._output = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)

    def run(self, jobs: list[str]) -> None:
        """Process requests until the input ends; expected jobs are loaded first."""
        self._write(_STARTED.pack(READY))
        for name in jobs:
            with suppress(Exception):  # reported when it is requested
                self.load(name)
        while True:
            self._end_after(0 if self._keeps_state else self._idle_seconds)
            self._answer(self._message())

    def _answer(self, message: bytes) -> None:
        _, name_size, cpu, wall, state, _ = REQUEST.unpack_from(message)
        payload_at = REQUEST.size + name_size
        name, payload = message[REQUEST.size : payload_at].decode(), message[payload_at:]
        self._keeps_state = bool(state & KEPT)
        if not self._depth:
            self._end_after(wall)
        used = process_time()
        self._depth += 1
        try:
            handler = self._handler(name, fresh=bool(state & FRESH))
            if self._depth == 1:
                self._timers.setitimer(self._timers.ITIMER_PROF, cpu)
            reply, kind = handler.handle(payload, self._ask), DONE
        except MemoryError:
            reply, kind = b"it used more memory than it may", FAILED
        except Exception as error:  # noqa: BLE001  # reported to the parent
            reply, kind = f"{type(error).__name__}: {error}".encode("utf-8", "replace"), FAILED
        self._depth -= 1
        if not self._depth:
            self._timers.setitimer(self._timers.ITIMER_PROF, 0)
        self._write(REPLY.pack(kind, process_time() - used, len(reply)) + reply)

    def load(self, name: str) -> None:
        """Load the file of a job; this does not count towards the time of a request."""
        if name not in self._jobs:
            self._jobs[name] = _load(name)

    def _handler(self, name: str, *, fresh: bool) -> _Handler:
        handler = None if fresh else self._handlers.get(name)
        if handler is None:
            self.load(name)
            self._handlers.pop(name, None)
            handler = self._handlers[name] = self._jobs[name]()
        return handler

    def _ask(self, question: bytes) -> bytes:
        left = self._end_after(0)  # how long an answer takes does not count
        self._write(REPLY.pack(QUESTION, 0, len(question)) + question)
        while (message := self._message())[0] == ASKED:
            self._answer(message)
        self._end_after(left)
        return message[ANSWER.size :]

    def _end_after(self, seconds: float) -> float:
        """Set an alarm that ends this process, if the system has timers; return the time left on the previous one."""
        return self._timers.setitimer(self._timers.ITIMER_REAL, seconds)[0]

    def _message(self) -> bytes:
        """Read a message. The two sides take turns, so there is one at a time."""
        data = self._read(1)
        header = REQUEST if data[0] == ASKED else ANSWER
        if len(data) < header.size:
            data += self._read(header.size - len(data))
        sizes = header.unpack_from(data)
        size = header.size + sizes[-1] + (sizes[1] if header is REQUEST else 0)
        return data if len(data) == size else data + self._read(size - len(data))

    def _read(self, size: int) -> bytes:
        """Read so many bytes at least, and what has come with them."""
        parts: list[bytes] = []
        while size > 0:
            parts.append(os.read(self._input, max(size, CHUNK)))
            if not parts[-1]:
                os._exit(0)
            size -= len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _write(self, data: bytes) -> None:
        written = os.write(self._output, data)
        while written < len(data):
            written += os.write(self._output, memoryview(data)[written:])


def _load(name: str) -> type[_Handler]:
    from importlib.machinery import SourceFileLoader

    names: dict[str, object] = {"__name__": "job", "__file__": name}
    code = SourceFileLoader("job", name).get_code("job")
    assert code is not None
    exec(code, names)  # noqa: S102  # a file of this package
    return names["Handler"]  # pyright: ignore[reportReturnType]  # what the files of jobs define


def main() -> None:
    """Process requests until the input ends."""
    idle_seconds, memory, jobs, *directories = sys.argv[1:]
    sys.path[:] = directories
    _limit(int(memory))
    _Process(float(idle_seconds)).run(jobs.split(os.pathsep) if jobs else [])


if __name__ == "__main__":
    main()
