"""Runs a grid: unfinished tasks go to an executor, records go to a folder."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from tavernkit import __version__
from tavernkit._arguments import require, require_choice
from tavernkit._values import JsonObject, thaw_object
from tavernkit.batching._executors import Built, Executor, Job, Results, in_process, processes
from tavernkit.batching._generation import GenerateOptions, answering
from tavernkit.batching._grid import Grid, Selection
from tavernkit.batching._output import OutputFolder
from tavernkit.batching._ray_cluster import Cluster
from tavernkit.batching._tasks import FORMATS, SCHEMA_VERSION, BatchFormat, BatchRecord, FileRef, Keyed
from tavernkit.errors import ConfigError

MAX_CHUNK: Final = 64
"""Records that a worker returns at a time."""
MAX_UNANSWERED: Final = 50
"""This many requests in a row without a reply end a run, because the model is not available."""
CHUNKS_PER_WORKER: Final = 8
"""A small grid is cut so that every worker gets at least this many chunks."""

T = TypeVar("T")
TaskT = TypeVar("TaskT", bound=Keyed)
TaskT_co = TypeVar("TaskT_co", bound=Keyed, covariant=True)

GridInput: TypeAlias = Grid | str | os.PathLike[str] | Mapping[str, object]
"""A grid, the path of a grid file, or its content."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The progress of a run."""

    done: int
    """Existing records, including those of earlier runs."""
    total: int
    """The total number of records; an estimate for a shard."""
    failed: int
    """Records with an error."""
    rate: float
    """Records per second in this run."""

    @property
    def seconds_left(self) -> float | None:
        """The estimated time left; None if nothing is done yet."""
        return max(self.total - self.done, 0) / self.rate if self.rate > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """The result of a run."""

    folder: Path
    """Where the records are."""
    status: Literal["complete", "limited", "interrupted", "budget", "failed"]
    """``limited``: by ``limit``. ``budget``: by requests or tokens. ``failed``: replies are missing; run again."""
    records: int
    """Records of the selection that exist now."""
    made: int
    """Records that this run made."""
    skipped: int
    """Records that existed before."""
    failed: int
    """Records of this run with an error."""
    unanswered: int
    """Requests without a reply: they have no record, and the next run sends them again."""
    stale: int
    """Records that were moved to ``stale.jsonl``, because they are no longer in the grid."""
    duplicates: int
    """Rows of the grid that were left out as duplicates."""
    problem: str
    """Why the last of these requests has no reply."""
    seconds: float
    """How long the run took."""

    def to_dict(self) -> JsonObject:
        """Return the counts as JSON."""
        return {
            "status": self.status,
            "records": self.records,
            "made": self.made,
            "skipped": self.skipped,
            "failed": self.failed,
            "unanswered": self.unanswered,
            "problem": self.problem,
            "stale": self.stale,
            "duplicates": self.duplicates,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.made / self.seconds, 1) if self.seconds > 0 else None,
        }


def iter_batch(grid: GridInput, *, jobs: int = 1, limit: int | None = None) -> Iterator[BatchRecord]:
    """Build the prompts of a grid and yield each when it is finished; nothing is written.

    Args:
        grid: The grid, or its file.
        jobs: Worker processes; with 1, everything happens in this process and in the order of the grid.
        limit: Stop after this many.

    Raises:
        ConfigError: The grid is wrong.
    """
    ready = read_grid(grid)
    job = Job(folder=ready.folder, form=None)
    tasks = ready.tasks(Selection(limit=limit))
    count = len(ready) if limit is None else min(limit, len(ready))
    size = chunk_size(count, jobs) if jobs > 1 else 1
    with closing(local_executor(jobs)(job, chunked(tasks, size))) as results:
        for built in results:
            for each in built:
                assert each.record is not None
                yield each.record


