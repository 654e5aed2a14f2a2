"""Builds on a Ray cluster (the extra ``ray``). Ray schedules; this process distributes chunks and writes records.

Tasks are pure: Ray runs them again if a node is lost, and each result is fetched once. At most ``CHUNKS_PER_CPU``
chunks per processor are in progress, so that neither tasks nor results pile up.
"""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol, cast

from tavernkit.batching._executors import Built, Chunk, Executor, Job, Results, Worker, failure
from tavernkit.batching._generation import Answerer, GenerateOptions, Meter
from tavernkit.batching._tasks import BatchFormat, Task
from tavernkit.errors import ConfigError

INSTALL_HINT: Final = "--ray needs Ray: pip install 'tavernkit[ray]'"
CHUNKS_PER_CPU: Final = 2
MAX_RETRIES: Final = 3
"""How often Ray retries a chunk whose node or process is lost. After that, its records are tried one by one."""
CONNECT_SECONDS: Final = 10.0
LOCAL: Final = "local"
"""The address that starts a cluster on this machine."""


class _Remote(Protocol):
    """A function that runs on the cluster."""

    def remote(self, *arguments: object) -> Awaitable[object]: ...


class _RemoteMeter(Protocol):
    """A meter that runs on the cluster."""

    take: _Remote
    spend: _Remote


class _Ray(Protocol):
    """The part of Ray that is used; it may be missing, and its own types are not used."""

    def init(self, *, address: str | None, log_to_driver: bool, logging_level: str) -> object: ...
    def is_initialized(self) -> bool: ...
    def shutdown(self) -> None: ...
    def put(self, value: object) -> object: ...
    def get(self, reference: object) -> object: ...
    def wait(
        self, references: Sequence[object], *, num_returns: int, timeout: float | None = None
    ) -> tuple[list[object], list[object]]: ...
    def cancel(self, reference: object, *, force: bool) -> None: ...
    def remote(self, **options: object) -> Callable[[object], _Remote]: ...
    def cluster_resources(self) -> Mapping[str, float]: ...
    def get_runtime_context(self) -> object: ...


def _package() -> _Ray:
    try:
        return cast("_Ray", import_module("ray"))
    except ModuleNotFoundError as error:
        raise ConfigError(INSTALL_HINT, code="EXTRA_MISSING") from error


@dataclass(frozen=True, slots=True)
class Setup:
    """What workers need besides tasks."""

    token: str
    """The id of the run: a worker caches files for one run only."""
    job: Job
    generate: GenerateOptions | None
    form: BatchFormat
    meter: _RemoteMeter | None


