"""Synchronous access to the async runners, for programs without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from tavernkit._arguments import require
from tavernkit.errors import ConfigError
from tavernkit.models import ReplyPiece
from tavernkit.vibe_tavern._prompt_runner import PromptRequest, PromptResult, PromptRunner, PromptStream

T = TypeVar("T")


class BlockingRunner:
    """Runs a ``PromptRunner``, and runners based on it, from synchronous code.

    The work runs in a thread with an event loop; closing ends both, and everything that is still running.

    >>> with BlockingRunner(PromptRunner(model)) as blocking:                        # doctest: +SKIP
    ...     request = blocking.runner.build_request(config, message="Hi")
    ...     print(blocking.perform(request).text)
    ...     tools = ToolLoopRunner(blocking.runner, config, tools=toolset)
    ...     print(blocking.run(tools.run("What is the weather?")).text)
    """

    def __init__(self, runner: PromptRunner) -> None:
        require("runner", runner, PromptRunner)
        self.runner = runner
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tavernkit-runner", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; when the caller is interrupted, so is the coroutine.

        Raises:
            ConfigError: The runner is closed.
        """
        if self._loop.is_closed():
            work.close()
            raise ConfigError("this BlockingRunner is closed", code="RUNNER_CLOSED")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def perform(self, request: PromptRequest) -> PromptResult:
        """Send a request and read the answer."""
        return self.run(self.runner.perform(request))

    def perform_stream(
        self, request: PromptRequest, *, include_usage: bool = True, on_delta: Callable[[str], object] | None = None
    ) -> PromptResult:
        """Send a chat-only request; ``on_delta`` is called with each piece of text, in the runner's thread.

        Args:
            request: The request.
            include_usage: Also request token counts.
            on_delta: Called with each piece of text, in the runner's thread.
        """
        return self.run(self.runner.perform_stream(request, include_usage=include_usage, on_delta=on_delta))

    @contextmanager
    def stream(self, request: PromptRequest, *, include_usage: bool = True) -> Generator[BlockingStream]:
        """Send a chat-only request and iterate over the answer as it arrives; leaving the context cancels the request.

        Args:
            request: The request.
            include_usage: Also request token counts.
        """
        manager = self.runner.stream(request, include_usage=include_usage)
        stream = self.run(_enter(manager.__aenter__))
        try:
            yield BlockingStream(self, stream)
        finally:
            self.run(_enter(lambda: manager.__aexit__(None, None, None)))

    def close(self) -> None:
        """Close the model, stop running work, and end the thread."""
        if self._loop.is_closed():
            return
        self.run(_close(self.runner))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingStream:
    """A running stream: iterate over its pieces; ``result`` is available when it has ended."""

    def __init__(self, runner: BlockingRunner, stream: PromptStream) -> None:
        self._runner = runner
        self._stream = stream

    def __iter__(self) -> Iterator[ReplyPiece]:
        pieces = self._stream.__aiter__()
        try:
            while (piece := self._runner.run(_next_or_none(pieces.__anext__))) is not None:
                yield piece
        finally:
            self._runner.run(_enter(pieces.aclose))

    @property
    def result(self) -> PromptResult:
        """The whole answer."""
        return self._stream.result


async def _enter(step: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return await step()


async def _next_or_none(step: Callable[[], Coroutine[Any, Any, ReplyPiece]]) -> ReplyPiece | None:
    try:
        return await step()
    except StopAsyncIteration:
        return None


async def _close(runner: PromptRunner) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await runner.aclose()
    await asyncio.get_running_loop().shutdown_asyncgens()
