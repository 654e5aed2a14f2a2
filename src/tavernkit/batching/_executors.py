"""Executors: this process, or worker processes on this machine. ``_ray_cluster`` has a third, a Ray cluster.

An executor takes chunks of tasks and yields the results in the order in which they are finished. It takes the next
chunk only when it can process it, so that a grid of millions is never in memory.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, NamedTuple, TypeAlias

from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject
from tavernkit.batching._building import PromptMaker
from tavernkit.batching._tasks import BatchFormat, BatchRecord, Task, encode
from tavernkit.errors import TavernKitError
from tavernkit.models._request import Request

Chunk: TypeAlias = Sequence[Task]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The settings of workers, the same for every chunk."""

    folder: Path
    """Where the files of the grid are."""
    form: BatchFormat | None = None
    """How records are encoded; None returns records and requests without encoding."""
    model: str = ""
    """The model that requests name."""
    dialect: str = "openai"
    """The protocol of requests."""
    request_options: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Options of requests that override the preset's."""

    @property
    def needs_requests(self) -> bool:
        """True if the requests of prompts are needed."""
        return self.form is None or self.form == "openai-batch"


class Built(NamedTuple):
    """The result of a task: encoded if the job has an encoding, otherwise the record and its request."""

    record: BatchRecord | None
    request: Request | None
    line: bytes = b""
    failed: bool = False
    """True if the record has an error."""
    misfit: bool = False
    """True if the format cannot represent the record, so that it goes to the errors."""
    unanswered: str = ""
    """Why the model has not answered; then there is no record."""
    out_of_budget: bool = False
    """True if the request was not sent, because the budget is used up."""


def encoded(record: BatchRecord, request: Request | None, form: BatchFormat) -> Built:
    """Encode a record."""
    line, misfit = encode(record, request, form)
    return Built(None, None, line, record.error is not None, misfit)


def failure(task: Task, error: Exception, form: BatchFormat | None) -> Built:
    """Make the record of a task that killed its worker."""
    problem: JsonObject = {"type": type(error).__name__, "message": str(error)}
    record = BatchRecord(key=task.key, inputs=task.names(), error=problem)
    return Built(record, None, failed=True) if form is None else encoded(record, None, form)


class Worker:
    """Processes chunks and caches the files it has read."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._maker = PromptMaker(
            job.folder,
            model=job.model,
            dialect=job.dialect,
            request_options=job.request_options,
            requests=job.needs_requests,
        )

    def run(self, chunk: Chunk) -> list[Built]:
        """Build the records of a chunk."""
        form = self._job.form
        built: list[Built] = []
        for record, request in self._maker.records(chunk):
            if form is None:
                built.append(Built(record, request, failed=record.error is not None))
            else:
                built.append(encoded(record, request, form))
        return built


Results: TypeAlias = Generator[list[Built]]
Executor: TypeAlias = Callable[[Job, Iterator[Chunk]], Results]
"""Runs chunks; closing the iterator stops the workers."""


def in_process(job: Job, chunks: Iterator[Chunk]) -> Results:
    """Build in this process, one chunk at a time."""
    worker = Worker(job)
    for chunk in chunks:
        yield worker.run(chunk)


class WorkerDiedError(TavernKitError):
    """A worker process died during its work."""


class _Process:
    """A worker process and the pipes to it. It ends with its input, even if this process is killed."""

    def __init__(self, job: Job) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # our own code
            [sys.executable, "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # only this process handles Ctrl-C: work in progress is finished first
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._send(job)

    def run(self, chunk: Chunk) -> list[Built]:
        self._send(list(chunk))
        result = _receive(self._output)
        if result is None:
            raise WorkerDiedError(f"a worker ended with {self._process.wait()}")
        return result  # pyright: ignore[reportReturnType]  # what ``serve`` sends

    def _send(self, value: object) -> None:
        try:
            _send(self._input, value)
        except OSError:
            raise WorkerDiedError(f"a worker ended with {self._process.wait()}") from None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._input, self._output):
            with contextlib.suppress(OSError):  # what could no longer be sent
                stream.close()


_START: Final = "import sys; sys.path[:] = sys.argv[1:]; from tavernkit.batching._executors import serve; serve()"
_LENGTH: Final = struct.Struct(">Q")


def _send(stream: IO[bytes], value: object) -> None:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> object:
    """Read the next value from one of our own processes; None at the end."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return pickle.loads(data) if len(data) == length else None  # noqa: S301  # from our own process


def serve() -> None:
    """Run a worker process: read a job and then chunks from stdin, write results to stdout."""
    import os

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not mix with results
    job = _receive(sys.stdin.buffer)
    if not isinstance(job, Job):
        return
    worker = Worker(job)
    while (chunk := _receive(sys.stdin.buffer)) is not None:
        try:
            _send(stream, worker.run(chunk))  # pyright: ignore[reportArgumentType]  # what _Process.run sends
        except BrokenPipeError:
            return


def processes(jobs: int) -> Executor:
    """Build in this many worker processes of this machine.

    A worker that dies (for example, out of memory) is replaced, and its chunk is tried again record by record; a task
    that kills its worker again becomes a record with the error.
    """

    def run(job: Job, chunks: Iterator[Chunk]) -> Results:
        pool = _Pool(job, jobs)
        try:
            yield from pool.run(chunks)
        finally:
            pool.end()

    return run


class _Pool:
    """One thread per worker process, which sends chunks and waits for the results."""

    def __init__(self, job: Job, jobs: int) -> None:
        self._job = job
        self._waiting: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        self._finished: queue.SimpleQueue[list[Built] | BaseException] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._processes: set[_Process] = set()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(jobs)]
        for thread in self._threads:
            thread.start()

    def run(self, chunks: Iterator[Chunk]) -> Results:
        under_way = 0
        # Keep one more chunk ready than there are workers, so that none has to wait.
        for chunk in chunks:
            self._waiting.put(chunk)
            under_way += 1
            while under_way > len(self._threads) + 1 or (under_way and not self._finished.empty()):
                yield self._next()
                under_way -= 1
        for _ in range(under_way):
            yield self._next()

    def _next(self) -> list[Built]:
        result = self._finished.get()
        if isinstance(result, BaseException):
            raise result
        return result

    def _work(self) -> None:
        process: _Process | None = None
        try:
            while (chunk := self._waiting.get()) is not None and not self._ended.is_set():
                process, built = self._built(process, chunk)
                self._finished.put(built)
        except BaseException as error:  # noqa: BLE001  # raised where results are waited for
            if not self._ended.is_set():
                self._finished.put(error)
        finally:
            if process is not None:
                process.end()

    def _built(self, process: _Process | None, chunk: Chunk) -> tuple[_Process | None, list[Built]]:
        process = process or self._start()
        try:
            return process, process.run(chunk)
        except WorkerDiedError as error:
            self._processes.discard(process)
            process.end()
            if self._ended.is_set():
                raise
            if len(chunk) == 1:
                return None, [failure(chunk[0], error, self._job.form)]
        process, built = None, list[Built]()
        for task in chunk:
            process, one = self._built(process, [task])
            built += one
        return process, built

    def _start(self) -> _Process:
        process = _Process(self._job)
        self._processes.add(process)
        return process

    def end(self) -> None:
        self._ended.set()
        for process in list(self._processes):
            process.end()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
