"""One run of the tool loop, turn by turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.strict_json import byte_length
from tavernkit._values import Json, JsonObject, thaw, thaw_object
from tavernkit.models import HTTPError, Request
from tavernkit.models._readers import CARRIED_KEYS
from tavernkit.prompt._block import Message
from tavernkit.prompt._plan import Plan
from tavernkit.stores._variables import VariablesStore
from tavernkit.vibe_tavern import _events as events
from tavernkit.vibe_tavern._limits import SAMPLE_CHARACTERS
from tavernkit.vibe_tavern._options import is_blank
from tavernkit.vibe_tavern._output_tags import transform
from tavernkit.vibe_tavern._prompt_runner import PromptRequest, PromptResult, PromptRunner, elapsed_ms
from tavernkit.vibe_tavern._runner_config import RunnerConfig
from tavernkit.vibe_tavern._tool_calling.calls import call_summary, read_tool_calls, with_unique_ids
from tavernkit.vibe_tavern._tool_calling.execution import ToolExecution, ToolResult
from tavernkit.vibe_tavern._tool_calling.final_stream import final_stream, stream_system_text
from tavernkit.vibe_tavern._tool_calling.registry import ToolRegistry
from tavernkit.vibe_tavern.errors import ToolLoopLimitError, ToolUseError


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """What all runs of a loop runner share."""

    runner: PromptRunner
    config: RunnerConfig
    registry: ToolRegistry
    execution: ToolExecution | None
    system: str
    strict: bool
    dialect: str | None
    variables: VariablesStore | None
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True)
class ToolLoopResult:
    """The answer, the history with every tool round in it, and a trace with one entry for each turn."""

    text: str
    """The final answer."""
    history: tuple[Message, ...]
    """All messages, with every tool round."""
    trace: tuple[JsonObject, ...]
    """One entry for each turn."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """A parsed answer: its text, the calls that will run, and how many will not."""

    request: PromptRequest
    result: PromptResult
    text: str
    calls: list[JsonObject] = field(default_factory=list[JsonObject])
    ignored: int = 0


class ToolLoopRun:
    """State of one run."""

    def __init__(
        self,
        settings: LoopSettings,
        prompt: Plan | Request | None,
        history: list[Message],
        user_text: str,
        emit: events.EventEmitter,
    ) -> None:
        self._settings = settings
        self._prompt = prompt
        self._options = settings.config.tool_calling
        self._history = history
        self._pending: str | None = user_text
        self._emit = emit
        self._trace: list[JsonObject] = []
        self._tools_on = self._options.tools_enabled
        self._calls_seen = False
        self._success_seen = False
        self._last_ok: dict[str, bool] = {}
        self._fixed_empty_final = False
        self._tokens = 0

    async def loop(self, max_turns: int, *, final_stream: bool) -> ToolLoopResult:
        """Run turns until there is an answer."""
        for turn in range(max_turns):
            if self._pending is not None and not is_blank(self._pending):
                self._history.append(Message(role="user", content=self._pending))
            self._pending = None
            answer = await self._ask(turn)
            self._record(turn, answer)
            if answer.calls:
                await self._run_tools(turn, answer)
            elif self._needs_fix(answer):
                self._fix_empty_final(turn)
            else:
                return await self._finish(turn, answer, stream=final_stream)
            self._check_tokens()
        raise ToolLoopLimitError(
            f"no answer after {max_turns} turns", code="TURNS_EXCEEDED", limit=max_turns, details=self._details()
        )

    async def _ask(self, turn: int) -> _Answer:
        """Send the request of a turn; in relaxed mode, an HTTP error may lead to a retry without tools."""
        options, clock = self._options, self._settings.clock
        retries = options.fallback_retry_count if options.tool_use_mode == "relaxed" else 0
        while True:
            tools = self._tools()
            started = clock()
            try:
                request = self._build(tools)
                self._emit_start(turn, request, tools, retries)
                result = await self._settings.runner.perform(request)
                break
            except HTTPError as error:
                fields = events.error_fields(error)
                self._emit_error(turn, status=error.status, **fields)
                if not retries:
                    raise
                retries -= 1
                self._tools_on = False
                self._emit(events.LLM_REQUEST_RETRY, turn=turn, tools_enabled=False, request_attempts_left=retries)
            except Exception as error:
                taken = elapsed_ms(started, clock)
                self._emit_error(turn, status=None, elapsed_ms=taken, **events.error_fields(error))
                raise
        self._tokens += _total_tokens(result.usage)
        return self._read(turn, request, result)

    def _tools(self) -> list[JsonObject]:
        if not self._tools_on:
            return []
        tools = self._settings.registry.openai_tools()
        registry = self._settings.config.infrastructure.tool_transforms
        for change in registry.resolve(self._options.tool_transforms, strict=self._settings.strict, warn=self._warn):
            changed = change(tools)
            tools = tools if changed is None else changed
        return tools

    def _build(self, tools: list[JsonObject], *, system: str | None = None, transforms: bool = True) -> PromptRequest:
        settings, options = self._settings, self._options
        llm_options: JsonObject = thaw_object(options.request_overrides)
        if tools:
            llm_options |= {"tools": [*tools], "tool_choice": thaw(options.tool_choice)}
        return settings.runner.build_request(
            settings.config,
            self._prompt,
            history=list(self._history),
            system=settings.system if system is None else system,
            variables=settings.variables,
            strict=settings.strict,
            llm_options=llm_options,
            dialect=settings.dialect,
            message_transforms=options.message_transforms if transforms else (),
            response_transforms=options.response_transforms if transforms else (),
        )

    def _read(self, turn: int, request: PromptRequest, result: PromptResult) -> _Answer:
        calls = read_tool_calls(result.assistant_message.get("tool_calls"))
        ignored = 0
        if self._tools_on:
            registry = self._settings.config.infrastructure.tool_call_transforms
            names = self._options.tool_call_transforms
            for change in registry.resolve(names, strict=self._settings.strict, warn=self._warn):
                changed = change(calls)
                calls = calls if changed is None else changed
            calls = with_unique_ids(calls)
            limit = self._options.max_tool_calls_per_turn
            if limit is None and request.options.get("parallel_tool_calls") is False:
                limit = 1  # this is the default: calls after the first are dropped, and the model is not told
            calls, surplus = calls[:limit], calls[limit:] if limit is not None else []
            ignored = len(surplus)
        else:
            calls, ignored = [], len(calls)  # a model may call tools that it was not offered
        answer = _Answer(request, result, result.text, calls, ignored)
        self._emit(
            events.LLM_REQUEST_END,
            turn=turn,
            **self._modes(),
            tools_enabled=self._tools_on,
            elapsed_ms=result.elapsed_ms,
            finish_reason=result.finish_reason,
            assistant_content_bytes=byte_length(answer.text),
            usage=result.usage,
            tool_calls_count=len(calls),
            ignored_tool_calls_count=ignored,
            tool_calls=[call_summary(call) for call in calls],
        )
        return answer

    def _record(self, turn: int, answer: _Answer) -> None:
        """Add the answer to history and trace; text next to tool calls is left out of the history."""
        message = answer.result.assistant_message
        metadata: JsonObject = {"tool_calls": [*answer.calls]} if answer.calls else {}
        if answer.calls:
            metadata |= {key: message[key] for key in CARRIED_KEYS if message.get(key)}
        content = "" if answer.calls else answer.text
        self._history.append(Message(role="assistant", content=content, metadata=metadata or None))
        summary: JsonObject = {
            "has_tool_calls": bool(answer.calls),
            "tool_calls_count": len(answer.calls),
            "ignored_tool_calls_count": answer.ignored,
            "usage": answer.result.usage,
            "finish_reason": answer.result.finish_reason,
        }
        if answer.calls and not is_blank(answer.text):
            summary |= {
                "assistant_content_stripped": True,
                "assistant_content_sample": answer.text[:SAMPLE_CHARACTERS],
            }
        options = self._options
        request: JsonObject = {
            "model": self._settings.config.model,
            "messages_count": len(answer.request.messages),
            "tools_count": _count(answer.request.request.get("tools")),
            **self._modes(),
        }
        for name in ("tool", "message", "response", "tool_call", "tool_result"):
            request[f"{name}_transforms"] = list(getattr(options, f"{name}_transforms"))
        calls: list[Json] = [call_summary(call) for call in answer.calls]
        self._trace.append({"turn": turn, "request": request, "response_summary": summary, "tool_calls": calls})

    async def _run_tools(self, turn: int, answer: _Answer) -> None:
        assert self._settings.execution is not None
        self._calls_seen = True
        results = await self._settings.execution.run(answer.calls, turn, self._emit)
        for result in results:
            self._note(result)
            metadata: JsonObject = {"tool_call_id": result.tool_call_id}
            self._history.append(Message(role="tool", content=result.content, metadata=metadata))
        self._trace[-1]["tool_results"] = [result.summary() for result in results]
        self._tools_on = self._options.tools_enabled  # a retry may have switched them off, for its turn only

    def _note(self, result: ToolResult) -> None:
        # By the name in the result, which a tool may choose: it is not always the name that was called.
        self._success_seen = self._success_seen or result.ok
        self._last_ok[result.name] = result.ok

    def _needs_fix(self, answer: _Answer) -> bool:
        options = self._options
        # Only once in a run, and only after a tool was called: an empty first answer is the answer.
        wanted = options.fix_empty_final and options.tools_enabled and not self._fixed_empty_final
        return wanted and self._calls_seen and is_blank(answer.text)

    def _fix_empty_final(self, turn: int) -> None:
        self._fixed_empty_final = True
        self._pending = self._options.fix_empty_final_user_text
        if self._options.fix_empty_final_disable_tools:
            self._tools_on = False
        self._emit(
            events.FIX_EMPTY_FINAL,
            turn=turn,
            disable_tools=self._options.fix_empty_final_disable_tools,
            user_text_bytes=byte_length(self._pending),
        )

    async def _finish(self, turn: int, answer: _Answer, *, stream: bool) -> ToolLoopResult:
        self._check_policy()
        self._emit(
            events.FINAL,
            turn=turn,
            assistant_content_bytes=byte_length(answer.text),
            any_tool_calls_seen=self._calls_seen,
            any_tool_success_seen=self._success_seen,
        )
        config = self._settings.config
        text = transform(answer.text, config.output_tags, sanitizers=config.infrastructure.sanitizers).text
        final = self._history.pop()
        if stream and self._calls_seen:
            streamed = await final_stream(
                self._settings.runner,
                lambda: self._build([], system=stream_system_text(self._settings.system), transforms=False),
                history=self._history,
                turn=turn,
                emit=self._emit,
            )
            self._trace[-1]["final_stream"] = streamed.trace
            text = text if streamed.text is None else streamed.text
        self._history.append(final.replace(content=text))
        return ToolLoopResult(text, tuple(self._history), tuple(self._trace))

    def _check_policy(self) -> None:
        """In enforced mode a run without a tool call, or with failed ones, is an error."""
        if self._options.tool_use_mode != "enforced":
            return
        if not self._calls_seen:
            raise ToolUseError("the model called no tool", code="NO_TOOL_CALLS", details=self._details())
        failed = sorted(name for name, ok in self._last_ok.items() if not ok)
        fatal = bool(failed) if self._options.tool_failure_policy == "fatal" else not self._success_seen
        if fatal:
            details = {**self._details(), "failed_tools": failed}
            raise ToolUseError(f"tools failed: {', '.join(failed)}", code="TOOL_ERROR", details=details)

    def _check_tokens(self) -> None:
        limit = self._options.max_total_tokens
        if limit is not None and self._tokens >= limit:
            raise ToolLoopLimitError(
                f"{self._tokens} tokens used of {limit} allowed",
                code="TOKENS_EXCEEDED",
                limit=limit,
                details=self._details(),
            )

    def _emit_start(self, turn: int, request: PromptRequest, tools: list[JsonObject], retries: int) -> None:
        self._emit(
            events.LLM_REQUEST_START,
            turn=turn,
            **self._modes(),
            tools_enabled=self._tools_on,
            messages_count=len(request.messages),
            tools_count=len(tools),
            tool_choice=self._options.tool_choice if tools else None,
            request_attempts_left=retries,
        )

    def _emit_error(self, turn: int, **fields: object) -> None:
        self._emit(events.LLM_REQUEST_ERROR, turn=turn, tools_enabled=self._tools_on, **fields)

    def _modes(self) -> JsonObject:
        options = self._options
        return {"tool_use_mode": options.tool_use_mode, "tool_failure_policy": options.tool_failure_policy}

    def _details(self) -> dict[str, object]:
        return {"trace": tuple(self._trace), "history": tuple(self._history)}

    def _warn(self, message: str) -> None:
        handler = self._settings.config.context.warn
        if handler is not None:
            handler(message)


def _total_tokens(usage: JsonObject | None) -> int:
    total = (usage or {}).get("total_tokens")
    return total if isinstance(total, int) else 0


def _count(value: Json) -> int:
    return len(value) if isinstance(value, list) else 0