def _look_for(address: str) -> None:
    """Raise OSError if nothing listens at ``host:port``: Ray would end this process."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in address:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()


class Cluster:
    """A connection to a Ray cluster; a context manager."""

    def __init__(self, address: str) -> None:
        """Connect.

        Args:
            address: ``auto``, ``host:port``, ``ray://host:port``, or ``local`` to start one on this machine.
        """
        self._ray = _package()
        self._connected_here = not self._ray.is_initialized()
        if self._connected_here:
            where = None if address == LOCAL else address
            try:
                _look_for(address)
                self._ray.init(address=where, log_to_driver=False, logging_level="error")
            except (ConnectionError, OSError, ValueError) as error:
                raise ConfigError(f"no Ray cluster at {address!r}: {error}", code="NO_CLUSTER") from error

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        if self._connected_here:
            self._ray.shutdown()

    @property
    def processors(self) -> int:
        """How many processors the cluster has now; it may grow and shrink."""
        return max(int(self._ray.cluster_resources().get("CPU", 1)), 1)

    def executor(self, generate: GenerateOptions | None, form: BatchFormat) -> Executor:
        """Return an executor whose workers also send the prompts to a model, if requested.

        Args:
            generate: The model that answers, if one does.
            form: How records are encoded.
        """

        def run(job: Job, chunks: Iterator[Chunk]) -> Results:
            return self._run(job, chunks, generate, form)

        return run

    def _run(self, job: Job, chunks: Iterator[Chunk], generate: GenerateOptions | None, form: BatchFormat) -> Results:
        ray = self._ray
        meter = self._meter(generate) if generate is not None else None
        setup = ray.put(Setup(uuid.uuid4().hex, job, generate, form, meter))
        remote = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(run_chunk)
        under_way: dict[object, Chunk] = {}
        try:
            for chunk in chunks:
                while len(under_way) >= CHUNKS_PER_CPU * self.processors:
                    yield from self._finish(remote, setup, under_way, form)
                under_way[remote.remote(setup, list(chunk))] = chunk
            while under_way:
                yield from self._finish(remote, setup, under_way, form)
        finally:
            for reference in under_way:
                ray.cancel(reference, force=True)

    def _finish(
        self, remote: _Remote, setup: object, under_way: dict[object, Chunk], form: BatchFormat
    ) -> Iterator[list[Built]]:
        """Wait for a chunk. If its workers die too often, it is split, down to the record that kills them."""
        (reference, *_), _ = self._ray.wait(list(under_way), num_returns=1)
        chunk = under_way.pop(reference)
        exceptions = import_module("ray.exceptions")
        lost, raised = cast("type[Exception]", exceptions.RayError), cast("type[Exception]", exceptions.RayTaskError)
        try:
            yield cast("list[Built]", self._ray.get(reference))
        except lost as error:
            if isinstance(error, raised):
                raise
            if len(chunk) == 1:
                yield [failure(chunk[0], error, form)]
            else:
                for task in chunk:
                    one: list[Task] = [task]
                    under_way[remote.remote(setup, one)] = one

    def _meter(self, generate: GenerateOptions) -> _RemoteMeter:
        """Start the shared meter of all workers on this node, so that it cannot be lost with another node."""
        strategies = import_module("ray.util.scheduling_strategies")
        node = cast("Callable[[], str]", getattr(self._ray.get_runtime_context(), "get_node_id"))()  # noqa: B009  # untyped
        affinity = cast("Callable[..., object]", strategies.NodeAffinitySchedulingStrategy)(node, soft=True)
        actor = self._ray.remote(num_cpus=0, max_restarts=-1, scheduling_strategy=affinity)(Meter)
        return cast("_RemoteMeter", actor.remote(generate))


class ClusterMeter:
    """A meter somewhere on the cluster."""

    def __init__(self, meter: _RemoteMeter) -> None:
        self._meter = meter

    async def take(self) -> float | None:
        """Reserve a request."""
        return cast("float | None", await self._meter.take.remote())

    async def spend(self, tokens: int) -> None:
        """Count tokens."""
        await self._meter.spend.remote(tokens)


class _ClusterWorker:
    """A worker on the cluster, which builds prompts and sends them."""

    def __init__(self, setup: Setup) -> None:
        self.token = setup.token
        self._worker = Worker(setup.job)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._answerer: Answerer | None = None
        self._seats = 1
        if setup.generate is not None and setup.meter is not None:
            self._loop = asyncio.new_event_loop()
            self._answerer = Answerer(setup.generate, ClusterMeter(setup.meter), setup.form)
            self._seats = setup.generate.concurrency

    def run(self, chunk: Chunk) -> list[Built]:
        built = self._worker.run(chunk)
        if self._loop is None or self._answerer is None:
            return built
        return self._loop.run_until_complete(self._answers(self._answerer, built))

    async def _answers(self, answerer: Answerer, built: Sequence[Built]) -> list[Built]:
        seats = asyncio.Semaphore(self._seats)

        async def one(each: Built) -> Built:
            async with seats:
                return await answerer.answer(each)

        return list(await asyncio.gather(*map(one, built)))


_worker: _ClusterWorker | None = None


def run_chunk(setup: Setup, chunk: Chunk) -> list[Built]:
    """Make the records of a chunk on the cluster; files are read once in each process."""
    global _worker  # noqa: PLW0603  # Ray uses processes again, and this is what they keep
    if _worker is None or _worker.token != setup.token:
        _worker = _ClusterWorker(setup)
    return _worker.run(chunk)
