"""The pool of worker processes.

Workers are started on demand, a few are kept, and a worker that hits a limit is killed and replaced. Workers end with
this process, even if it is killed: their input ends, and running jobs end with their alarm. A forked child starts its
own workers.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections import OrderedDict
from dataclasses import dataclass

from tavernkit._workers import BusyError, Job, JobFailedError, OutOfTimeError, RetiredError, WorkerError, limits, waited
from tavernkit._workers.worker import Answer, Worker


class WorkerPool:
    """A pool of workers; at most ``limits.MAX_WORKERS`` at a time."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._slots = threading.BoundedSemaphore(limits.MAX_WORKERS)
        self._lock = threading.RLock()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._spares_in_the_making = 0
        self._sessions: OrderedDict[int, weakref.ref[Session]] = OrderedDict()
        self._newest: weakref.ref[Session] | None = None
        self._jobs: tuple[Job, ...] = ()

    def expect(self, job: Job) -> None:
        """Make new workers load a job when they start."""
        if job not in self._jobs:
            self._jobs = (*self._jobs, job)

    def run(self, job: Job, payload: bytes, seconds: float) -> bytes:
        """Run a job in a worker process, with this many seconds of processor time.

        Raises:
            OutOfTimeError: The processor time was used up.
            StuckError: It took far longer by the clock, or no worker was free.
            WorkerError: The process could not be started or ended otherwise.
            JobFailedError: The job raised.
        """
        started = time.monotonic()
        try:
            return self._run(job, payload, seconds)
        finally:
            waited.seconds += time.monotonic() - started

    def _run(self, job: Job, payload: bytes, seconds: float) -> bytes:
        self.expect(job)
        slots = self._slots
        if not slots.acquire(timeout=limits.MAX_WAIT_SECONDS):
            raise BusyError(f"all workers were busy for {limits.MAX_WAIT_SECONDS:g} seconds")
        try:
            with contextlib.suppress(RetiredError):
                return self._request(self.take(), job, payload, seconds)
            return self._request(self.take(), job, payload, seconds)
        finally:
            slots.release()

    def _request(self, one: Worker, job: Job, payload: bytes, seconds: float) -> bytes:
        try:
            reply = one.request(job, payload, seconds)
        except JobFailedError:
            self.give_back(one)
            raise
        except OutOfTimeError:
            waited.processor_seconds += seconds
            self.discard(one, replace=True)
            raise
        except BaseException:
            self.discard(one, replace=True)
            raise
        waited.processor_seconds += one.processor_time
        self.give_back(one)
        return reply

    def take(self) -> Worker:
        """Take a worker that has started; raises ``BusyError`` or ``WorkerError``."""
        deadline = time.monotonic() + limits.MAX_WAIT_SECONDS
        # An idle worker may have just ended.
        with contextlib.suppress(WorkerError):
            return self._started(self._take(), deadline)
        return self._started(self._take(), deadline)

    def _started(self, one: Worker, deadline: float) -> Worker:
        try:
            one.wait_until_ready(deadline)
        except BaseException:
            self.discard(one, replace=False)
            raise
        return one

    def _take(self) -> Worker:
        """Take an idle worker, or make one."""
        with self._lock:
            cold = not self._idle and not self._busy
        if cold:
            # More requests will follow, and starting a second worker in the meantime costs almost nothing.
            self.warm_up()
        while (one := self._take_idle()) is not None:
            if one.is_alive and not one.is_overdue:
                return one
            self.discard(one, replace=False)
        one = Worker(self._jobs)
        with self._lock:
            self._busy.add(one)
        return one

    def _take_idle(self) -> Worker | None:
        """Take a worker that is ready, or the one that has been starting for the longest time."""
        with self._lock:
            if not self._idle:
                return None
            one = max(self._idle, key=lambda idle: idle.is_ready)
            self._idle.remove(one)
            self._busy.add(one)
            return one

    def give_back(self, one: Worker) -> None:
        """Make a worker idle, if there is room."""
        with self._lock:
            room = len(self._idle) + self._spares_in_the_making < limits.MAX_IDLE_WORKERS
            if room:
                self._busy.discard(one)
                self._idle.append(one)
        if not room:
            self.discard(one, replace=False)

    def discard(self, one: Worker, *, replace: bool) -> None:
        """End a worker."""
        one.kill()
        if replace:
            self._add_spare()
        one.stop()
        with self._lock:
            self._busy.discard(one)

    def _add_spare(self) -> bool:
        """Start one more idle worker, if there is room, without waiting until it is ready."""
        with self._lock:
            if len(self._idle) + self._spares_in_the_making >= limits.MAX_IDLE_WORKERS:
                return False
            self._spares_in_the_making += 1
        spare = None
        try:
            spare = Worker(self._jobs)
        except WorkerError:
            # The next request for a worker fails with the reason.
            return False
        finally:
            with self._lock:
                self._spares_in_the_making -= 1
                if spare is not None:
                    self._idle.append(spare)
        return True

    def warm_up(self) -> None:
        """Start workers until the maximum number is idle."""
        while self._add_spare():
            pass

    def note_use(self, session: Session) -> None:
        """Mark the worker of a session as recently used; only a few are kept."""
        newest = self._newest
        if newest is not None and newest() is session:
            return
        with self._lock:
            self._sessions.pop(id(session), None)
            self._newest = self._sessions[id(session)] = weakref.ref(session)
            spare = [key for key, found in self._sessions.items() if found() is None]
            for key in spare:
                del self._sessions[key]
            excess = [found() for found in self._sessions.values()][: -limits.MAX_SESSIONS]
        for other in excess:
            if other is not None and other.end_if_idle():
                with self._lock:
                    self._sessions.pop(id(other), None)

    def close(self) -> None:
        """Stop the workers that are idle; the pool can be used again."""
        with self._lock:
            idle, self._idle = self._idle, []
            sessions = [found() for found in self._sessions.values()]
            self._sessions.clear()
            self._newest = None
        for session in sessions:
            if session is not None:
                session.end_if_idle()
        for one in idle:
            one.stop()

    def forget(self) -> None:
        """Start again after a fork: the workers belong to the parent."""
        for one in (*self._idle, *self._busy):
            one.forget()
        for found in self._sessions.values():
            session = found()
            if session is not None:
                session.forget()
        self._reset()


