"""Inputs and results of the platforms' adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from tavernkit import Plan
from tavernkit._dataclass import replaced
from tavernkit._turns import Exchange, OnPiece, ToolOutcome
from tavernkit._values import Json, JsonObject, freeze_object, is_list, is_object, thaw
from tavernkit.cards import DEFAULT_LIMITS, Limits
from tavernkit.dialects._messages import MessageLike
from tavernkit.models import Reply, Request, ServerFields, ToolCall
from tavernkit.models._parameters import LENGTHS, STANDARD_OPTIONS
from tavernkit.models._reply import join_replies
from tavernkit.models._request import with_parts_of_user
from tavernkit.prompt._inputs import LorePlace, Strategy, VolatilePlace
from tavernkit.server.adapters.vectors import Embed
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import Cast, ChatExtras
from tavernkit.server.limits import CONTEXT_LENGTH
from tavernkit.server.storage.lines import PARTIAL, ChatLine, new_line

NEUTRAL = "metadata"
"""A key that only neutral messages have: tool calls, their results, and other messages that only clients send."""
PARTS = "tavernkit_parts"
"""The key of a message's audio and files, in OpenAI's format."""

Hidden: TypeAlias = bool | Literal["all_before"]
OperationKind: TypeAlias = Literal["trigger", "button"]
"""Operations that ask for no reply: RisuAI's manual triggers, and buttons of its Lua scripts."""
TurnKind: TypeAlias = Literal["normal", "regenerate", "swipe", "continue", "impersonate", "quiet"] | OperationKind
OPERATIONS: tuple[OperationKind, ...] = ("trigger", "button")
OUTSIDE_CHAT: frozenset[TurnKind] = frozenset(("impersonate", "quiet"))
"""Turns whose reply goes to the client and not into the chat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caching:
    """Options for prompts that keep a provider's cache; by default prompts are built as on the platform."""

    strategy: Strategy = "reference"
    lore: LorePlace = "reference"
    volatile: VolatilePlace = "reference"
    profile: str = "openai"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """A change of a message: one of these."""

    content: str | None = None
    swipe: int | None = None
    """The swipe to show."""
    removed_swipe: int | None = None
    hidden: Hidden | None = None
    """True if prompts leave the message out; ``all_before``: and everything before it (RisuAI)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInput:
    """The input of a turn: the chat so far (ending with the user's new message), and the options.

    ``pending`` is the id of the line that is being sent; None if the model just continues.
    """

    cast: Cast
    extras: ChatExtras = field(default_factory=ChatExtras)
    chat_id: str
    lines: Sequence[ChatLine]
    unread: int = 0
    """How many lines of the chat are before these."""
    kind: TurnKind = "normal"
    pending: str | None = None
    prompt: str = ""
    """What a quiet turn asks; the name of a trigger or button."""
    quiet: JsonObject = field(default_factory=dict[str, Json])
    """SillyTavern's options of a quiet turn, as inputs of its build."""
    empty: bool = False
    """True if the user has sent an empty message."""
    commands: bool = False
    """True if a message that begins with a slash is a command line."""
    element: str = ""
    """The id of the element whose click runs a trigger."""
    answers: Sequence[str] = ()
    """The user's answers to questions that triggers ask."""
    details: JsonObject = field(default_factory=dict[str, Json])
    local_variables: JsonObject = field(default_factory=dict[str, Json])
    global_variables: JsonObject = field(default_factory=dict[str, Json])
    speaker: str | None = None
    user_name: str = "User"
    options: JsonObject = field(default_factory=dict[str, Json])
    """The client's options for the model: sampling, tools, stop strings."""
    seed: int | None = None
    model: str = ""
    """The model that is asked; if empty, the preset may name one."""
    dialect: str = "openai"
    """The protocol of the server that is asked."""
    context_length: int | None = None
    """Tokens of prompt and reply, if the client sets them; else the preset's, but no more than the model accepts."""
    model_context: int | None = None
    """The model's context size; None if unknown."""

    caching: Caching = field(default_factory=Caching)
    memory: bool = False
    """True if the chat is summarised. SillyTavern's builds use any summary; RisuAI's only if this is set."""
    quirks: Literal["", "reference"] = ""
    """``reference``: as RisuAI, even where it damages a chat."""
    limits: Limits = DEFAULT_LIMITS
    """Limits of the build."""
    embed: Embed | None = None
    """The embedder for Vector Storage, if it is on and an upstream supports it."""
    stored: bool = True
    """True if the chat is stored."""

    def context_size(self, own: int | None) -> int:
        """Return the maximum tokens of prompt and reply; ``own`` is the preset's."""
        if self.context_length is not None:
            return self.context_length
        return min((each for each in (own, self.model_context) if each is not None), default=CONTEXT_LENGTH)

    @property
    def size(self) -> tuple[object, ...]:
        """Return what turns share that take about as long to build."""
        return self.cast.key, len(self.lines).bit_length()

    @property
    def response_length(self) -> int:
        """Return the maximum reply length that the client requests."""
        found = next((value for key in LENGTHS if isinstance(value := self.options.get(key), int)), 0)
        return max(found, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One reply of a turn, its speaker and its line."""

    speaker: str
    reply: Reply
    line_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """The result of a turn: everything that is stored together."""

    name: str
    """Who the user talks with."""
    spoken: Sequence[Spoken]
    """The replies of the turn: in a group there may be several."""
    named: bool
    """True if each reply begins with its speaker's name when they are shown as one."""
    interrupted: str = ""
    """Why the turn ended early."""
    plan: Plan | None
    lines: Sequence[ChatLine]
    details: JsonObject
    variables: Mapping[str, JsonObject]
    """The variables of the chat (``local``) and of all chats (``global``)."""
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    """Warnings for the client."""
    alerts: Sequence[JsonObject] = ()
    """What triggers have shown and asked the user."""

    @property
    def reply(self) -> Reply:
        """Return all replies as one."""
        joined = join_replies([(each.speaker if self.named else "", each.reply) for each in self.spoken])
        return replaced(joined, interrupted=self.interrupted) if self.interrupted else joined

    @property
    def speaker(self) -> str:
        """Return the last speaker."""
        return self.spoken[-1].speaker if self.spoken else self.name

    @property
    def reply_id(self) -> str | None:
        """Return the line of the last reply."""
        return self.spoken[-1].line_id if self.spoken else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPrompt:
    """A prompt without a model call."""

    plan: Plan
    request: Request
    speaker: str
    fields: ServerFields | None = None
    """Options that the upstream accepts."""
    warnings: Sequence[str] = ()


class Ask(Protocol):
    """Sends a request and waits for the reply."""

    async def __call__(
        self, request: Request, /, *, speaker: str | None = None, quiet: bool = False, heard: list[str] | None = None
    ) -> Reply:
        """Send a request.

        Args:
            request: The request.
            speaker: The speaker in a group, who is named to the client.
            quiet: True to hide the reply from the client.
            heard: Receives the pieces of the text, if the reply is streamed.
        """
        ...


class ChangedByFailure(Exception):  # noqa: N818  # the error is in it
    """A turn failed and changed the chat all the same: these are its lines, details and variables now."""

    def __init__(
        self, error: Exception, *, lines: Sequence[ChatLine], details: JsonObject, variables: JsonObject
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.lines = lines
        self.details = details
        self.variables = variables


class PlanMade(Exception):  # noqa: N818  # nothing is wrong
    """Ends a turn of which only the prompt is wanted, once it is made."""

    def __init__(self, plan: Plan) -> None:
        super().__init__("a prompt was made")
        self.plan = plan


async def ask_nobody(
    _request: Request, /, *, speaker: str | None = None, quiet: bool = False, heard: list[str] | None = None
) -> Reply:
    """Raise: prompts are only built, and no model is asked."""
    raise NotImplementedError(speaker, quiet, heard)


class TurnHost:
    """Asks the service's model for a chat. The service itself saves when the turn ends."""

    def __init__(self, given: TurnInput, ask: Ask) -> None:
        self.given = given
        self.exchanges: list[Exchange] = []
        """Replies that are part of the chat."""
        self.notes: list[str] = []
        """Warnings for the client."""
        self._ask = ask

    def request(self, plan: Plan) -> Request:
        """Return the request of a prompt; the client's options override the preset's."""
        raise NotImplementedError(plan)

    def announced(self, plan: Plan) -> str | None:
        """Return the speaker if the client gets the name before the reply."""
        raise NotImplementedError(plan)

    async def ask(self, plan: Plan, *, on_piece: OnPiece | None = None) -> Reply:
        """Ask the model; the reply is streamed to the client."""
        del on_piece
        return await self.ask_for_chat(plan)

    async def ask_for_chat(self, plan: Plan, heard: list[str] | None = None) -> Reply:
        """Ask for a reply that is part of the chat.

        Args:
            plan: The prompt.
            heard: Receives the pieces of the text, if the reply is streamed.
        """
        if self._ask is ask_nobody:
            raise PlanMade(plan)
        reply = await self._ask(self.request(plan), speaker=self.announced(plan), heard=heard)
        self.exchanges.append(Exchange(plan=plan, reply=reply))
        return reply

    async def checkpoint(self) -> None:
        """Do nothing: the user's message is already stored."""

    async def call_tool(self, call: ToolCall) -> ToolOutcome:
        """Refuse: clients run their tools themselves."""
        raise NotImplementedError(call.name)


def neutral_line(role: str, content: str, metadata: JsonObject) -> ChatLine:
    """Return a line with tool calls, a tool result, or another message that only clients send."""
    return new_line(role, content, {"role": role, "content": content, NEUTRAL: metadata})


def calling_line(reply: Reply, text: str) -> ChatLine:
    """Return a reply with tool calls; ``text`` is its text."""
    line = neutral_line("assistant", text, {"tool_calls": [call.to_dict() for call in reply.tool_calls]})
    return replaced(line, status=PARTIAL) if reply.interrupted else line


def is_command(given: TurnInput) -> bool:
    """Return True if the user has typed a command."""
    sent = given.lines[-1] if given.lines else None
    return given.commands and sent is not None and sent.id == given.pending and sent.content.lstrip().startswith("/")


def refuse_without_reply(given: TurnInput, *kinds: TurnKind) -> None:
    """Refuse turns of these kinds if the chat does not end with a reply (and with what is being sent)."""
    lines = [line for line in given.lines[-2:] if line.id != given.pending]
    if given.kind in kinds and (not lines or lines[-1].role != "assistant" or NEUTRAL in lines[-1].native):
        raise ServiceError(409, f"there is no reply to {given.kind}", code="no_reply")


def model_request(messages: Sequence[MessageLike], own: Mapping[str, object], given: TurnInput) -> Request:
    """Return the request; the client's options override the preset's."""
    chosen: JsonObject = {key: thaw(own[key]) for key in STANDARD_OPTIONS if own.get(key) is not None}
    if any(key in given.options for key in LENGTHS):
        chosen = {key: value for key, value in chosen.items() if key not in LENGTHS}
    model = given.model or str(own.get("model") or "")
    options = freeze_object({**chosen, **given.options})
    return with_parts(Request(messages=messages, model=model, options=options, dialect=given.dialect), given)


def with_parts(request: Request, given: TurnInput) -> Request:
    """Return the request with the audio and files of the user's last message."""
    said = next((line for line in reversed(given.lines) if line.role == "user"), None)
    extra = said.native.get("extra") if said is not None else None
    parts = extra.get(PARTS) if is_object(extra) else said.native.get(PARTS) if said is not None else None
    return with_parts_of_user(request, parts) if is_list(parts) and parts else request
