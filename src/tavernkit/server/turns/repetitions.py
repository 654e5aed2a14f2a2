"""Repeated requests: what is known about them, and what they left in the chat."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.server.errors import ServiceError
from tavernkit.server.storage import turns
from tavernkit.server.storage.chats import ChatLine, ChatState
from tavernkit.server.storage.turns import TurnState
from tavernkit.server.turns.request import TurnOutcome, TurnRequest

ANSWERED = (turns.DONE, turns.PARTIAL)


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
