"""An event loop in a thread of its own, for programs without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from tavernkit.errors import ConfigError

SIGNAL_CHECK_SECONDS = 0.2
"""The maximum delay until Ctrl+C is noticed."""

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines for threads that have no event loop.

    Args:
        owner: Whose loop it is, for the thread's name and for errors.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._lock = threading.Lock()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name=f"tavernkit-{owner}", daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        """True if nothing can be run anymore."""
        return self._closed

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end. When the caller is interrupted (Ctrl+C), the coroutine is cancelled first.

        Raises:
            ConfigError: The thread is closed, or it is the caller's own, which would wait forever.
        """
        try:
            self._refuse_inside_loop()
            with self._lock:
                if self._closed:
                    raise self._closed_error()
                call = _Call(self._loop, work)
        except ConfigError:
            work.close()
            raise
        try:
            call.wait()
        except BaseException:
            call.cancel()
            call.wait()
            raise
        if self._closed and call.is_cancelled:
            raise self._closed_error()
        return call.result()

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Cancel what still runs, and end the thread.

        Args:
            last: Runs after everything else has ended.
        """
        self._refuse_inside_loop()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            ending = _Call(self._loop, _end_tasks(last))
        ending.wait()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        ending.result()

    def _run_loop(self) -> None:
        while True:
            try:
                return self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                continue  # A task raised it: it reaches the caller, and must not end the loop.

    def _refuse_inside_loop(self) -> None:
        if threading.current_thread() is self._thread:
            raise ConfigError(
                f"callbacks and async tools of this {self._owner} cannot call its blocking methods", code="CALL_IN_LOOP"
            )

    def _closed_error(self) -> ConfigError:
        return ConfigError(f"this {self._owner} is closed", code=f"{self._owner.upper()}_CLOSED")


class _Call(Generic[_T]):
    """A coroutine that runs in the loop of another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> None:
        self._loop = loop
        self._task: asyncio.Task[_T] | None = None
        self._ended = threading.Event()
        loop.call_soon_threadsafe(self._start, work)

    def _start(self, work: Coroutine[Any, Any, _T]) -> None:
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(lambda _: self._ended.set())

    def wait(self) -> None:
        """Wait until the coroutine has ended."""
        # A signal that arrives just before a thread starts waiting does not wake it up.
        while not self._ended.wait(SIGNAL_CHECK_SECONDS):
            pass

    def cancel(self) -> None:
        """Cancel the coroutine."""
        self._loop.call_soon_threadsafe(lambda: self._task is not None and self._task.cancel())

    @property
    def is_cancelled(self) -> bool:
        """True if it ended because it was cancelled."""
        return self._task is not None and self._task.cancelled()

    def result(self) -> _T:
        """Return the coroutine's result."""
        assert self._task is not None
        return self._task.result()


async def _end_tasks(last: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    try:
        if last is not None:
            await last()
    finally:
        await asyncio.get_running_loop().shutdown_asyncgens()