def batch(
    grid: GridInput,
    out: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    ray: str | None = None,
    resume: bool = False,
    shard: tuple[int, int] = (1, 1),
    limit: int | None = None,
    format: BatchFormat = "jsonl",  # noqa: A002  # the word of the command line
    model: str = "",
    generate: GenerateOptions | None = None,
    records_per_part: int | None = None,
    progress: Callable[[BatchProgress], object] | None = None,
) -> BatchResult:
    """Build the prompts of a grid, have a model answer them if asked to, and write them to a folder.

    Ctrl-C finishes work in progress, writes the manifest and raises KeyboardInterrupt; a second one stops at once.

    Args:
        grid: The grid, or its file.
        out: The folder.
        jobs: Worker processes; by default one for each core, and with ``generate`` this process alone.
        ray: Build on a Ray cluster instead: its address, ``auto``, or ``local`` to start one here (extra ``ray``).
        resume: Continue an interrupted run: only missing records are made.
        shard: ``(2, 8)`` makes the second of eight parts of the grid. All can write to the same folder.
        limit: Stop after this many records.
        format: ``jsonl``, ``parquet``, ``openai-batch`` or ``chat``.
        model: The model that requests of ``openai-batch`` name.
        generate: The model that answers the prompts, and its limits.
        records_per_part: Records in a file.
        progress: Called after each chunk.

    Raises:
        ConfigError: The grid is wrong, or the folder has records and ``resume`` is not set.
    """
    require_choice("format", format, FORMATS)
    ready = read_grid(grid)
    if generate is not None and format == "openai-batch":
        raise ConfigError("openai-batch writes requests for a batch endpoint: to generate, choose another format")
    workers = jobs if jobs is not None else 1 if generate is not None else cores()
    run = Run(
        source=ready,
        output=OutputFolder(Path(out), format, shard=shard[0] - 1, shards=shard[1], records_per_part=records_per_part),
        selection=selection(shard, limit),
        resume=resume,
        form=format,
        salt=generate.salt() if generate is not None else {"model": model} if model else {},
        progress=progress,
    )
    job = Job(folder=ready.folder, form=format, model=model) if generate is None else generating_job(ready, generate)
    if ray is not None:
        with Cluster(ray) as cluster:
            largest = MAX_CHUNK if generate is None else generate.concurrency  # a lost chunk has been paid for
            return run.execute(partial(cluster.executor(generate, format), job), cluster.processors, largest)
    executor = local_executor(workers)
    if generate is not None:
        executor = answering(executor, generate, format)
    return run.execute(partial(executor, job), workers)


def generating_job(grid: Grid, generate: GenerateOptions) -> Job:
    """Return the job of workers that build the requests of a model."""
    dialect = generate.connect().dialect
    return Job(folder=grid.folder, form=None, dialect=dialect, request_options=generate.options)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_grid(grid: GridInput) -> Grid:
    """Read a grid from any of its forms."""
    require("grid", grid, GridInput, "a Grid, a path or a mapping")
    if isinstance(grid, Grid):
        return grid
    return Grid.load(os.fspath(grid)) if isinstance(grid, (str, os.PathLike)) else Grid(grid)


def selection(shard: tuple[int, int], limit: int | None) -> Selection:
    """Check a shard, which counts from 1, and a limit."""
    number, count = shard
    if not 1 <= number <= count:
        raise ConfigError(f"shard {number}/{count}: the first number is 1 to {count}", code="INVALID_SHARD")
    if limit is not None and limit < 0:
        raise ConfigError("limit must be 0 or more", code="INVALID_LIMIT")
    return Selection(number - 1, count, limit)


def local_executor(jobs: int) -> Executor:
    """Choose an executor on this machine."""
    if jobs < 1:
        raise ConfigError("jobs must be 1 or more", code="INVALID_JOBS")
    return in_process if jobs == 1 else processes(jobs)


