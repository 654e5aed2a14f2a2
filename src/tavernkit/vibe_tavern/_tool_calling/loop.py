"""The tool loop: asks the model, runs the tools it calls, and asks again, within limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from tavernkit._arguments import require
from tavernkit.errors import ConfigError
from tavernkit.models import Request
from tavernkit.prompt._block import Message
from tavernkit.prompt._plan import Plan
from tavernkit.stores._history import HistoryLike
from tavernkit.stores._variables import VariablesStore
from tavernkit.vibe_tavern import _events as events
from tavernkit.vibe_tavern._context import history_messages
from tavernkit.vibe_tavern._limits import MAX_TURNS
from tavernkit.vibe_tavern._prompt_runner import PromptRunner
from tavernkit.vibe_tavern._runner_config import RunnerConfig
from tavernkit.vibe_tavern._tool_calling.dispatcher import AnyExecutor, ToolDispatcher
from tavernkit.vibe_tavern._tool_calling.execution import ToolExecution
from tavernkit.vibe_tavern._tool_calling.registry import (
    FilteredToolRegistry,
    ToolDefinition,
    ToolRegistry,
    ToolSource,
)
from tavernkit.vibe_tavern._tool_calling.run import LoopSettings, ToolLoopResult, ToolLoopRun


class ToolLoopRunner:
    """Runs conversations in which the model may call tools.

    ``tools`` is a registry, a toolset, or definitions; ``executor`` runs them and is needed unless tools are disabled
    (a toolset of functions has its own). A runner can be used for many runs, also at the same time.

    Args:
        runner: Sends the requests.
        config: The configuration.
        tools: The tools.
        executor: Runs them.
        system: The default system text of runs.
        strict: Raise at the first warning.
        dialect: The format of messages; by default that of the model's protocol.
        variables: Variables of the prompt's macros.
        aliases: Other names that models may use, and the tools they mean.
        clock: Measures how long a run takes, in seconds.

    Raises:
        ConfigError: Tools are enabled, but there is no executor.
    """

    def __init__(
        self,
        runner: PromptRunner,
        config: RunnerConfig,
        *,
        tools: ToolSource | Iterable[ToolDefinition | Mapping[str, object]] = (),
        executor: AnyExecutor | None = None,
        system: str = "",
        strict: bool = False,
        dialect: str | None = None,
        variables: VariablesStore | None = None,
        aliases: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        require("runner", runner, PromptRunner)
        require("config", config, RunnerConfig)
        require("aliases", aliases, Mapping[str, str] | None)
        strict = strict or config.context.strict
        options = config.tool_calling
        source = tools if hasattr(tools, "definitions") else ToolRegistry(tools)  # pyright: ignore[reportArgumentType]  # either has definitions or is a list of them
        registry = FilteredToolRegistry(source, allow=options.tool_allowlist, deny=options.tool_denylist)  # pyright: ignore[reportArgumentType]  # as above
        executor = executor if executor is not None else getattr(tools, "execute", None)
        execution = None
        if options.tools_enabled:
            if executor is None:
                raise ConfigError(
                    "tools are on: pass executor=..., or set tool_use_mode to 'disabled'", code="EXECUTOR_REQUIRED"
                )
            dispatcher = ToolDispatcher(
                executor,
                registry,
                aliases=aliases,
                timeout=options.tool_timeout_seconds,
                validate_arguments=options.validate_tool_arguments,
            )
            execution = ToolExecution(
                dispatcher,
                options,
                config.infrastructure.tool_result_transforms,
                strict=strict,
                warn=config.context.warn,
                clock=clock,
            )
        self._settings = LoopSettings(
            runner=runner,
            config=config,
            registry=registry,
            execution=execution,
            system=system,
            strict=strict,
            dialect=dialect,
            variables=variables,
            clock=clock,
        )

    async def run(
        self,
        user_text: str = "",
        *,
        prompt: Plan | Request | None = None,
        history: HistoryLike = None,
        max_turns: int = MAX_TURNS,
        on_event: events.EventHandler | None = None,
        final_stream: bool = False,
    ) -> ToolLoopResult:
        """Run until the model answers without calling a tool.

        Args:
            user_text: What the user says.
            prompt: A finished prompt. It is not built again: history, user text and tool results are added after it.
            history: The chat so far.
            max_turns: How often the model is asked.
            on_event: Called with each event.
            final_stream: If tools were used, request the last answer again, streamed as events.

        Raises:
            ModelError: The model did not answer.
            ToolLoopLimitError: There was no answer within the limits.
            ToolUseError: Tools were required but not used, or failed.
        """
        require("user_text", user_text, str)
        require("max_turns", max_turns, int)
        require("on_event", on_event, Callable[..., object] | None)
        messages: list[Message] = history_messages(history)
        run = ToolLoopRun(self._settings, prompt, messages, user_text, events.EventEmitter(on_event))
        return await run.loop(max_turns, final_stream=final_stream)
