"""Requests and answers of the REST API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from tavernkit._values import is_object, is_sequence
from tavernkit.server.api.openai_types import PASSED_ON, ChatMessageIn, Id, ItemId, TavernKitOptions
from tavernkit.server.limits import MAX_BOOKS, MAX_MESSAGES, MAX_NAME_CHARACTERS
from tavernkit.server.models import Model
from tavernkit.server.storage.chats import ChatLine, ChatState
from tavernkit.server.storage.columns import storable
from tavernkit.server.storage.items import ItemInfo
from tavernkit.server.swipes import RISU_SPEAKER, swipes_of

Text = Annotated[str, AfterValidator(storable)]
"""Text that every database can hold."""


def _known(options: dict[str, JsonValue]) -> dict[str, JsonValue]:
    unknown = sorted(set(options) - set(PASSED_ON))
    if unknown:
        raise ValueError(f"the option {unknown[0]!r} is not known")
    return {name: value for name, value in options.items() if value is not None}


ModelOptions = Annotated[dict[Text, JsonValue], AfterValidator(_known)]
"""Options that go to the model as they are, such as ``temperature``."""
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS), AfterValidator(storable)]


class ItemOut(BaseModel):
    """An item of the library."""

    kind: str
    id: str
    name: str
    platform: str
    version: int
    filename: str
    created_at: float
    updated_at: float
    warnings: list[str] = []

    @classmethod
    def of(cls, info: ItemInfo, warnings: list[str] | None = None) -> ItemOut:
        """Show an item."""
        fields = {name: getattr(info, name) for name in cls.model_fields if name != "warnings"}
        return cls(**fields, warnings=warnings or [])


class ItemPage(BaseModel):
    """A page of items; ``next`` is the ``after`` of the next one."""

    data: list[ItemOut]
    next: str | None = None


class ModelOut(BaseModel):
    """A character or group, alone or with a preset; ``id`` is what requests name as their ``model``."""

    id: str
    name: str
    character: str | None
    group: str | None
    preset: str | None

    @classmethod
    def of(cls, model: Model) -> ModelOut:
        """Show a model."""
        item = model.item
        of_group = item.kind == "group"
        return cls(
            id=model.id,
            name=item.name,
            character=None if of_group else item.id,
            group=item.id if of_group else None,
            preset=model.preset,
        )


class ModelPage(BaseModel):
    """A page of models; ``next`` is the ``after`` of the next one."""

    data: list[ModelOut]
    next: str | None = None


class ItemContent(ItemOut):
    """An item with what it holds, in the platform's own JSON."""

    content: Any


class PersonaIn(BaseModel):
    """Who the user is."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    description: Text = Field(default="", max_length=100_000)
    position: int | Literal["in_prompt", "top_an", "bottom_an", "at_depth", "none"] = Field(default="in_prompt")
    depth: int = Field(default=2, ge=0, le=10_000)
    role: int = Field(default=0, ge=0, le=2)
    books: list[ItemId] = Field(default_factory=list, max_length=MAX_BOOKS)


class GroupIn(BaseModel):
    """A group: SillyTavern's own keys; members are ids of characters."""

    model_config = ConfigDict(extra="allow")

    name: Name
    members: list[ItemId] = Field(min_length=1, max_length=100)
    disabled_members: list[ItemId] = Field(default_factory=list, max_length=100)
    activation_strategy: int = Field(default=0, ge=0, le=3)
    generation_mode: int = Field(default=0, ge=0, le=2)
    allow_self_responses: bool = False


class SessionIn(BaseModel):
    """A new session. ``session`` is the id clients send as ``X-Tavern-Session``; one is made if there is none."""

    model_config = ConfigDict(extra="forbid")

    model: Id
    session: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(storable)] | None = None
    tavernkit: TavernKitOptions = Field(default_factory=TavernKitOptions)
    greeting: int | None = Field(default=0, ge=0, le=1000)
    """Which greeting it begins with; null for none."""


