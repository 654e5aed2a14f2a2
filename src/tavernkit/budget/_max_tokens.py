"""The step that checks a finished prompt against the model's window. It refuses or warns; it never trims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar, cast

from tavernkit._dataclass import dataclass
from tavernkit.budget._estimator import default_estimator
from tavernkit.budget._inspector import describe_estimator
from tavernkit.budget._trimmer import compact_json, metadata_tokens
from tavernkit.errors import ConfigError, MaxTokensExceededError
from tavernkit.prompt._context import BuildState, Context
from tavernkit.prompt._inputs import Estimator
from tavernkit.prompt._message import Message
from tavernkit.prompt._pipeline import Step

T = TypeVar("T")
State: TypeAlias = BuildState[Context]
Option: TypeAlias = T | Callable[[State], T]
"""A value, or a function that gets the build's state and returns one."""

_MODES = ("warn", "error", "off", "none", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxTokensConfig:
    """Options of the max-tokens step; each may be a function of the state.

    Without ``max_tokens`` (or with 0) nothing is checked. ``mode`` is ``warn``, ``error`` or ``off``. ``tools`` and
    ``response_format`` are sent along with the messages: providers count their JSON as part of the prompt.
    """

    max_tokens: Option[int | str | None] = None
    reserve_tokens: Option[int | str] = 0
    """Tokens of the window that are kept for the reply."""
    mode: Option[str | None] = "warn"
    token_estimator: Estimator | Callable[[State], Estimator | None] | None = None
    """Counts tokens; by default the context's estimator, else the bundled tokenizers."""
    model_hint: Option[str | None] = None
    """The model to count for; the context's by default."""
    message_overhead_tokens: Option[int | str] = 0
    """Tokens to add for every message."""
    include_message_metadata_tokens: Option[bool] = False
    """True to count the metadata of messages too."""
    tools: Option[Sequence[object] | None] = None
    response_format: Option[Mapping[str, object] | None] = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "reserve_tokens", "message_overhead_tokens"):
            value: object = getattr(self, name)
            if value is not None and not callable(value):
                _token_number(value, name)
        if not callable(self.mode):
            _require_mode(self.mode)


@dataclass(frozen=True, slots=True)
class _Estimate:
    content: int
    metadata: int
    overhead: int
    request: int

    @property
    def total(self) -> int:
        return self.content + self.metadata + self.overhead + self.request


class MaxTokens(Step[State, MaxTokensConfig]):
    """Counts the messages of the plan and warns, or raises ``MaxTokensExceededError``, when they are too many."""

    name = "max_tokens"
    Config = MaxTokensConfig

    def after(self, state: State) -> None:
        """Check, once everything else is done.

        Raises:
            MaxTokensExceededError: The prompt does not fit, and the mode is ``error``.
        """
        config = self.config
        limit_value = _resolve(config.max_tokens, state)
        max_tokens = 0 if limit_value is None else _token_number(limit_value, "max_tokens")
        if max_tokens == 0:
            return
        reserve = _token_number(_resolve(config.reserve_tokens, state), "reserve_tokens")
        mode = _require_mode(_resolve(config.mode, state))
        estimator = _estimator(config, state)
        model_hint = _resolve(config.model_hint, state) or state.context.model_hint
        messages = _messages(state)
        per_message = _token_number(_resolve(config.message_overhead_tokens, state), "message_overhead_tokens")
        estimate = _Estimate(
            content=sum(estimator.estimate(message.content, model_hint) for message in messages),
            metadata=sum(metadata_tokens(message.metadata, estimator, model_hint) for message in messages)
            if _resolve(config.include_message_metadata_tokens, state)
            else 0,
            overhead=per_message * len(messages),
            request=sum(
                estimator.estimate(compact_json(part), model_hint)
                for part in (_resolve(config.tools, state), _resolve(config.response_format, state))
                if part
            ),
        )
        limit = max(max_tokens - reserve, 0)
        state.instrument(
            "stat",
            lambda: {"value": describe_estimator(estimator, model_hint)},
            key="token_estimator",
            step=state.current_step,
        )
        for key, value in (
            ("estimated_prompt_tokens", estimate.total),
            ("estimated_content_tokens", estimate.content),
            ("estimated_metadata_tokens", estimate.metadata),
            ("estimated_tools_tokens", estimate.request),
            ("message_overhead_per_message_tokens", per_message),
            ("message_overhead_tokens", estimate.overhead),
            ("message_count", len(messages)),
            ("max_prompt_tokens", limit),
        ):
            state.stat(key, value)
        if estimate.total <= limit or mode in ("off", "none", None):
            return
        if mode == "error":
            raise MaxTokensExceededError(
                estimated_tokens=estimate.total,
                max_tokens=max_tokens,
                reserve_tokens=reserve,
                step=state.current_step,
                partial=state.plan,
            )
        state.warn(
            f"the prompt is estimated at {estimate.total} tokens and only {limit} are available "
            f"({max_tokens} in all, {reserve} kept for the reply)"
        )


def _messages(state: State) -> Sequence[Message]:
    if state.plan is not None:
        return state.plan.messages
    return [block.to_message() for block in state.blocks if block.enabled]


def _estimator(config: MaxTokensConfig, state: State) -> Estimator:
    # An estimator may itself be callable, so check for an ``estimate`` method.
    chosen = config.token_estimator
    if chosen is not None and not hasattr(chosen, "estimate") and callable(chosen):
        return chosen(state) or state.context.token_estimator or default_estimator()
    return cast("Estimator | None", chosen) or state.context.token_estimator or default_estimator()


def _resolve(option: Option[T], state: State) -> T:
    if callable(option):
        return cast("Callable[[State], T]", option)(state)
    return option


def _token_number(value: object, name: str) -> int:
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and value.strip().removeprefix("+").isdecimal():
        number = int(value)
    if number is None or number < 0:
        raise ConfigError(f"{name} must be a whole number of tokens, 0 or more, not {value!r}", step=MaxTokens.name)
    return number


def _require_mode(mode: str | None) -> str | None:
    if mode not in _MODES:
        raise ConfigError(f"mode must be 'warn', 'error' or 'off', not {mode!r}", step=MaxTokens.name)
    return mode
