"""Shows where the tokens of a prompt go, message by message, and checks them against the model's window.

Inspecting is for debugging: it does more work than a build needs. The step refuses or warns; it never trims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar, cast

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, JsonObject, thaw_object
from tavernkit.budget._estimator import default_estimator
from tavernkit.budget._file_tokenizer import Tokenization
from tavernkit.budget._trimmer import compact_json, metadata_tokens
from tavernkit.errors import ConfigError, MaxTokensExceededError
from tavernkit.prompt._block import Message
from tavernkit.prompt._context import BuildState, Context
from tavernkit.prompt._inputs import Estimator
from tavernkit.prompt._pipeline import Step
from tavernkit.prompt._plan import Plan

_MESSAGE_KEYS = frozenset({"role", "content", "name"})


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedMessage:
    """One message and its tokens. ``content_length`` is in characters."""

    index: int
    """The number of the message, from 0."""
    role: str
    """The role of the message."""
    content_length: int
    content_tokenization: Tokenization
    """The tokens of its text."""
    metadata_token_count: int
    """Tokens of its metadata, if they are counted."""
    metadata_tokenization: Tokenization | None
    """The tokens of its metadata, if requested."""
    overhead_tokens: int
    """Tokens that the provider adds for the message."""

    @property
    def total_tokens(self) -> int:
        """Everything the message costs."""
        return self.content_tokenization.token_count + self.metadata_token_count + self.overhead_tokens

    def to_dict(self) -> JsonObject:
        """All fields and the sum, ready for ``json``."""
        metadata = self.metadata_tokenization
        return {
            "index": self.index,
            "role": self.role,
            "content_length": self.content_length,
            "content_tokenization": self.content_tokenization.to_dict(),
            "metadata_token_count": self.metadata_token_count,
            "metadata_tokenization": None if metadata is None else metadata.to_dict(),
            "overhead_tokens": self.overhead_tokens,
            "total_tokens": self.total_tokens,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """All messages of a prompt, with how they were counted."""

    estimator: FrozenObject
    """How tokens were counted: the backend and its options."""
    model_hint: str | None
    """The model that was counted for."""
    message_overhead_tokens: int
    """Tokens that were added for every message."""
    include_message_metadata_tokens: bool
    """True if metadata of messages was counted."""
    messages: Sequence[InspectedMessage]
    """The messages in order."""

    @property
    def totals(self) -> Mapping[str, int]:
        """Sums over all messages."""
        return {
            "message_count": len(self.messages),
            "content_tokens": sum(message.content_tokenization.token_count for message in self.messages),
            "metadata_tokens": sum(message.metadata_token_count for message in self.messages),
            "overhead_tokens": sum(message.overhead_tokens for message in self.messages),
            "total_tokens": sum(message.total_tokens for message in self.messages),
        }

    def to_dict(self) -> JsonObject:
        """All fields and sums, ready for ``json``."""
        return {
            "estimator": thaw_object(self.estimator),
            "model_hint": self.model_hint,
            "message_overhead_tokens": self.message_overhead_tokens,
            "include_message_metadata_tokens": self.include_message_metadata_tokens,
            "messages": [message.to_dict() for message in self.messages],
            "totals": dict(self.totals),
        }


def inspect_plan(
    plan: Plan,
    *,
    token_estimator: Estimator | None = None,
    model_hint: str | None = None,
    message_overhead_tokens: int = 0,
    include_message_metadata_tokens: bool = False,
    include_metadata_details: bool = False,
) -> Inspection:
    """Inspect the messages of a plan: see ``inspect_messages()``.

    Args:
        plan: The plan to count.
        token_estimator: Counts the tokens; by default the bundled tokenizers.
        model_hint: The model to count for.
        message_overhead_tokens: Tokens to add for every message.
        include_message_metadata_tokens: Count the metadata of messages as well.
        include_metadata_details: Also list the tokens of the metadata.
    """
    require("plan", plan, Plan)
    return inspect_messages(
        plan.messages,
        token_estimator=token_estimator,
        model_hint=model_hint,
        message_overhead_tokens=message_overhead_tokens,
        include_message_metadata_tokens=include_message_metadata_tokens,
        include_metadata_details=include_metadata_details,
    )


def inspect_messages(
    messages: Iterable[Message | Mapping[str, object]],
    *,
    token_estimator: Estimator | None = None,
    model_hint: str | None = None,
    message_overhead_tokens: int = 0,
    include_message_metadata_tokens: bool = False,
    include_metadata_details: bool = False,
) -> Inspection:
    """Tokenize every message. In a mapping, everything except role, content and name counts as metadata.

    Args:
        messages: The messages to count.
        token_estimator: Counts the tokens; by default the bundled tokenizers.
        model_hint: The model to count for.
        message_overhead_tokens: Tokens to add for every message.
        include_message_metadata_tokens: Count the metadata of messages as well.
        include_metadata_details: Also list the tokens of the metadata.
    """
    estimator = token_estimator or default_estimator()
    inspected: list[InspectedMessage] = []
    for index, message in enumerate(messages):
        role, content, metadata = _parts(message)
        counted = tokenized = None
        if include_message_metadata_tokens and metadata:
            counted = tokenize_with(estimator, compact_json(metadata), model_hint)
            tokenized = counted if include_metadata_details else None
        inspected.append(
            InspectedMessage(
                index=index,
                role=role,
                content_length=len(content),
                content_tokenization=tokenize_with(estimator, content, model_hint),
                metadata_token_count=0 if counted is None else counted.token_count,
                metadata_tokenization=tokenized,
                overhead_tokens=message_overhead_tokens,
            )
        )
    return Inspection(
        estimator=describe_estimator(estimator, model_hint),
        model_hint=model_hint,
        message_overhead_tokens=message_overhead_tokens,
        include_message_metadata_tokens=include_message_metadata_tokens,
        messages=tuple(inspected),
    )


def describe_estimator(estimator: Estimator, model_hint: str | None) -> JsonObject:
    """Describe how an estimator counts; by default, by the name of its class."""
    describe: Callable[[str | None], JsonObject] | None = getattr(estimator, "describe", None)
    return {"backend": type(estimator).__name__} if describe is None else describe(model_hint)


def tokenize_with(estimator: Estimator, text: str, model_hint: str | None) -> Tokenization:
    """Tokenize a text; an estimator that can only count returns the number."""
    tokenize: Callable[[str, str | None], Tokenization] | None = getattr(estimator, "tokenize", None)
    if tokenize is not None:
        return tokenize(text, model_hint)
    return Tokenization(backend=type(estimator).__name__, token_count=estimator.estimate(text, model_hint))


def _parts(message: Message | Mapping[str, object]) -> tuple[str, str, Mapping[str, object]]:
    if isinstance(message, Message):
        return message.role, message.content, message.metadata or {}
    content = message.get("content")
    text = content if isinstance(content, str) else "" if content is None else compact_json(content)
    role = str(message.get("role") or "").strip()
    metadata = {key: value for key, value in message.items() if key not in _MESSAGE_KEYS}
    return role or "unknown", text, metadata


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
        estimated = self._estimate(state)
        limit = max(max_tokens - reserve, 0)
        state.stat("max_prompt_tokens", limit)
        if estimated <= limit or mode in ("off", "none", None):
            return
        if mode == "error":
            raise MaxTokensExceededError(
                estimated_tokens=estimated,
                max_tokens=max_tokens,
                reserve_tokens=reserve,
                step=state.current_step,
                partial=state.plan,
            )
        state.warn(
            f"the prompt is estimated at {estimated} tokens and only {limit} are available "
            f"({max_tokens} in all, {reserve} kept for the reply)"
        )

    def _estimate(self, state: State) -> int:
        """Count what is sent, and put the counts into the statistics."""
        config = self.config
        estimator = _estimator(config, state)
        model_hint = _resolve(config.model_hint, state) or state.context.model_hint
        messages = _messages(state)
        per_message = _token_number(_resolve(config.message_overhead_tokens, state), "message_overhead_tokens")
        content = sum(estimator.estimate(message.content, model_hint) for message in messages)
        metadata = 0
        if _resolve(config.include_message_metadata_tokens, state):
            metadata = sum(metadata_tokens(message.metadata, estimator, model_hint) for message in messages)
        sent_along = (_resolve(config.tools, state), _resolve(config.response_format, state))
        request = sum(estimator.estimate(compact_json(part), model_hint) for part in sent_along if part)
        overhead = per_message * len(messages)
        total = content + metadata + overhead + request
        state.instrument(
            "stat",
            lambda: {"value": describe_estimator(estimator, model_hint)},
            key="token_estimator",
            step=state.current_step,
        )
        for key, value in (
            ("estimated_prompt_tokens", total),
            ("estimated_content_tokens", content),
            ("estimated_metadata_tokens", metadata),
            ("estimated_tools_tokens", request),
            ("message_overhead_per_message_tokens", per_message),
            ("message_overhead_tokens", overhead),
            ("message_count", len(messages)),
        ):
            state.stat(key, value)
        return total


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
