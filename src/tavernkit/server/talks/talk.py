"""What every platform's way of talking is given and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tavernkit.prompt.plan import Plan
from tavernkit.server.library import Cast
from tavernkit.server.storage.chats import ChatLine
from tavernkit.server.upstreams import Reply
from tavernkit.values import FrozenObject, Json, JsonObject, thaw

TurnKind: TypeAlias = Literal["normal", "regenerate", "swipe", "continue", "impersonate"]

SAMPLING = (
    "model",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "logit_bias",
    "reasoning_effort",
    "verbosity",
)
"""Options of a preset that a model's server understands; all others are the program's own."""

LENGTHS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkInput:
    """One turn: the chat so far (with what the user just said as its last lines), and what is asked for.

    ``pending`` is the id of the line that is being sent; nothing when the model shall just go on.
    """

    cast: Cast
    chat_id: str
    lines: Sequence[ChatLine]
    kind: TurnKind = "normal"
    pending: str | None = None
    details: JsonObject = field(default_factory=dict[str, Json])
    local_variables: JsonObject = field(default_factory=dict[str, Json])
    global_variables: JsonObject = field(default_factory=dict[str, Json])
    speaker: str | None = None
    user_name: str = "User"
    options: JsonObject = field(default_factory=dict[str, Json])
    """What the client wants to go to the model as it is: sampling, tools, stop strings."""
    dialect: str | None = None
    seed: int | str | None = None

    @property
    def response_length(self) -> int:
        """How long a reply the client asks for."""
        found = next((value for key in LENGTHS if isinstance(value := self.options.get(key), int)), 0)
        return max(found, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkResult:
    """What a turn came to: everything that is stored together."""

    reply: Reply
    text: str
    speaker: str
    plan: Plan | None
    lines: Sequence[ChatLine]
    reply_id: str | None
    details: JsonObject
    local_variables: JsonObject
    global_variables: JsonObject
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPrompt:
    """A prompt without a model call."""

    plan: Plan
    request: JsonObject
    speaker: str


Ask: TypeAlias = Callable[[JsonObject], Awaitable[Reply]]
"""Sends a request in OpenAI's shape."""


def model_request(
    messages: Sequence[JsonObject], own: FrozenObject | Mapping[str, object], options: JsonObject
) -> JsonObject:
    """The request: a preset's options, with the client's winning."""
    chosen: JsonObject = {key: thaw(own[key]) for key in SAMPLING if own.get(key) is not None}
    if any(key in options for key in LENGTHS):
        chosen = {key: value for key, value in chosen.items() if key not in LENGTHS}
    return {"messages": list(messages), **chosen, **options}
