"""The request and the outcome of a turn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from tavernkit._dataclass import replaced
from tavernkit._values import Json, JsonObject
from tavernkit.server.access.keys import Client
from tavernkit.server.adapters.turn import TurnKind, TurnResult
from tavernkit.server.errors import ServiceError
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import Selection

_ENCODER = json.JSONEncoder(sort_keys=True, default=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """What a client adds to a chat: a user's text, or the result of a tool."""

    role: str
    content: str
    metadata: JsonObject = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """A client's request for one turn.

    A turn without ``session`` stores only its answer; ``session`` is the client's id of a chat (which is created if it
    is new), unless ``chat_id`` is set.
    """

    owner: str
    selection: Selection
    messages: Sequence[NewMessage] = ()
    session: str | None = None
    chat_id: str | None = None
    platform: str | None = None
    """The platform that the client chooses, if any: a stored chat has its own."""
    kind: TurnKind = "normal"
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
    idempotency_key: str | None = None
    speaker: str | None = None
    options: JsonObject = field(default_factory=dict[str, Json])
    upstream: str | None = None
    dialect: str | None = None
    seed: int | None = None
    context_length: int | None = None
    kept: JsonObject = field(default_factory=dict[str, Json])
    """Options that a session stores, such as those for stable prompts."""
    payer: Client | None = None
    """Whose budget the turn uses; without one it counts for the owner, who has no budget."""
    turn_id: str = field(default_factory=chats.new_id)

    @property
    def fingerprint(self) -> str:
        """Return a hash that distinguishes this request from another with the same key."""
        shown = [
            self.session or self.chat_id,
            self.kind,
            self.speaker,
            [(each.role, each.content, each.metadata) for each in self.messages],
            self.options,
            repr(self.selection),
            [self.upstream, self.dialect, self.seed, self.context_length, *([self.kept] if self.kept else [])],
            *([self.prompt] if self.prompt else []),
            *([[self.element, *self.answers]] if self.element or self.answers else []),
            *([self.quiet] if self.quiet else []),
            *(["empty"] if self.empty else []),
            *(["commands"] if self.commands else []),
        ]
        text = _ENCODER.encode(shown)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutcome:
    """The outcome of a turn; ``replayed`` if it is a stored answer."""

    turn_id: str
    response: JsonObject
    result: TurnResult | None = None
    replayed: bool = False


def merged_selection(stored: Selection, request: TurnRequest) -> Selection:
    """Return the session's selection with the client's changes; character and platform stay."""
    asked = request.selection
    if request.chat_id is None and (asked.character, asked.group) != (stored.character, stored.group):
        name = stored.character or stored.group
        raise ServiceError(409, f"the session is one with {name!r}", code="session_mismatch", param="model")
    if request.platform not in (None, stored.platform):
        message = f"the session belongs to the platform {stored.platform}, not {request.platform}"
        raise ServiceError(409, message, code="session_mismatch", param="tavernkit.platform")
    return replaced(
        stored,
        persona=asked.persona or stored.persona,
        preset=asked.preset or stored.preset,
        books=asked.books or stored.books,
    )
