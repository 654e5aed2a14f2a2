"""The pool of worker processes.

Workers are started when they are needed, a few are kept, and one that runs out of time is killed and replaced. They
end with this process, also when it is killed itself: their input ends then, and a running match ends by its alarm. A
forked child starts its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Sequence

from tavernkit.text.js_regex import limits
from tavernkit.text.js_regex.engine import Engine
from tavernkit.text.js_regex.worker_process import NotStartedError, OutOfTimeError, Worker, WorkerError


class BusyError(Exception):
    """As many calls as may run at once were running until the deadline."""


class _Waited(threading.local):
    seconds = 0.0


_waited = _Waited()


def seconds_waited() -> float:
    """How long this thread has waited for workers in all: its own clock does not count that."""
    return _waited.seconds


class WorkerPool:
    """Workers for whoever needs one; at most :data:`limits.MAX_WORKERS` at a time."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._slots = threading.BoundedSemaphore(limits.MAX_WORKERS)
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._spares_in_the_making = 0

    def run(self, engine: Engine, text: str, deadline: float, *, everything: bool) -> Sequence[int]:
        """Run a match in a worker, until a time of the monotonic clock at most.

        Raises :class:`OutOfTimeError`, :class:`NotStartedError`, :class:`BusyError` or :class:`WorkerError`.
        """
        started = time.monotonic()
        try:
            return self._run(engine, text, deadline, everything=everything)
        finally:
            _waited.seconds += time.monotonic() - started

    def _run(self, engine: Engine, text: str, deadline: float, *, everything: bool) -> Sequence[int]:
        slots = self._slots
        if not slots.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise BusyError
        try:
            if time.monotonic() >= deadline:
                raise BusyError
            # An idle one may have ended by itself just now.
            with contextlib.suppress(WorkerError):
                return self._ask(self._take(), engine, text, deadline, everything=everything)
            return self._ask(self._take(), engine, text, deadline, everything=everything)
        finally:
            slots.release()

    def _ask(self, one: Worker, engine: Engine, text: str, deadline: float, *, everything: bool) -> Sequence[int]:
        keep = replace = False
        try:
            one.wait_until_ready(deadline)
            offsets = one.ask(engine, text, deadline, everything=everything)
            keep = True
        except NotStartedError:
            keep = not one.is_overdue
            raise
        except OutOfTimeError:
            replace = True
            raise
        finally:
            if not (keep and self._keep(one)):
                self._discard(one, replace=replace)
        return offsets

    def _take(self) -> Worker:
        """Take an idle worker, or make one."""
        with self._lock:
            cold = not self._idle and not self._busy
        if cold:
            # What needed a worker once will need one again, and starting a second meanwhile costs next to nothing.
            self.warm_up()
        while (one := self._take_idle()) is not None:
            if one.is_alive and not one.is_overdue:
                return one
            self._discard(one, replace=False)
        one = Worker()
        with self._lock:
            self._busy.add(one)
        return one

    def _take_idle(self) -> Worker | None:
        """Take a worker that is ready, or else the one that has been starting for longest."""
        with self._lock:
            if not self._idle:
                return None
            one = max(self._idle, key=lambda idle: idle.is_ready)
            self._idle.remove(one)
            self._busy.add(one)
            return one

    def _keep(self, one: Worker) -> bool:
        """Make a worker idle, if there is room."""
        with self._lock:
            room = len(self._idle) + self._spares_in_the_making < limits.MAX_IDLE_WORKERS
            if room:
                self._busy.discard(one)
                self._idle.append(one)
        return room

    def _discard(self, one: Worker, *, replace: bool) -> None:
        one.kill()
        if replace:
            self._add_spare()
        one.stop()
        with self._lock:
            self._busy.discard(one)

    def _add_spare(self) -> bool:
        """Start one more idle worker, if there is room; nobody waits until it is ready."""
        with self._lock:
            if len(self._idle) + self._spares_in_the_making >= limits.MAX_IDLE_WORKERS:
                return False
            self._spares_in_the_making += 1
        spare = None
        try:
            spare = Worker()
        except WorkerError:
            # Whoever needs a worker next will be told why there is none.
            return False
        finally:
            with self._lock:
                self._spares_in_the_making -= 1
                if spare is not None:
                    self._idle.append(spare)
        return True

    def warm_up(self) -> None:
        """Start workers until as many are idle as are kept."""
        while self._add_spare():
            pass

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
