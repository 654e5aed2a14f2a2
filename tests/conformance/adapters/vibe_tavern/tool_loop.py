"""`vibe_tavern/tool_loop`: whole runs against a scripted model and scripted tools."""

from __future__ import annotations

import asyncio
from typing import Any

from tavernkit._values import thaw
from tavernkit.prompt._block import Message
from tavernkit.vibe_tavern._tool_calling.loop import ToolLoopRunner
from tavernkit.vibe_tavern.errors import ToolLoopLimitError
from tests.conformance.adapters.vibe_tavern import script
from tests.conformance.adapters.vibe_tavern.errors import error_form
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    events: list[dict[str, Any]] = []
    dispatches: list[dict[str, Any]] = []
    runner = script.RecordingRunner(given["responses"])
    outcome: dict[str, Any]
    try:
        loop = ToolLoopRunner(
            runner,
            script.runner_config(given),
            tools=given.get("tools") or (),
            executor=script.executor(given.get("executor"), dispatches),
            system=given.get("system") or "",
            strict=given.get("strict", False),
        )
    except Exception as error:
        outcome = {"error": {**_error(error), "phase": "construct"}}
    else:
        try:
            arguments = {name: value for name, value in given["run"].items() if value is not None}
            result = asyncio.run(loop.run(**arguments, on_event=events.append))
        except Exception as error:
            outcome = {"error": _error(error)}
        else:
            outcome = {
                "result": {
                    "assistant_text": result.text,
                    "history": [_message(message) for message in result.history],
                    "trace": list(result.trace),
                }
            }
    return {
        "requests": runner.requests,
        "dispatches": dispatches,
        "events": [_event(event) for event in events],
        **outcome,
    }


def _message(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    return plain | ({"metadata": thaw(message.metadata)} if message.metadata else {})


def _event(event: dict[str, Any]) -> dict[str, Any]:
    return event | ({"message": event["code"]} if "code" in event else {})


def _error(error: Exception) -> dict[str, object]:
    form = error_form(error)
    return form | ({"message": str(error.limit)} if isinstance(error, ToolLoopLimitError) else {})
