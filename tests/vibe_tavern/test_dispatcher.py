"""Running one tool call: names, results, errors, time limits, cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._tool_calling.calls import ok_envelope
from tavernkit.vibe_tavern._tool_calling.dispatcher import ToolDispatcher, run_in_thread
from tavernkit.vibe_tavern._tool_calling.registry import ToolDefinition, ToolRegistry
from tavernkit.vibe_tavern.errors import ToolArgumentError
from tests.vibe_tavern.support import loose

SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
REGISTRY = ToolRegistry([ToolDefinition("state_get"), ToolDefinition("checked", parameters=SCHEMA)])


def dispatcher(executor: Callable[..., object], **options: Any) -> ToolDispatcher:
    return ToolDispatcher(executor, REGISTRY, **options)


def code(envelope: dict[str, object]) -> str:
    return loose(envelope)["errors"][0]["code"]


async def test_names_are_found_by_alias_and_with_dots() -> None:
    called: list[str] = []
    tools = dispatcher(lambda name, args: called.append(name), aliases={"get": "state_get"})
    for name in ("state_get", " state_get ", "state.get", "get"):
        assert loose(await tools.dispatch(name, {}))["ok"] is True
    assert called == ["state_get"] * 4
    assert code(await tools.dispatch("nope", {})) == "TOOL_NOT_ALLOWED"


async def test_async_executors_are_awaited_in_the_loop() -> None:
    class Executor:
        async def __call__(self, name: str, args: dict[str, Any]) -> object:
            return {"thread": threading.current_thread() is threading.main_thread()}

    assert loose(await dispatcher(Executor()).dispatch("state_get", {}))["data"] == {"thread": True}


async def test_blocking_executors_run_beside_the_loop_with_its_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    def executor(name: str, args: dict[str, Any]) -> object:
        return {"main": threading.current_thread() is threading.main_thread(), "value": variable.get()}

    assert loose(await dispatcher(executor).dispatch("state_get", {}))["data"] == {"main": False, "value": "set"}


async def test_call_id_goes_to_those_who_take_it() -> None:
    def with_keywords(name: str, args: dict[str, Any], **extra: str) -> object:
        return extra

    envelope = await dispatcher(with_keywords).dispatch("state_get", {}, tool_call_id="c1")
    assert loose(envelope)["data"] == {"tool_call_id": "c1"}
    assert loose(await dispatcher(with_keywords).dispatch("state_get", {}, tool_call_id=""))["data"] == {}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ToolArgumentError("no"), "ARGUMENT_ERROR"),
        (ValueError("no"), "ARGUMENT_ERROR"),
        (RuntimeError("no"), "INTERNAL_ERROR"),
        (TimeoutError("the tool's own"), "INTERNAL_ERROR"),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_what_a_tool_raises_becomes_a_result(error: Exception, expected: str, asynchronous: bool) -> None:
    def blocking(name: str, args: dict[str, Any]) -> object:
        raise error

    async def awaiting(name: str, args: dict[str, Any]) -> object:
        raise error

    assert code(await dispatcher(awaiting if asynchronous else blocking).dispatch("state_get", {})) == expected


async def test_async_tool_is_ended_when_its_time_is_up() -> None:
    ended = asyncio.Event()

    async def slow(name: str, args: dict[str, Any]) -> object:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    envelope = await dispatcher(slow, timeout=0.01).dispatch("state_get", {})
    assert code(envelope) == "TOOL_TIMEOUT"
    assert loose(envelope)["data"] == {"timeout_seconds": 0.01}
    assert ended.is_set()


async def test_blocking_tool_does_not_hold_up_the_loop_when_its_time_is_up() -> None:
    release = threading.Event()
    finished = threading.Event()

    def slow(name: str, args: dict[str, Any]) -> object:
        release.wait()
        finished.set()
        return None

    envelope = await dispatcher(slow, timeout=0.01).dispatch("state_get", {})
    assert code(envelope) == "TOOL_TIMEOUT"
    release.set()
    assert finished.wait(5)


async def test_cancelling_waits_for_a_blocking_tool_to_end() -> None:
    started, release = threading.Event(), threading.Event()
    finished: list[bool] = []

    def slow(name: str, args: dict[str, Any]) -> object:
        started.set()
        release.wait()
        finished.append(True)
        return None

    task = asyncio.create_task(dispatcher(slow, timeout=5).dispatch("state_get", {}))
    await asyncio.get_running_loop().run_in_executor(None, started.wait)
    task.cancel()
    asyncio.get_running_loop().call_soon(release.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert finished == [True]


async def test_error_of_a_cancelled_blocking_tool_is_not_left_unread() -> None:
    started, release = threading.Event(), threading.Event()

    def failing() -> None:
        started.set()
        release.wait()
        raise RuntimeError("late")

    task = asyncio.create_task(run_in_thread(failing, timeout=5))
    await asyncio.get_running_loop().run_in_executor(None, started.wait)
    task.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_arguments_are_checked_against_the_schema_when_asked_for() -> None:
    called: list[object] = []
    checking = dispatcher(lambda name, args: called.append(args), validate_arguments=True)
    assert code(await checking.dispatch("checked", {"a": "x"})) == "ARGUMENT_ERROR"
    assert loose(await checking.dispatch("checked", {"a": 1}))["ok"] is True
    assert called == [{"a": 1}]


def test_an_executor_must_be_callable() -> None:
    with pytest.raises(ConfigError):
        ToolDispatcher(loose("not callable"), REGISTRY)


def test_what_is_no_envelope_is_kept_as_a_value_even_if_it_is_nothing() -> None:
    assert ok_envelope("t", None)["data"] == {"value": None}
    assert ok_envelope("t", [1])["data"] == {"value": [1]}
    assert ok_envelope("t", {"a": 1})["data"] == {"a": 1}
    assert ok_envelope("t", {"ok": True, "data": None})["data"] == {}
