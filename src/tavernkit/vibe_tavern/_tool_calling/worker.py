"""Runs blocking tools outside the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T], *, timeout: float | None = None) -> T:  # noqa: ASYNC109  # a thread cannot be cancelled from outside
    """Run a blocking function in its own thread; raises ``TimeoutError`` if it takes too long.

    Python cannot stop a thread. A cancelled caller therefore waits for the function to end, at most until its time
    limit. A function that is still running then continues in a daemon thread, which does not keep the program alive,
    and its result is discarded.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()
    deadline = None if timeout is None else loop.time() + timeout

    def run() -> None:
        try:
            result = context.run(work)
        except BaseException as error:  # noqa: BLE001  # handed to the caller
            _deliver(loop, done, lambda error=error: done.set_exception(error))
        else:
            _deliver(loop, done, lambda: done.set_result(result))

    threading.Thread(target=run, name="tavernkit-tool", daemon=True).start()
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        remaining = None if deadline is None else deadline - loop.time()
        if remaining is not None and remaining <= 0:
            break
        try:
            await asyncio.wait({done}, timeout=remaining)
        except asyncio.CancelledError as error:
            cancelled = error
    finished = done.done()
    if not finished:
        done.cancel()
    if cancelled is not None:
        if finished:
            done.exception()  # read, so that asyncio does not log it as never retrieved
        raise cancelled
    if not finished:
        raise TimeoutError
    return done.result()


def _deliver(loop: asyncio.AbstractEventLoop, done: asyncio.Future[T], deliver: Callable[[], None]) -> None:
    def deliver_if_awaited() -> None:
        if not done.done():
            deliver()

    try:
        loop.call_soon_threadsafe(deliver_if_awaited)
    except RuntimeError:  # the loop is closed: nobody is waiting
        return
