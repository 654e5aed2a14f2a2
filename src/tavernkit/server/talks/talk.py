"""What every platform's way of talking is given and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias

from tavernkit import Plan
from tavernkit._values import EMPTY_OBJECT, Json, JsonObject, freeze_object, is_list, is_object, thaw
from tavernkit.cards import DEFAULT_LIMITS, Limits
from tavernkit.dialects._messages import MessageLike
from tavernkit.models import Reply, Request, ServerFields
from tavernkit.models._parameters import LENGTHS, STANDARD_OPTIONS
from tavernkit.prompt._message import Message
from tavernkit.server.library import Cast, ChatExtras
from tavernkit.server.limits import CONTEXT_LENGTH
from tavernkit.server.storage.chats import ChatLine
from tavernkit.server.vectors import Embed

PARTS = "tavernkit_parts"
"""Where the sounds and files of a message are kept in it, as OpenAI's API has them."""

TurnKind: TypeAlias = Literal["normal", "regenerate", "swipe", "continue", "impersonate", "quiet"]
BESIDE: frozenset[TurnKind] = frozenset(("impersonate", "quiet"))
"""Turns whose reply goes to the client and not into the chat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caching:
    """How prompts are kept stable, so that a provider's cache knows them; by default as the platform makes them."""

    strategy: str = "reference"
    lore: str = "reference"
    volatile: str = "reference"
    profile: str = "openai"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """What a user changes of a message: one of these."""

    content: str | None = None
    swipe: int | None = None
    """The swipe to show."""
    removed_swipe: int | None = None
    hidden: bool | None = None
    """Whether prompts leave the message out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkInput:
    """One turn: the chat so far (with what the user just said as its last lines), and what is asked for.

    ``pending`` is the id of the line that is being sent; None when the model just continues.
    """

    cast: Cast
    extras: ChatExtras = field(default_factory=ChatExtras)
    chat_id: str
    lines: Sequence[ChatLine]
    unread: int = 0
    """How many lines of the chat come before these."""
    kind: TurnKind = "normal"
    pending: str | None = None
    prompt: str = ""
    """What a quiet turn asks."""
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
    context_length: int | None = None
    """Tokens of prompt and reply, if the client says; else the preset's, but no more than the model takes."""
    model_context: int | None = None
    """What the model takes; None if unknown."""

    caching: Caching = field(default_factory=Caching)
    memory: bool = False
    """True if the chat is summarised. SillyTavern's builds use any summary; RisuAI's only if this is set."""
    limits: Limits = DEFAULT_LIMITS
    """What the build may do."""
    embed: Embed | None = None
    """Makes vectors for Vector Storage, if it is on and an upstream does."""
    stored: bool = True
    """True if the chat is kept."""

    def context_size(self, own: int | None) -> int:
        """How many tokens prompt and reply may have, if the preset says ``own``."""
        known = self.model_context
        if self.context_length is not None:
            return self.context_length
        if own is None:
            return known or CONTEXT_LENGTH
        return own if known is None else min(own, known)

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
    """What the client gets besides."""


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
    """Sends a request and waits for the reply."""

    async def __call__(self, request: Request, /, *, speaker: str | None = None, quiet: bool = False) -> Reply:
        """Send a request.

        Args:
            request: The request.
            speaker: Who answers, where several do; the client learns it.
            quiet: Whether the reply is none of the client's business.
        """
        ...


async def ask_nobody(_request: Request, /, *, speaker: str | None = None, quiet: bool = False) -> Reply:
    """Stands in where a prompt is only built."""
    raise NotImplementedError(speaker, quiet)


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
    return with_parts(Request(messages=messages, model=model, options=options, dialect=given.dialect), given)


def with_parts(request: Request, given: TalkInput) -> Request:
    """The request with the sounds and files that the user's last message came with."""
    said = next((line for line in reversed(given.lines) if line.role == "user"), None)
    extra = said.native.get("extra") if said is not None else None
    parts = extra.get(PARTS) if is_object(extra) else said.native.get(PARTS) if said is not None else None
    messages = list(request.messages or ())
    at = next((at for at in reversed(range(len(messages))) if _role(messages[at]) == "user"), None)
    if not is_list(parts) or not parts or at is None:
        return request
    last = messages[at]
    if isinstance(last, Message):
        messages[at] = last.replace(attachments=(*(last.attachments or ()), *parts))
    else:
        content = thaw(last.get("content"))
        listed = content if is_list(content) else [{"type": "text", "text": content}]
        messages[at] = {**last, "content": [*listed, *parts]}
    return request.replace(messages=messages)


def _role(message: MessageLike) -> object:
    return message.role if isinstance(message, Message) else message.get("role")
