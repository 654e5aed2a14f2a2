"""What processes that died during a turn have left: the text so far becomes part of the chat."""

from __future__ import annotations

import time

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._dataclass import replaced
from tavernkit.server.adapters.registry import Adapters
from tavernkit.server.adapters.swipes import with_new_swipe
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import Library
from tavernkit.server.sessions.changes import with_content
from tavernkit.server.storage import turns
from tavernkit.server.storage.chats import ChatState
from tavernkit.server.storage.lines import PARTIAL, ChatLine, insert_lines, remove_lines, store_lines
from tavernkit.server.turns.request import TurnRequest


class Recovery:
    """Stores the partial replies of dead processes."""

    def __init__(self, library: Library, adapters: Adapters) -> None:
        self._library = library
        self._adapters = adapters

    async def recover(
        self, connection: AsyncConnection, chat: ChatState, lines: list[ChatLine], request: TurnRequest | None = None
    ) -> tuple[ChatState, list[ChatLine]]:
        """Return the chat with the partial replies of its dead turn, unless the same request is repeated.

        For ``swipe`` and ``regenerate`` it becomes a swipe of the last reply, so that nothing is lost.
        """
        assert chat.turn_id is not None
        kind, said = await turns.text_of_dead_turn(connection, chat.turn_id)
        if not said or not lines:
            return chat, lines
        if kind != "normal":
            return chat, await _with_partial(connection, chat, lines, kind, str(said[-1]["text"]))
        repeated = request is not None and [lines[-1].content] == [each.content for each in request.messages]
        if repeated or lines[-1].role == "assistant":
            return chat, lines
        try:
            cast = await self._library.cast(connection, chat.selection)
        except ServiceError:
            return chat, lines  # the speaker was removed
        made = [self._adapters.partial_line(each, cast) for each in said]
        placed = [
            replaced(line, position=chat.next_position + at, turn_id=chat.turn_id) for at, line in enumerate(made)
        ]
        await insert_lines(connection, chat.id, placed, now=time.time(), turn_id=chat.turn_id)
        return replaced(chat, next_position=chat.next_position + len(placed)), [*lines, *placed]


async def _with_partial(
    connection: AsyncConnection, chat: ChatState, lines: list[ChatLine], kind: str, text: str
) -> list[ChatLine]:
    """Return the chat with the last reply as a dead process left it."""
    last = lines[-1]
    if "metadata" in last.native or (last.role != "assistant" and kind != "continue"):
        return lines
    if kind == "continue":
        changed = with_content(chat, last, last.native, f"{last.content}{text}")
    else:
        changed = with_content(chat, last, with_new_swipe(last.native, last.content, text), text)
    changed = replaced(changed, status=PARTIAL)
    await store_lines(connection, chat.id, [last], [changed])
    return [*lines[:-1], changed]


async def without_recovered(
    connection: AsyncConnection, chat: ChatState, lines: list[ChatLine], turn_id: str
) -> list[ChatLine]:
    """Return the chat without the partial reply of a repeated request, which is answered again."""
    gone = [line for line in lines if line.turn_id == turn_id and line.role == "assistant" and line.status == PARTIAL]
    for line in gone:
        await remove_lines(connection, chat.id, line, following=False)
    return [line for line in lines if line not in gone] if gone else lines
