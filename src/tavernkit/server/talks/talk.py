"""What every platform's way of talking is given and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias

from tavernkit import Plan
from tavernkit.models import Reply, Request, ServerFields
from tavernkit.models.parameters import LENGTHS, STANDARD_OPTIONS
from tavernkit.server.library import Cast
from tavernkit.server.storage.chats import ChatLine
from tavernkit.values import EMPTY_OBJECT, Json, JsonObject, freeze_object, thaw

TurnKind: TypeAlias = Literal["normal", "regenerate", "swipe", "continue", "impersonate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkInput:
    """One turn: the chat so far (with what the user just said as its last lines), and what is asked for.

    ``pending`` is the id of the line that is being sent; nothing when the model shall just go on.
    """

    cast: Cast
    chat_id: str
    lines: Sequence[ChatLine]
    unread: int = 0
    """How many lines of the chat come before these."""
    kind: TurnKind = "normal"
    pending: str | None = None
    details: JsonObject = field(default_factory=dict[str, Json])
    local_variables: JsonObject = field(default_factory=dict[str, Json])
    global_variables: JsonObject = field(default_factory=dict[str, Json])
    speaker: str | None = None
    user_name: str = "User"
    options: JsonObject = field(default_factory=dict[str, Json])
    """What the client wants to go to the model as it is: sampling, tools, stop strings."""
    seed: int | None = None
    model: str = ""
    """The model that is asked; if empty, the preset may name one."""
    dialect: str = "openai"
    """The protocol of the server that is asked."""

    @property
    def response_length(self) -> int:
        """How long a reply the client asks for."""
        found = next((value for key in LENGTHS if isinstance(value := self.options.get(key), int)), 0)
        return max(found, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One reply of a turn, who gave it, and its line."""

    speaker: str
    reply: Reply
    line_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkResult:
    """What a turn came to: everything that is stored together.

    ``spoken`` has every reply of a group's round; ``reply`` and ``text`` are all of them in one.
    """

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
    spoken: Sequence[Spoken] = ()
    notes: Sequence[str] = ()
    """What the client is told besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPrompt:
    """A prompt without a model call."""

    plan: Plan
    request: Request
    speaker: str
    fields: ServerFields | None = None
    """What the server takes that would be asked."""
    warnings: Sequence[str] = ()


class Ask(Protocol):
    """Sends a request; ``speaker`` is told to the client where several speak."""

    async def __call__(self, request: Request, /, *, speaker: str | None = None) -> Reply:
        """Send a request and wait for the reply."""
        ...


def joined_reply(spoken: Sequence[Spoken], *, named: bool, interrupted: str = "") -> Reply:
    """All replies of a round in one: each with its speaker's name in front, if ``named``, and their costs added."""
    if not spoken:
        return Reply(finish_reason="stop", interrupted=interrupted)
    last = spoken[-1].reply
    texts = [f"{each.speaker}: {each.reply.text}" if named else each.reply.text for each in spoken]
    return replace(
        last,
        text="\n\n".join(texts),
        reasoning="\n\n".join(each.reply.reasoning for each in spoken if each.reply.reasoning),
        refusal="\n\n".join(each.reply.refusal for each in spoken if each.reply.refusal),
        usage=sum((each.reply.usage for each in spoken[1:]), spoken[0].reply.usage),
        raw=last.raw if len(spoken) == 1 else EMPTY_OBJECT,
        interrupted=interrupted or last.interrupted,
    )


def model_request(messages: Sequence[JsonObject], own: Mapping[str, object], given: TalkInput) -> Request:
    """The request: a preset's options, with the client's winning."""
    chosen: JsonObject = {key: thaw(own[key]) for key in STANDARD_OPTIONS if own.get(key) is not None}
    if any(key in given.options for key in LENGTHS):
        chosen = {key: value for key, value in chosen.items() if key not in LENGTHS}
    model = given.model or str(own.get("model") or "")
    options = freeze_object({**chosen, **given.options})
    return Request(messages=messages, model=model, options=options, dialect=given.dialect)
