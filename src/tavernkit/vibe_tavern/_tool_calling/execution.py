"""Executes the tool calls of one turn, within all limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text import strict_json
from tavernkit._values import Json, JsonObject
from tavernkit.errors import Warn
from tavernkit.vibe_tavern import _events as events
from tavernkit.vibe_tavern._limits import MAX_PARALLEL_TOOLS
from tavernkit.vibe_tavern._prompt_runner import elapsed_ms
from tavernkit.vibe_tavern._tool_calling.calls import (
    ARGUMENTS_JSON_PARSE_ERROR,
    ARGUMENTS_TOO_LARGE,
    TOOL_OUTPUT_SERIALIZATION_ERROR,
    TOOL_OUTPUT_TOO_LARGE,
    ParsedArguments,
    call_arguments,
    call_id,
    call_name,
    check_output,
    error_codes,
    error_envelope,
    parse_arguments,
)
from tavernkit.vibe_tavern._tool_calling.config import ToolCallingConfig
from tavernkit.vibe_tavern._tool_calling.dispatcher import ToolDispatcher
from tavernkit.vibe_tavern._tool_calling.transforms import ToolResultTransform, TransformRegistry

Envelope = dict[str, object]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one call: the JSON text for the model, and its summary for traces."""

    tool_call_id: str
    name: str
    ok: bool
    error_codes: list[Json]
    content: str
    output_replaced: bool

    def summary(self) -> JsonObject:
        """The summary of the result for traces."""
        return {"id": self.tool_call_id, "name": self.name, "ok": self.ok, "error_codes": self.error_codes}


class ToolExecution:
    """Runs calls one by one, or in parallel if configured."""

    def __init__(
        self,
        dispatcher: ToolDispatcher,
        config: ToolCallingConfig,
        transforms: TransformRegistry[ToolResultTransform],
        *,
        strict: bool = False,
        warn: Warn | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dispatcher = dispatcher
        self._config = config
        self._transforms = transforms
        self._strict = strict
        self._warn = warn
        self._clock = clock

    async def run(self, calls: Sequence[JsonObject], turn: int, emit: events.EventEmitter) -> list[ToolResult]:
        """Run the calls of a turn; results are in the order of the calls."""
        if self._config.tool_dispatch == "sequential" or len(calls) == 1:
            return [await self._one(call, turn, emit) for call in calls]
        slots = asyncio.Semaphore(MAX_PARALLEL_TOOLS)

        async def with_slot(call: JsonObject) -> ToolResult:
            async with slots:
                return await self._one(call, turn, emit)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(with_slot(call)) for call in calls]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _one(self, call: JsonObject, turn: int, emit: events.EventEmitter) -> ToolResult:
        identity, name = call_id(call), call_name(call)
        arguments = parse_arguments(call_arguments(call), max_bytes=self._config.max_tool_args_bytes)
        emit(
            events.TOOL_CALL_START,
            turn=turn,
            tool_call_id=identity,
            name=name,
            arguments_bytes=arguments.size,
            parse_status=arguments.status,
        )
        started = self._clock()
        result = self._write(await self._dispatch(name, identity, arguments), name, identity)
        emit(
            events.TOOL_CALL_END,
            turn=turn,
            tool_call_id=identity,
            name=result.name,
            ok=result.ok,
            elapsed_ms=elapsed_ms(started, self._clock),
            output_bytes=strict_json.byte_length(result.content),
            output_replaced=result.output_replaced,
            error_codes=result.error_codes,
        )
        return result

    async def _dispatch(self, name: str, identity: str, arguments: ParsedArguments) -> Envelope:
        if arguments.status == "ok":
            return await self._dispatcher.dispatch(name, arguments.value, tool_call_id=identity)
        if arguments.status == "too_large":
            sizes = {"bytes": arguments.size, "max_bytes": self._config.max_tool_args_bytes}
            return error_envelope(name, ARGUMENTS_TOO_LARGE, data=sizes)
        return error_envelope(name, ARGUMENTS_JSON_PARSE_ERROR)

    def _write(self, made: Envelope, name: str, identity: str) -> ToolResult:
        """Write an envelope as JSON; if it is too large or invalid, return an error instead."""
        current = self._transform(made, name, identity)
        replaced = False
        limit = self._config.max_tool_output_bytes

        def replacement(code: str, data: JsonObject) -> Envelope:
            tool_name = str(current.get("tool_name") or name)
            # Transforms see replacements too, after they have seen what is replaced.
            return self._transform(error_envelope(tool_name, code, data=data), name, identity)

        verdict = check_output(current, max_bytes=limit)
        if not verdict.ok:
            details: JsonObject = {
                "estimated_bytes": verdict.estimated_bytes,
                "max_bytes": limit,
                "reason": verdict.reason,
            }
            current, replaced = replacement(TOOL_OUTPUT_TOO_LARGE, details), True
        try:
            content = strict_json.compact(current)
        except (ValueError, TypeError, RecursionError) as error:
            details = {"error_class": type(error).__name__, "message": str(error)}
            current, replaced = replacement(TOOL_OUTPUT_SERIALIZATION_ERROR, details), True
            content = strict_json.compact(current)
        size = strict_json.byte_length(content)
        if size > limit:  # the estimate was too low; with a very low limit, replacements are replaced as well
            current, replaced = replacement(TOOL_OUTPUT_TOO_LARGE, {"bytes": size, "max_bytes": limit}), True
            content = strict_json.compact(current)
        return ToolResult(
            tool_call_id=identity,
            name=str(current.get("tool_name") or name),
            ok=current.get("ok") is True,
            error_codes=error_codes(current),
            content=content,
            output_replaced=replaced,
        )

    def _transform(self, made: Envelope, name: str, identity: str) -> Envelope:
        names = self._config.tool_result_transforms
        for transform in self._transforms.resolve(names, strict=self._strict, warn=self._warn):
            changed = transform(made, tool_name=name, tool_call_id=identity)
            made = made if changed is None else changed
        return made
