"""Shows where the tokens of a prompt go, message by message. For debugging: it does more work than a build needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, JsonObject, thaw_object
from tavernkit.budget._estimator import default_estimator
from tavernkit.budget._tokenization import Tokenization
from tavernkit.budget._trimmer import compact_json
from tavernkit.prompt._inputs import Estimator
from tavernkit.prompt._message import Message
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
