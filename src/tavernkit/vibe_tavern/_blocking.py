"""Synchronous access to the async runners, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from tavernkit._arguments import require
from tavernkit._loop_thread import LoopThread
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
        self._thread = LoopThread("runner")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. When the caller is interrupted (Ctrl+C), the coroutine is cancelled first.

        Raises:
            ConfigError: The runner is closed.
        """
        return self._thread.run(work)

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
        """Stop running work, close the model, and end the thread."""
        self._thread.close(self.runner.aclose)

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