class SessionPatch(BaseModel):
    """Changes of a session; what is not given stays, and null takes away what was chosen or set."""

    model_config = ConfigDict(extra="forbid")

    persona: ItemId | None = None
    preset: ItemId | None = None
    books: list[ItemId] | None = Field(default=None, max_length=MAX_BOOKS)
    variables: dict[Text, JsonValue] | None = None
    details: dict[Text, JsonValue] | None = None
    """SillyTavern's chat metadata: author's note, overrides, timed effects."""
    strategy: Literal["reference", "cache"] | None = None
    lore: Literal["reference", "freeze"] | None = None
    volatile: Literal["reference", "tail"] | None = None
    memory: bool | None = None


class SessionOut(BaseModel):
    """A session."""

    id: str
    session: str
    platform: str
    character: str | None
    group: str | None
    persona: str | None
    preset: str | None
    books: list[str]
    details: dict[str, Any]
    variables: dict[str, Any]
    options: dict[str, Any]
    """How its prompts are kept stable, and whether it has a memory."""
    busy: bool
    version: int
    created_at: float
    updated_at: float

    @classmethod
    def of(cls, chat: ChatState, now: float) -> SessionOut:
        """Show a chat."""
        chosen = chat.selection
        local = chat.variables.get("local")
        return cls(
            id=chat.id,
            session=chat.external_id,
            platform=chosen.platform,
            character=chosen.character,
            group=chosen.group,
            persona=chosen.persona,
            preset=chosen.preset,
            books=list(chosen.books),
            details=chat.details,
            variables=local if isinstance(local, dict) else {},
            options=chat.options,
            busy=chat.busy(now),
            version=chat.version,
            created_at=chat.created_at,
            updated_at=chat.updated_at,
        )


class SessionPage(BaseModel):
    """A page of sessions; ``next`` is the ``before`` of the next one."""

    data: list[SessionOut]
    next: str | None = None


class MessageOut(BaseModel):
    """A message of a session."""

    id: str
    role: str
    content: str
    status: str
    swipes: list[str] | None
    swipe: int | None
    name: str | None
    hidden: bool = False
    """Whether prompts leave it out."""
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    created_at: float
    updated_at: float

    @classmethod
    def of(cls, line: ChatLine) -> MessageOut:
        """Show a line."""
        metadata = line.native.get("metadata")
        metadata = metadata if is_object(metadata) else {}
        calls, call_id = metadata.get("tool_calls"), metadata.get("tool_call_id")
        swipes, name = swipes_of(line.native), line.native.get("name") or line.native.get(RISU_SPEAKER)
        return cls(
            id=line.id,
            role=line.role,
            content=line.content,
            status=line.status,
            swipes=swipes[0] if swipes is not None else None,
            swipe=swipes[1] if swipes is not None else None,
            name=name if isinstance(name, str) else None,
            hidden=bool(line.native.get("is_system") or line.native.get("disabled")),
            tool_calls=[call for call in calls if is_object(call)] if is_sequence(calls) else None,
            tool_call_id=call_id if isinstance(call_id, str) else None,
            created_at=line.created_at,
            updated_at=line.updated_at,
        )


class MessageList(BaseModel):
    """The messages of a session, oldest first; ``next`` is the ``before`` of those that come before them."""

    data: list[MessageOut]
    next: int | None = None


class MessageIn(BaseModel):
    """What the user says."""

    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, Field(min_length=1), AfterValidator(storable)]
    speaker: Text | None = Field(default=None, max_length=200)
    options: ModelOptions = Field(default_factory=dict)
    explain: bool = False
    stream: bool = False
    """True if the answer comes as server-sent events."""


class TurnIn(BaseModel):
    """A turn without a new message."""

    model_config = ConfigDict(extra="forbid")

    speaker: Text | None = Field(default=None, max_length=200)
    options: ModelOptions = Field(default_factory=dict)
    explain: bool = False
    stream: bool = False


class QuietIn(TurnIn):
    """A question beside the chat."""

    prompt: Annotated[str, Field(min_length=1), AfterValidator(storable)]


class SpokenOut(BaseModel):
    """One of several replies of a turn."""

    speaker: str
    text: str
    reasoning: str
    message_id: str | None


