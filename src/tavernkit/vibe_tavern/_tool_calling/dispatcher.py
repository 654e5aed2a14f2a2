"""Runs one tool call: finds the tool, calls the executor with a time limit, and returns an envelope."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias, TypeVar, cast

from tavernkit._text.coerce import trim_blanks
from tavernkit._values import JsonObject
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._json_schema import check_arguments
from tavernkit.vibe_tavern._limits import TOOL_TIMEOUT_SECONDS
from tavernkit.vibe_tavern._tool_calling.calls import (
    ARGUMENT_ERROR,
    INTERNAL_ERROR,
    TOOL_NOT_ALLOWED,
    TOOL_TIMEOUT,
    error_envelope,
    ok_envelope,
)
from tavernkit.vibe_tavern._tool_calling.registry import ToolDefinition, ToolSource, find_tool
from tavernkit.vibe_tavern.errors import ToolArgumentError


class ToolExecutor(Protocol):
    """Runs tools by name. May be a function, or a coroutine function.

    It returns any JSON value, or an envelope (a mapping with ``ok``). If it has a parameter ``tool_call_id``, it gets
    that too. ``ToolArgumentError`` and ``ValueError`` tell the model that its arguments were wrong.
    """

    def __call__(self, name: str, args: JsonObject, /) -> object:
        """Run a tool."""
        ...


AnyExecutor: TypeAlias = ToolExecutor | Callable[..., object]


class ToolDispatcher:
    """Runs tool calls with an executor; never raises for errors of the model or a tool."""

    def __init__(
        self,
        executor: AnyExecutor,
        registry: ToolSource,
        *,
        aliases: Mapping[str, str] | None = None,
        timeout: float | None = TOOL_TIMEOUT_SECONDS,
        validate_arguments: bool = False,
    ) -> None:
        if not callable(executor):
            raise ConfigError("executor must be callable as executor(name, args)", code="EXECUTOR_REQUIRED")
        self._executor = cast("Callable[..., object]", executor)
        self._registry = registry
        self._aliases = dict(aliases or {})
        self._timeout = timeout
        self._validate = validate_arguments
        self._takes_id = _takes_tool_call_id(self._executor)
        self._is_async = _is_async(self._executor)

    def resolve(self, name: str) -> ToolDefinition | None:
        """Return the tool that a model refers to by a name."""
        wanted = trim_blanks(name)
        for candidate in (self._aliases.get(wanted, wanted), wanted.replace(".", "_")):
            found = find_tool(self._registry, candidate)
            if found is not None:
                return found
        return None

    async def dispatch(self, name: str, args: JsonObject, *, tool_call_id: str | None = None) -> dict[str, object]:
        """Run a tool and return its envelope."""
        tool = self.resolve(name)
        if tool is None:
            missing = trim_blanks(name)
            return error_envelope(missing, TOOL_NOT_ALLOWED, f"No such tool: {missing}")
        if self._validate:
            problem = check_arguments(args, tool.schema)
            if problem is not None:
                return error_envelope(tool.name, ARGUMENT_ERROR, problem)
        extra = {"tool_call_id": tool_call_id} if self._takes_id and tool_call_id else {}
        try:
            result = await self._call(tool.name, args, extra)
        except _OutOfTimeError:
            limit = {"timeout_seconds": self._timeout}
            return error_envelope(tool.name, TOOL_TIMEOUT, data=limit)
        except (ToolArgumentError, ValueError) as error:
            return error_envelope(tool.name, ARGUMENT_ERROR, str(error))
        except Exception as error:  # noqa: BLE001  # whatever a tool raises becomes a result that the model can read
            text = f"{type(error).__name__}: {error}"
            return error_envelope(tool.name, INTERNAL_ERROR, text)
        return ok_envelope(tool.name, result)

    async def _call(self, name: str, args: JsonObject, extra: Mapping[str, str]) -> object:
        if self._is_async:
            return await self._in_time(self._executor(name, args, **extra))
        try:
            result = await run_in_thread(lambda: _caught(self._executor, name, args, extra), timeout=self._timeout)
        except TimeoutError:
            raise _OutOfTimeError from None
        if isinstance(result, Exception):
            raise result
        return await self._in_time(result) if inspect.isawaitable(result) else result

    async def _in_time(self, call: object) -> object:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await cast("Awaitable[object]", call)
        except TimeoutError:
            if limit.expired():
                raise _OutOfTimeError from None
            raise


class _OutOfTimeError(Exception):
    """The dispatcher's own time limit, as opposed to a tool that raises TimeoutError."""


def _caught(executor: Callable[..., object], name: str, args: JsonObject, extra: Mapping[str, str]) -> object:
    try:
        return executor(name, args, **extra)
    except Exception as error:  # noqa: BLE001  # raised again by the caller
        return error


def _is_async(executor: Callable[..., object]) -> bool:
    call: object = getattr(executor, "__call__", None)  # noqa: B004  # an object may have a coroutine for its call
    return inspect.iscoroutinefunction(executor) or inspect.iscoroutinefunction(call)


def _takes_tool_call_id(executor: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(executor).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(each.name == "tool_call_id" or each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)


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