@dataclass(slots=True)
class _Lease:
    """The worker process of a session; ``reusable`` if it is worth keeping after the session."""

    worker: Worker
    reusable: bool = True


class Session:
    """An exclusive worker process, whose job keeps state between requests.

    It is taken with the first request, and again after it was lost: ``generation`` counts how often. It is lost when a
    request hits a limit, or when many other sessions have been used since.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lease: _Lease | None = None
        self._end: weakref.finalize[[_Lease], Session] | None = None
        self._fresh = False
        self._depth = 0
        self.lock = threading.RLock()
        self.generation = 0

    @property
    def is_open(self) -> bool:
        """True if the session has a worker process with its state."""
        return self._lease is not None and self._lease.worker.is_alive

    def open(self) -> int:
        """Take a worker process, unless the session has one with its state; return the generation."""
        with self.lock:
            if not self.is_open:
                self.close()
                pool.expect(self._job)
                self._lease = _Lease(pool.take())
                self._end = weakref.finalize(self, _let_go, self._lease)
                self._fresh = True
                self.generation += 1
            return self.generation

    def request(self, payload: bytes, seconds: float, answer: Answer) -> tuple[bytes, float]:
        """Run the job; see ``Worker.request()``. Also returns the processor time."""
        with self.lock:
            if self._lease is None:
                self.open()
            assert self._lease is not None
            pool.note_use(self)
            worker = self._lease.worker
            fresh, self._fresh = self._fresh, False
            self._depth += 1
            started = time.monotonic()
            try:
                return worker.request(self._job, payload, seconds, answer=answer, fresh=fresh), worker.processor_time
            except JobFailedError:
                raise
            except BaseException:
                self.close(replace=True)
                raise
            finally:
                self._depth -= 1
                waited.seconds += time.monotonic() - started

    def close(self, *, replace: bool = False) -> None:
        """End the process, and with it the state."""
        with self.lock:
            lease, self._lease = self._lease, None
            if self._end is not None:
                self._end.detach()
            if lease is not None:
                pool.discard(lease.worker, replace=replace)

    def end_with_session(self) -> None:
        """Do not reuse the process after the session, because it has become large."""
        if self._lease is not None:
            self._lease.reusable = False

    def end_if_idle(self) -> bool:
        """Close the session unless it is in use."""
        if self._depth or not self.lock.acquire(blocking=False):
            return False
        try:
            self.close()
        finally:
            self.lock.release()
        return True

    def forget(self) -> None:
        """Forget a process that belongs to our parent process."""
        if self._end is not None:
            self._end.detach()
        if self._lease is not None:
            self._lease.worker.forget()
        self._lease, self.lock, self._depth = None, threading.RLock(), 0


def _let_go(lease: _Lease) -> None:
    """Take back the worker of a session that is no longer referenced; the next session discards its state."""
    if lease.reusable:
        pool.give_back(lease.worker)
    else:
        pool.discard(lease.worker, replace=False)


pool = WorkerPool()
"""The workers of this process."""

atexit.register(pool.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.forget)
