"""Asks for a directives envelope: from the strictest mode down to plain instructions, with repairs."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import field
from functools import reduce
from operator import add
from typing import Final, TypeAlias

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, JsonObject, deep_merge, freeze_object, is_list, is_object, thaw_object
from tavernkit.models import HTTPError, Model, ModelError, ProviderError, Reply, ReplyPiece, Request, Usage
from tavernkit.models._protocol import AsyncContext
from tavernkit.prompt._plan import Plan
from tavernkit.stores._history import HistoryLike
from tavernkit.stores._variables import VariablesStore
from tavernkit.vibe_tavern._directives.config import Mode
from tavernkit.vibe_tavern._directives.definitions import StructuredOutputOptions, response_format
from tavernkit.vibe_tavern._directives.envelope import parse_json, validate
from tavernkit.vibe_tavern._limits import SAMPLE_CHARACTERS
from tavernkit.vibe_tavern._options import is_blank, section
from tavernkit.vibe_tavern._output_tags import transform
from tavernkit.vibe_tavern._prompt_runner import PromptResult, PromptRunner, elapsed_ms
from tavernkit.vibe_tavern._runner_config import RunnerConfig, refuse_reserved

ENVELOPE_INSTRUCTIONS: Final = """\
Answer with exactly one JSON object, without Markdown and without code fences.
It has two keys, both always present:
* assistant_text: a string for the reader
* directives: a list of objects, each with the keys type (string) and payload (object)"""


def system_text(*parts: str | None) -> str:
    """Join the non-empty parts of a system text."""
    return "\n\n".join(part for part in parts if part is not None and not is_blank(part))


def repair_text(code: str, reasons: Sequence[str] = ()) -> str:
    """Return the text that asks for another answer after an unusable one."""
    lines = [f"Your last answer could not be used ({code})."]
    if reasons:
        lines.append(f"What was wrong: {'; '.join(reasons)}")
    lines.append("Send the whole JSON object again in the required shape, and nothing else.")
    return "\n".join(lines)


RESERVED: Final = frozenset(("model", "messages", "tools", "tool_choice", "stream", "stream_options"))
"""Keys that no option of a directives request can set."""

_UNSUPPORTED_STATUSES = (400, 422)
_UNSUPPORTED_WORDS = ("response_format", "structured", "json_schema", "json schema")


@dataclass(frozen=True, kw_only=True)
class DirectivesResult:
    """The result of a run. ``attempts`` has one record for every request, and for every skipped mode."""

    ok: bool
    """True if one of the attempts gave a valid envelope."""
    text: str
    """The text for the reader."""
    directives: Sequence[JsonObject] = ()
    """The directives that passed the checks: objects with ``type`` and ``payload``."""
    envelope: JsonObject | None = None
    """The validated JSON object; None if there was none."""
    warnings: Sequence[JsonObject] = ()
    """What was left out or corrected: objects with a code and details."""
    attempts: Sequence[JsonObject] = field(default_factory=list[JsonObject])
    mode: Mode | None = None
    """The mode that worked: ``json_schema``, ``json_object`` or ``prompt_only``."""
    elapsed_ms: int | None = None
    """Milliseconds from the last request to its answer."""
    usage: Usage = Usage()
    """Tokens of all attempts that were answered."""


ResultValidator: TypeAlias = Callable[[DirectivesResult], Sequence[str] | None]
"""Returns what is wrong with a valid envelope, as one text or several; the model sees it and is asked again."""


class DirectivesRunner:
    """Runs directives requests with one configuration.

    Args:
        runner: Sends the requests.
        config: The configuration.
        clock: Measures how long a run takes, in seconds.
    """

    def __init__(
        self, runner: PromptRunner, config: RunnerConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        require("runner", runner, PromptRunner)
        require("config", config, RunnerConfig)
        self._runner = runner
        self._config = config
        self._clock = clock

    async def run(
        self,
        *,
        prompt: Plan | Request | None = None,
        history: HistoryLike = None,
        message: str = "",
        system: str | None = None,
        variables: VariablesStore | None = None,
        strict: bool = False,
        llm_options: Mapping[str, object] | None = None,
        dialect: str | None = None,
        structured_output_options: StructuredOutputOptions | Mapping[str, object] | None = None,
        result_validator: ResultValidator | None = None,
    ) -> DirectivesResult:
        """Try each mode that the model supports, repairing as often as configured, until an envelope is valid.

        Error answers lead to the next mode; time-outs and broken connections are raised, with the attempts so far.

        Args:
            prompt: A finished prompt; everything else is added after it.
            history: The chat so far.
            message: What the user says.
            system: A system message of this run; the instructions for the envelope follow it.
            variables: The chat's variables, for templates.
            strict: Raise instead of warning.
            llm_options: Options of the requests.
            dialect: The format of messages; by default that of the model's protocol.
            structured_output_options: The allowed directives.
            result_validator: Checks a result; the model is told what is wrong and asked again.
        """
        ladder = _Ladder(
            runner=self._runner,
            config=self._config,
            clock=self._clock,
            request={
                "prompt": prompt,
                "history": history,
                "message": message,
                "variables": variables,
                "strict": strict,
                "dialect": dialect,
            },
            system=system,
            llm_options=section(llm_options, "llm_options"),
            output=StructuredOutputOptions.from_mapping(structured_output_options),
            result_validator=result_validator,
        )
        return await ladder.climb_down()


@dataclass(kw_only=True)
class _Ladder:
    """One run: modes from the top, attempts as they are made."""

    runner: PromptRunner
    config: RunnerConfig
    clock: Callable[[], float]
    request: dict[str, object]
    system: str | None
    llm_options: Mapping[str, object]
    output: StructuredOutputOptions
    result_validator: ResultValidator | None
    attempts: list[JsonObject] = field(default_factory=list[JsonObject])
    usages: list[Usage] = field(default_factory=list[Usage])

    async def climb_down(self) -> DirectivesResult:
        for mode in self.config.directives.modes:
            if not self._supports(mode):
                self._skip(mode)
                continue
            result = await self._try(mode)
            if result is not None:
                return result
        samples = (attempt.get("assistant_content_sample") for attempt in reversed(self.attempts))
        last = next((sample for sample in samples if isinstance(sample, str)), "")
        return DirectivesResult(ok=False, text=last, attempts=self.attempts, usage=self._usage())

    async def _try(self, mode: Mode) -> DirectivesResult | None:
        repair = ""
        options = self._options(mode)
        for _ in range(1 + self.config.directives.repair_retry_count):
            started = self.clock()
            try:
                answer = await self._ask(options, repair)
            except HTTPError as error:
                self.attempts.append(_http_attempt(mode, error, elapsed_ms(started, self.clock)))
                return None
            except ModelError as error:
                error.attempts = tuple(self.attempts)
                raise
            result, repair = self._judge(mode, answer)
            if result is not None:
                return result
        return None

    async def _ask(self, options: Mapping[str, object], repair: str) -> PromptResult:
        text = system_text(self.system, ENVELOPE_INSTRUCTIONS, self.output.output_instructions, repair)
        directives = self.config.directives
        request = self.runner.build_request(
            self.config,
            system=text,
            llm_options=options,
            message_transforms=directives.message_transforms,
            response_transforms=directives.response_transforms,
            **self.request,  # pyright: ignore[reportArgumentType]  # the run's own arguments, passed on
        )
        return await self.runner.perform(request)

    def _judge(self, mode: Mode, answer: PromptResult) -> tuple[DirectivesResult | None, str]:
        """Read an answer: return a usable result, or the text that asks for another answer."""
        attempt: JsonObject = {
            "mode": mode,
            "ok": False,
            "elapsed_ms": answer.elapsed_ms,
            "structured_output_error": None,
            "structured_output_warnings": [],
            "semantic_error": None,
            "finish_reason": answer.finish_reason,
            "usage": answer.usage,
            "assistant_content_sample": answer.text[:SAMPLE_CHARACTERS],
        }
        self.attempts.append(attempt)
        self.usages.append(answer.reply.usage)
        envelope, warnings, error = self._envelope(answer)
        if envelope is None:
            attempt["structured_output_error"] = error
            return None, repair_text(str(error.get("code")))
        attempt["ok"] = True
        attempt["structured_output_warnings"] = [*warnings]
        result = self._result(mode, answer, envelope, warnings)
        reasons = self._reasons(result)
        if not reasons:
            return result, ""
        attempt["semantic_error"] = {"code": "ASSERTION_FAILED", "reasons": [*reasons]}
        return None, repair_text("ASSERTION_FAILED", reasons)

    def _envelope(self, answer: PromptResult) -> tuple[JsonObject | None, Sequence[JsonObject], JsonObject]:
        calls = answer.assistant_message.get("tool_calls")
        if is_list(calls) and calls:
            counted: JsonObject = {"tool_calls_count": len(calls)}
            return None, (), {"ok": False, "code": "TOOL_CALLS_PRESENT", **counted, "details": counted}
        content = answer.assistant_message.get("content")
        parsed = parse_json(
            content if is_object(content) and "text" not in content else answer.text,
            max_bytes=self.output.max_bytes,
            repair=self.config.directives.json_repair,
        )
        if not parsed.ok:
            return None, (), parsed.to_dict()
        valid = validate(
            parsed.value,
            allowed_types=self.output.allowed_types,
            type_aliases=self.output.type_aliases,
            payload_validator=self.output.payload_validator,
        )
        return valid.value, valid.warnings, valid.to_dict()

    def _result(
        self, mode: Mode, answer: PromptResult, envelope: JsonObject, warnings: Sequence[JsonObject]
    ) -> DirectivesResult:
        output_tags, sanitizers = self.config.output_tags, self.config.infrastructure.sanitizers
        text = transform(str(envelope["assistant_text"]), output_tags, sanitizers=sanitizers).text
        directives = envelope["directives"]
        assert is_list(directives)
        return DirectivesResult(
            ok=True,
            mode=mode,
            elapsed_ms=answer.elapsed_ms,
            text=text,
            directives=[directive for directive in directives if is_object(directive)],
            envelope={**envelope, "assistant_text": text},
            warnings=warnings,
            attempts=self.attempts,
            usage=self._usage(),
        )

    def _usage(self) -> Usage:
        return reduce(add, self.usages) if self.usages else Usage()

    def _reasons(self, result: DirectivesResult) -> list[str]:
        if self.result_validator is None:
            return []
        try:
            reasons = self.result_validator(result) or ()
            return [reasons] if isinstance(reasons, str) else [str(reason) for reason in reasons]
        except Exception as error:  # noqa: BLE001  # the application's check failed: that is a reason too
            return [f"{type(error).__name__}: {error}"]

    def _options(self, mode: Mode) -> dict[str, object]:
        directives = self.config.directives
        own = {key: value for key, value in self.llm_options.items() if key not in ("model", "messages")}
        options = deep_merge(thaw_object(directives.request_overrides), own)
        options = deep_merge(options, thaw_object(directives.overrides_for(mode)))
        refuse_reserved(options, RESERVED, "options of a directives request")
        options.pop("response_format", None)
        if mode == "json_schema":
            options["response_format"] = response_format(
                name=self.output.schema_name,
                types=self.output.allowed_types,
                payload_schemas=self.output.payload_schemas,
            )
        elif mode == "json_object":
            options["response_format"] = {"type": "json_object"}
        return options

    def _supports(self, mode: Mode) -> bool:
        capabilities = self.config.capabilities
        if mode == "json_schema":
            return capabilities.supports_response_format_json_schema
        return mode == "prompt_only" or capabilities.supports_response_format_json_object

    def _skip(self, mode: Mode) -> None:
        error: JsonObject = {"code": "CAPABILITY_UNSUPPORTED", "mode": mode}
        self.attempts.append(
            {"mode": mode, "ok": False, "skipped": True, "structured_output_error": error, "semantic_error": None}
        )


def _http_attempt(mode: Mode, error: HTTPError, taken: int) -> JsonObject:
    said = f"{error} {error.raw_body}".lower()
    unsupported = error.status in _UNSUPPORTED_STATUSES and any(word in said for word in _UNSUPPORTED_WORDS)
    return {
        "mode": mode,
        "ok": False,
        "elapsed_ms": taken,
        "http_error": True,
        "http_status": error.status,
        "message": str(error),
        "structured_output_unsupported": unsupported,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectivesReply(Reply):
    """A reply with its directives."""

    directives: Sequence[FrozenObject] = ()
    """Validated objects with ``type`` and ``payload``."""


class DirectivesModel(AsyncContext):
    """Asks another model for a directives envelope and returns its text as the reply.

    A conversation with such a model stores only the text; the directives are in ``chat.last.reply.directives``. Replies
    are not streamed, because an envelope can only be read when it is complete.

    >>> model = DirectivesModel(tk.model("openai:gpt-4o"), {"allowed_types": ["ui.toast"]})    # doctest: +SKIP
    """

    def __init__(
        self,
        model: Model,
        directives: StructuredOutputOptions | Mapping[str, object] | None = None,
        *,
        config: RunnerConfig | None = None,
    ) -> None:
        """Make a model.

        Args:
            model: The model that is asked.
            directives: The allowed directives.
            config: Modes, repairs and other options; by default made for the model.
        """
        runner = PromptRunner(model)
        self._model = model
        self._directives = StructuredOutputOptions.from_mapping(directives)
        made = config or RunnerConfig.build(provider=model.dialect, model=model.name or model.dialect)
        self._runner = DirectivesRunner(runner, made)

    @property
    def name(self) -> str:
        """The name of the model that is asked."""
        return self._model.name

    @property
    def dialect(self) -> str:
        """The protocol of the model that is asked."""
        return self._model.dialect

    async def send(
        self, request: Request, *, on_delta: Callable[[ReplyPiece], object] | None = None
    ) -> DirectivesReply:
        """Ask for an envelope and return its text and directives.

        Args:
            request: What to send.
            on_delta: Called once, with the whole text.

        Raises:
            ModelError: There is no usable envelope.
        """
        result = await self._runner.run(prompt=request, structured_output_options=self._directives)
        if not result.ok:
            raise ProviderError(f"the model gave no usable directives envelope: {result.text[:200]!r}")
        if on_delta is not None:
            on_delta(ReplyPiece(text=result.text))
        found = tuple(freeze_object(each) for each in result.directives)
        return DirectivesReply(
            text=result.text, directives=found, usage=result.usage, finish_reason="stop", model=self.name
        )

    async def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Ask for an envelope and yield its text in one piece."""
        reply = await self.send(request)
        yield ReplyPiece(text=reply.text, usage=reply.usage, finish_reason="stop")

    async def aclose(self) -> None:
        """Close the model that is asked."""
        await self._model.aclose()