class TurnOut(BaseModel):
    """What a turn came to; where several spoke, ``text`` is all of it and ``replies`` has each."""

    id: str
    status: str
    text: str
    reasoning: str
    tool_calls: list[Any]
    finish_reason: str | None
    usage: dict[str, Any] | None
    speaker: str
    message_id: str | None
    replies: list[SpokenOut] = []
    broken: str | None = None
    warnings: list[str] = []
    replayed: bool
    explanation: dict[str, Any] | None = None


class MessagePatch(BaseModel):
    """An edited message: what is not given stays."""

    model_config = ConfigDict(extra="forbid")

    content: Text | None = None
    hidden: bool | None = None
    """Whether prompts leave it out."""


class SwipeIn(BaseModel):
    """The reply to show."""

    model_config = ConfigDict(extra="forbid")

    swipe: int = Field(ge=0, le=100_000)


class BranchIn(BaseModel):
    """A branch: the new session has everything up to a message."""

    model_config = ConfigDict(extra="forbid")

    message_id: Id
    session: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(storable)] | None = None


class BuildIn(BaseModel):
    """A prompt to build: for a session, or for messages of one's own."""

    model_config = ConfigDict(extra="forbid")

    model: Id | None = None
    session_id: Id | None = None
    messages: list[ChatMessageIn] = Field(default_factory=list, max_length=MAX_MESSAGES)
    kind: Literal["normal", "regenerate", "swipe", "continue", "impersonate"] = "normal"
    options: ModelOptions = Field(default_factory=dict)
    tavernkit: TavernKitOptions = Field(default_factory=TavernKitOptions)


class BuildOut(BaseModel):
    """A prompt: what would be sent, its pieces, and why each is there."""

    request: dict[str, Any]
    payload: Any
    plan: dict[str, Any]
    explanation: dict[str, Any]
    fingerprint: str
    speaker: str
    warnings: list[str] = []


class KeyIn(BaseModel):
    """A new API key."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    scopes: list[Literal["chat", "read", "write", "admin"]] = Field(min_length=1, max_length=4)
    rate_limit: int | None = Field(default=None, ge=1, le=1_000_000)
    daily_tokens: int | None = Field(default=None, ge=1, lt=2**62)
    daily_cost: float | None = Field(default=None, gt=0, lt=1e12)


class KeyPatch(BaseModel):
    """Changes of a key; what is not given stays, and null takes a limit away."""

    model_config = ConfigDict(extra="forbid")

    name: Name = ""
    rate_limit: int | None = Field(default=None, ge=1, le=1_000_000)
    daily_tokens: int | None = Field(default=None, ge=1, lt=2**62)
    daily_cost: float | None = Field(default=None, gt=0, lt=1e12)


class UsageOut(BaseModel):
    """What was used; what a report is not divided by is left out of its rows."""

    key: str | None = None
    key_name: str | None = None
    day: str | None = None
    character: str | None = None
    upstream: str | None = None
    model: str | None = None
    requests: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    predicted_tokens: int
    cost: float


class UsageReport(BaseModel):
    """A report about usage."""

    first: str
    last: str
    data: list[UsageOut]


class KeyOut(BaseModel):
    """An API key without its secret."""

    id: str
    name: str
    scopes: list[str]
    rate_limit: int | None
    daily_tokens: int | None
    daily_cost: float | None
    created_at: float
    revoked_at: float | None


class NewKeyOut(KeyOut):
    """A new API key; ``key`` is shown this once."""

    key: str


class UpstreamKeyIn(BaseModel):
    """The key of an upstream."""

    model_config = ConfigDict(extra="forbid")

    api_key: str = Field(min_length=1, max_length=4096, pattern=r"^[\x21-\x7e]+$")


class UpstreamOut(BaseModel):
    """A model server."""

    name: str
    dialect: str
    model: str | None
    available: bool


class JobOut(BaseModel):
    """An import."""

    id: str
    kind: str
    status: str
    total: int
    done: int
    result: dict[str, Any]
    created_at: float
    updated_at: float