def chunk_size(count: int, workers: int) -> int:
    """Return how many tasks go to a worker at a time."""
    return max(1, min(MAX_CHUNK, count // (workers * CHUNKS_PER_WORKER)))


def chunked(tasks: Iterator[T], size: int) -> Iterator[Sequence[T]]:
    """Cut tasks into chunks."""
    while chunk := list(islice(tasks, size)):
        yield chunk


class TaskSource(Protocol[TaskT_co]):
    """Where the tasks of a run come from: a ``Grid``, or the matrix of an evaluation."""

    @property
    def duplicates(self) -> int:
        """Tasks that were left out as duplicates."""
        ...

    @property
    def files(self) -> Mapping[str, FileRef]:
        """The files that the tasks need, by name."""
        ...

    def __len__(self) -> int: ...

    def tasks(self, selection: Selection, *, salt: Mapping[str, object] | None) -> Iterator[TaskT_co]:
        """Go through the tasks in a fixed order; see ``Grid.tasks()``."""
        ...

    def describe(self) -> JsonObject:
        """Return what the manifest says about the source."""
        ...


class Run(Generic[TaskT]):
    """One run of a grid, or of another source of tasks, into a folder."""

    def __init__(
        self,
        *,
        source: TaskSource[TaskT],
        output: OutputFolder,
        selection: Selection,
        resume: bool,
        form: BatchFormat,
        salt: Mapping[str, object],
        progress: Callable[[BatchProgress], object] | None,
    ) -> None:
        self._source = source
        self._output = output
        self._selection = selection
        self._resume = resume
        self._form = form
        self._salt = salt
        self._progress = progress
        self._stopping = threading.Event()
        self._found: set[int] = set()
        self._unanswered_in_a_row = 0
        self.made = self.skipped = self.failed = self.unanswered = 0
        self.problem = ""
        self.out_of_budget = False

    def execute(
        self, executor: Callable[[Iterator[Sequence[TaskT]]], Results], workers: int, largest: int = MAX_CHUNK
    ) -> BatchResult:
        """Make the missing records.

        Args:
            executor: Makes them, chunk by chunk.
            workers: How many chunks are processed at a time.
            largest: How many records they may make at a time.
        """
        output = self._output
        if self._resume:
            output.refuse_other_format()
            output.refuse_other_shards()
            self._found = output.repair()
        else:
            output.refuse_used()
        self._started, began = time.monotonic(), datetime.now(UTC)
        self._write_manifest("running", began, None)
        with output, _finishing_on_interrupt(self._stopping):
            chunks = chunked(self._missing(), min(chunk_size(self.total, workers), largest))
            with closing(executor(chunks)) as results:
                for built in results:
                    self._keep(built)
        output.finish_parts()
        result = self._result()
        self._write_manifest(result.status, began, result)
        if self._stopping.is_set():
            raise KeyboardInterrupt
        return result

    @property
    def total(self) -> int:
        """The total number of records; an estimate for a shard."""
        count = -(-len(self._source) // self._selection.shards)
        return count if self._selection.limit is None else min(count, self._selection.limit)

    def _missing(self) -> Iterator[TaskT]:
        """Yield the tasks without a record. Keys in use are removed from the set; the remaining ones are stale."""
        for task in self._source.tasks(self._selection, salt=self._salt):
            if self._stopping.is_set() or self.out_of_budget or self._unanswered_in_a_row >= MAX_UNANSWERED:
                return
            key = int(task.key, 16)
            if key in self._found:
                self._found.discard(key)
                self.skipped += 1
            else:
                yield task

    def _keep(self, built: list[Built]) -> None:
        for each in built:
            if each.out_of_budget:
                self.out_of_budget = True
            elif each.unanswered:
                self.unanswered += 1
                self._unanswered_in_a_row += 1
                self.problem = each.unanswered
            else:
                self._unanswered_in_a_row = 0
                self._output.write(each.line, error=each.misfit)
                self.failed += each.failed
                self.made += 1
        self._output.flush()
        self.report()

    def report(self) -> None:
        """Report the progress."""
        if self._progress is not None:
            seconds = time.monotonic() - self._started
            rate = self.made / seconds if seconds > 0 else 0.0
            self._progress(BatchProgress(self.made + self.skipped, self.total, self.failed, rate))

    def _result(self) -> BatchResult:
        status, stale = "complete", 0
        if self._stopping.is_set():
            status = "interrupted"
        elif self._unanswered_in_a_row >= MAX_UNANSWERED:
            status = "failed"
        elif self.out_of_budget:
            status = "budget"
        elif self._selection.limit is not None:
            status = "limited"
        else:
            stale = self._output.remove_stale(self._found)
            if self.unanswered:
                status = "failed"
        return BatchResult(
            folder=self._output.folder,
            status=status,
            records=self.made + self.skipped,
            made=self.made,
            skipped=self.skipped,
            failed=self.failed,
            unanswered=self.unanswered,
            stale=stale,
            duplicates=self._source.duplicates,
            problem=self.problem,
            seconds=time.monotonic() - self._started,
        )

    def _write_manifest(self, status: str, began: datetime, result: BatchResult | None) -> None:
        manifest: JsonObject = {
            "tavernkit": __version__,
            "schema": SCHEMA_VERSION,
            "status": status,
            "format": self._form,
            "started": began.isoformat(),
            **self._source.describe(),
            "shard": f"{self._selection.shard + 1}/{self._selection.shards}",
            "limit": self._selection.limit,
            "model": thaw_object(self._salt),
        }
        if result is not None:
            manifest["ended"] = datetime.now(UTC).isoformat()
            manifest["counts"] = result.to_dict()
            manifest["files"] = {name: file.hash for name, file in sorted(self._source.files.items())}
            manifest["parts"] = [path.name for path in self._output.parts()]
        self._output.write_manifest(manifest)


@contextmanager
def _finishing_on_interrupt(stopping: threading.Event) -> Generator[None]:
    """Let the first Ctrl-C finish work in progress, and the second interrupt as usual."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopping.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
