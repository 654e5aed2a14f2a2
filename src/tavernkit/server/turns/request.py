"""The request and the outcome of a turn, and what is known about requests that are repeated."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._dataclass import replaced
from tavernkit._values import Json, JsonObject
from tavernkit.server.adapters.turn import TurnKind, TurnResult
from tavernkit.server.errors import ServiceError
from tavernkit.server.keys import Client
from tavernkit.server.storage import turns
from tavernkit.server.storage.chats import ChatState, Selection
from tavernkit.server.storage.lines import ChatLine
from tavernkit.server.storage.tables import new_id
from tavernkit.server.storage.turns import TurnState

ANSWERED = (turns.DONE, turns.PARTIAL)

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
    turn_id: str = field(default_factory=new_id)

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


class BusyError(Exception):
    """Another turn has the chat, or the same request is already running."""


async def known_turn(connection: AsyncConnection, request: TurnRequest) -> TurnState | TurnOutcome | None:
    """Return the turn with the same idempotency key: finished (then its answer), to be retried, or None."""
    if request.idempotency_key is None:
        return None
    turn = await turns.turn_by_key(connection, request.owner, request.idempotency_key)
    if turn is None:
        return None
    if turn.fingerprint != request.fingerprint:
        raise ServiceError(422, "the idempotency key was used for another request", code="idempotency_key_reused")
    if turn.status in ANSWERED:
        return _answer(turn)
    if turn.busy(time.time()):
        raise BusyError
    return turn


async def repeated_lines(
    connection: AsyncConnection,
    request: TurnRequest,
    chat: ChatState,
    lines: Sequence[ChatLine],
    known: TurnState | None,
) -> list[ChatLine] | TurnOutcome:
    """Return the lines that a failed attempt of the same request has left, or the answer they have got since.

    ``known`` is that attempt, if an idempotency key identifies it. Its lines may be anywhere, because the chat may have
    continued.
    """
    if known is None:
        return [lines[-1]] if await _failed_before(connection, request, chat, lines) else []
    if request.kind != "normal" and not request.messages:
        # These are about the last message, which is now another one.
        if known.message_id is not None and known.message_id != last_id(lines):
            raise _moved_on()
        return []
    own = [line for line in lines if line.turn_id == known.id or line.id == known.message_id]
    if not own or lines[-len(own)] is own[0]:
        return own
    if known.message_id is not None:
        latest = await turns.turn_of_message(connection, chat.id, known.message_id)
        if latest is not None and latest.status in ANSWERED:
            return _answer(latest)  # it was repeated without the key
    if any(line.role != "user" for line in own):
        raise _moved_on()  # tool results must follow their calls
    return own


def last_id(lines: Sequence[ChatLine]) -> str | None:
    """Return the id of the last line."""
    return lines[-1].id if lines else None


async def _failed_before(
    connection: AsyncConnection, request: TurnRequest, chat: ChatState, lines: Sequence[ChatLine]
) -> bool:
    """Return True if the chat ends with this request's message, without an answer.

    Clients without idempotency keys also repeat requests.
    """
    if len(request.messages) != 1 or not lines:
        return False
    last, message = lines[-1], request.messages[0]
    if last.role != "user" or message.role != "user" or last.content != message.content:
        return False
    turn = await turns.turn_of_message(connection, chat.id, last.id)
    if turn is None or turn.status != turns.FAILED:
        return False
    # Equal texts may have different pictures.
    return not message.metadata or turn.fingerprint == request.fingerprint


def _answer(turn: TurnState) -> TurnOutcome:
    return TurnOutcome(turn_id=turn.id, response=turn.response, replayed=True)


def _moved_on() -> ServiceError:
    message = "the session has continued since this request failed; send a new request with another key"
    return ServiceError(409, message, code="session_moved_on")
