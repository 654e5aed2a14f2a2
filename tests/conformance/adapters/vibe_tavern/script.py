"""Scripted models and executors in the form the vectors have."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tavernkit.models._scripted import Answer, Body, Failure, Script, ScriptedModel
from tavernkit.vibe_tavern._prompt_runner import PromptRequest, PromptResult, PromptRunner, PromptStream
from tavernkit.vibe_tavern._runner_config import RunnerConfig
from tavernkit.vibe_tavern.errors import ToolArgumentError
from tests.conformance.adapters.vibe_tavern.errors import raised


def runner_config(given: dict[str, Any]) -> RunnerConfig:
    return RunnerConfig.build(
        provider=given["provider"],
        model=given["model"],
        context={"warn": None, **(given.get("context") or {})},
        llm_options_defaults=given.get("llm_options_defaults"),
        capabilities_overrides=given.get("capabilities_overrides"),
    )


class RecordingRunner(PromptRunner):
    """A runner over a scripted model that keeps its requests: the vectors record what is asked for."""

    def __init__(self, responses: list[dict[str, Any]]) -> None:
        super().__init__(ScriptedModel(*(_reply(response) for response in responses)))
        self.requests: list[dict[str, Any]] = []

    async def perform(self, request: PromptRequest) -> PromptResult:
        self.requests.append(request.request)
        return await super().perform(request)

    @asynccontextmanager
    async def stream(self, request: PromptRequest, *, include_usage: bool = True) -> AsyncGenerator[PromptStream]:
        async with super().stream(request, include_usage=include_usage) as stream:
            streamed = {"stream": True, "stream_options": {"include_usage": include_usage}}
            self.requests.append({**request.request, **streamed})
            yield stream


def _reply(response: dict[str, Any]) -> Script:
    if "exception" in response:
        return raised(response["exception"])
    if "stream" in response:
        return Answer(
            text="".join(response["stream"]),
            deltas=response["stream"],
            finish_reason=response.get("finish_reason"),
            usage=response.get("usage"),
        )
    if not 200 <= response["status"] < 300:
        return Failure(response["status"], response.get("body"))
    return Body(response.get("body") or {})


def executor(given: dict[str, Any] | None, dispatches: list[dict[str, Any]]) -> Callable[..., object] | None:
    if given is None:
        return None
    counts: Counter[str] = Counter()

    def run(name: str, args: dict[str, Any], **extra: str) -> object:
        dispatches.append({"name": name, "args": args, **extra})
        outcomes = given["tools"][name]
        outcome = outcomes[min(counts[name], len(outcomes) - 1)]
        counts[name] += 1
        if "raise" in outcome:
            error = outcome["raise"]
            if error["kind"] == "argument_error":
                raise ToolArgumentError(error["message"])
            raise raised(error)
        return outcome["return"]

    def run_with_id(name: str, args: dict[str, Any], tool_call_id: str = "") -> object:
        return run(name, args, tool_call_id=tool_call_id)

    def run_plain(name: str, args: dict[str, Any]) -> object:
        return run(name, args)

    return run_with_id if given.get("accepts_tool_call_id") else run_plain
