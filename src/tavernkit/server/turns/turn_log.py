"""The database side of turns: leases of chats, and what is written when."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import Plan
from tavernkit._dataclass import replaced
from tavernkit._values import Json, JsonObject
from tavernkit.server.accounts import Accounts, UpstreamExchange, Use, uses_of
from tavernkit.server.adapters.registry import Adapters, pending_line
from tavernkit.server.adapters.turn import ChangedByFailure, TurnInput, TurnResult
from tavernkit.server.config import ServerConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import Cast, Library, UnparsedError
from tavernkit.server.library.models import GROUP_PREFIX
from tavernkit.server.limits import MAX_SESSION_MESSAGES
from tavernkit.server.sessions.changes import KnownLines, SessionChanges
from tavernkit.server.storage import chats, turns
from tavernkit.server.storage.chats import ChatState, Selection
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.lines import (
    ChatLine,
    insert_lines,
    move_lines,
    place_lines,
    store_lines,
    too_long,
)
from tavernkit.server.turns.recovery import Recovery, without_recovered
from tavernkit.server.turns.request import (
    BusyError,
    TurnOutcome,
    TurnRequest,
    known_turn,
    last_id,
    merged_selection,
    repeated_lines,
)
from tavernkit.server.upstreams.listeners import Listener

logger = logging.getLogger("tavernkit.server")

POLL_SECONDS = 0.05
INTERRUPTED = "interrupted"


@dataclass(slots=True, kw_only=True)
class OpenTurn:
    """A running turn."""

    turn_id: str
    chat: ChatState | None
    lines: list[ChatLine]
    pending: str | None
    selection: Selection
    cast: Cast
    global_variables: JsonObject
    stored: bool = True
    """True if it has a row in the database."""
    unread: int = 0
    """How many lines of the chat are before those that are read."""
    options: JsonObject = field(default_factory=dict[str, Json])
    """Options of the session or the request."""
    payer: str = ""
    """The owner whose usage is counted."""
    exchanged: list[UpstreamExchange] = field(default_factory=list[UpstreamExchange])
    """Requests to models and their replies."""
    notes: list[str] = field(default_factory=list[str])
    """Warnings for the client."""

    def uses(self, plan: Plan | None = None) -> list[Use]:
        """Return the usage of the turn."""
        chosen = self.selection
        character = chosen.character or (f"{GROUP_PREFIX}{chosen.group}" if chosen.group else "")
        return uses_of(self.exchanged, character, plan)

    @property
    def warnings(self) -> list[str]:
        """Return the warnings for the client."""
        if not self.unread:
            return self.notes
        return [
            f"the session is long: its first {self.unread} messages are no longer read for prompts",
            *self.notes,
        ]


class Heartbeat:
    """Work that starts after a delay, unless cancelled before: most turns are short and need no task."""

    def __init__(self, seconds: float, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Schedule the work.

        Args:
            seconds: The delay.
            work: The work to start.
        """
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def cancel(self) -> None:
        """Stop the work, or do not start it."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._work())


class TurnLog:
    """Opens and ends turns in the database: one turn per chat at a time, across all processes."""

    def __init__(
        self, config: ServerConfig, database: Database, library: Library, adapters: Adapters, accounts: Accounts
    ) -> None:
        self._config = config
        self._accounts = accounts
        self._database = database
        self._library = library
        self._adapters = adapters
        self._known = KnownLines()
        self._recovery = Recovery(library, adapters)
        self.sessions = SessionChanges(config, library, adapters, self._known)

    async def open(self, request: TurnRequest) -> OpenTurn | TurnOutcome:
        """Store the user's message and lock the chat, or return the answer of a repeated request.

        Waits while another turn has the chat.
        """
        deadline = time.monotonic() + self._config.busy_seconds
        prepared = False
        while True:
            try:
                return await self._open_once(request, parse=prepared)
            except UnparsedError as error:
                await self._library.prepare(self._database, error.selection)
                prepared = True  # more items than the cache keeps would never all be there
                continue
            except (BusyError, IntegrityError) as error:
                # An integrity error: another process has just created the same chat or turn.
                if time.monotonic() >= deadline:
                    raise ServiceError(
                        409, "another turn of this session is running", code="session_busy", retry_after=1
                    ) from error
            await asyncio.sleep(POLL_SECONDS * (1 + random.random()))

    async def _open_once(self, request: TurnRequest, *, parse: bool) -> OpenTurn | TurnOutcome:
        if request.session is None and request.chat_id is None:
            return await self._open_stateless(request)
        async with self._database.write(together=True) as connection:
            chat = await self._chat(connection, request, parse=parse)
            known = await known_turn(connection, request)
            if isinstance(known, TurnOutcome):
                return known
            now = time.time()
            if chat.busy(now):
                raise BusyError
            chosen = merged_selection(chat.selection, request)
            lines, unread = await self._known.read(connection, chat)
            if known is not None:
                lines = await without_recovered(connection, chat, lines, known.id)
            if (dead := chat.turn_id) is not None:
                if known is None or known.id != dead:
                    chat, lines = await self._recovery.recover(connection, chat, lines, request)
                await turns.fail_turn(connection, dead, INTERRUPTED)
            own = await repeated_lines(connection, request, chat, lines, known)
            if isinstance(own, TurnOutcome):
                return own
            await self._accounts.check(connection, request.payer)
            turn_id = known.id if known is not None else request.turn_id
            cast = await self._library.cast(connection, chosen, parse=parse)
            shared = await turns.read_globals(connection, request.owner, chosen.platform)
            new = 0 if own else len(request.messages)
            if new and unread + len(lines) + new > MAX_SESSION_MESSAGES:
                raise too_long()
            lines, added = await self._with_own_lines(connection, request, chat, lines, own, cast, turn_id)
            pending = pending_line(own or lines[len(lines) - added :])
            lease = now + self._config.lease_seconds
            chat = replaced(chat, turn_id=turn_id, lease_until=lease, next_position=chat.next_position + added)
            changes: dict[str, object] = {"turn_id": turn_id, "lease_until": lease}
            options = {**chat.options, **request.kept}
            if options != chat.options:
                changes["options"] = options
            if chosen != chat.selection:
                changes |= {"persona": chosen.persona, "preset": chosen.preset, "books": list(chosen.books)}
            await chats.update_chat(connection, chat, next_position=chat.next_position, **changes)
            about = last_id(lines) if request.kind in ("regenerate", "swipe", "continue") else pending
            await self._store_turn(connection, request, turn_id, chat.id, about, lease, again=known is not None)
        chat = replaced(chat, version=chat.version + 1)
        self._known.remember(chat, lines, unread)
        return OpenTurn(
            turn_id=turn_id,
            chat=chat,
            lines=lines,
            pending=pending,
            selection=chosen,
            cast=cast,
            global_variables=shared,
            unread=unread,
            options=options,
            payer=_payer(request),
        )

    async def store_text_so_far(self, opened: OpenTurn, said: list[JsonObject]) -> None:
        """Store the text so far of a running turn; if that fails, the turn continues."""
        try:
            async with self._database.write(together=True) as connection:
                await turns.store_text_so_far(connection, opened.turn_id, said)
        except Exception:
            logger.warning("the text of a turn could not be stored", exc_info=True)

    async def recover(self, chat_id: str) -> None:
        """Store the text of a dead process in its chat, unless already done."""
        async with self._database.write(together=True) as connection:
            chat = await chats.get_chat(connection, chat_id, lock=True)
            if chat.turn_id is None or chat.busy(time.time()):
                return
            lines, unread = await self._known.read(connection, chat)
            turn_id = chat.turn_id
            chat, lines = await self._recovery.recover(connection, chat, lines)
            await turns.fail_turn(connection, turn_id, INTERRUPTED)
            await chats.update_chat(connection, chat, turn_id=None, lease_until=0.0, next_position=chat.next_position)
        self._known.remember(replaced(chat, turn_id=None, version=chat.version + 1), lines, unread)

    async def _with_own_lines(
        self,
        connection: AsyncConnection,
        request: TurnRequest,
        chat: ChatState,
        lines: list[ChatLine],
        own: list[ChatLine],
        cast: Cast,
        turn_id: str,
    ) -> tuple[list[ChatLine], int]:
        """Return the chat with the client's messages at the end, and how many lines got new positions."""
        if own and lines[-len(own)] is own[0]:
            return lines, 0
        said = own or self._adapters.new_lines(request.messages, cast, self._config.user_name)
        placed = [replaced(line, position=chat.next_position + at, turn_id=turn_id) for at, line in enumerate(said)]
        if own:  # sent before, but the chat continued without an answer: it moves to the end
            await move_lines(connection, placed)
            moved = {line.id for line in own}
            return [*(line for line in lines if line.id not in moved), *placed], len(placed)
        await insert_lines(connection, chat.id, placed, now=time.time(), turn_id=turn_id)
        return [*lines, *placed], len(placed)

    async def _open_stateless(self, request: TurnRequest) -> OpenTurn | TurnOutcome:
        turn_id = request.turn_id
        async with self._database.read() as connection:
            if request.idempotency_key is None:
                await self._accounts.check(connection, request.payer)
            cast = await self._library.cast(connection, request.selection)
        lines = self._adapters.new_lines(request.messages, cast, self._config.user_name)
        if request.idempotency_key is not None:
            async with self._database.write(together=True) as connection:
                known = await known_turn(connection, request)
                if isinstance(known, TurnOutcome):
                    return known
                await self._accounts.check(connection, request.payer)
                turn_id = known.id if known is not None else turn_id
                lease = time.time() + self._config.lease_seconds
                await self._store_turn(connection, request, turn_id, None, None, lease, again=known is not None)
        return OpenTurn(
            turn_id=turn_id,
            chat=None,
            lines=lines,
            pending=pending_line(lines),
            selection=request.selection,
            cast=cast,
            global_variables={},
            stored=request.idempotency_key is not None,
            options=request.kept,
            payer=_payer(request),
        )

    async def _store_turn(
        self,
        connection: AsyncConnection,
        request: TurnRequest,
        turn_id: str,
        chat_id: str | None,
        message_id: str | None,
        lease: float,
        *,
        again: bool,
    ) -> None:
        if again:
            changes = {"status": turns.RUNNING, "lease_until": lease, "error": None, "message_id": message_id}
            await turns.update_turn(connection, turn_id, **changes)
            return
        await turns.begin_turn(
            connection,
            turn_id,
            owner=request.owner,
            session_id=chat_id,
            idempotency_key=request.idempotency_key,
            fingerprint=request.fingerprint,
            kind=request.kind,
            lease_until=lease,
            message_id=message_id,
        )

    async def _chat(self, connection: AsyncConnection, request: TurnRequest, *, parse: bool) -> ChatState:
        if request.chat_id is not None:
            return await chats.get_chat(connection, request.chat_id, owner=request.owner, lock=True)
        assert request.session is not None
        found = await chats.find_chat(connection, request.owner, request.session, lock=True)
        if found is not None:
            return found
        return await self.sessions.new_chat(
            connection, request.owner, request.session, request.selection, options=request.kept, parse=parse
        )

    async def finish(self, opened: OpenTurn, given: TurnInput, result: TurnResult, response: JsonObject) -> None:
        """Store the reply and all other changes of the turn together, and release the chat."""
        status = turns.PARTIAL if result.reply.interrupted else turns.DONE
        uses = opened.uses(result.plan)
        if opened.chat is None:
            async with self._database.write(together=True) as connection:
                if opened.stored:
                    await turns.update_turn(connection, opened.turn_id, status=status, response=response)
                await self._accounts.add(connection, opened.payer, uses)
            return
        chat = opened.chat
        async with self._database.write(together=True) as connection:
            changes = {"details": result.details, "variables": {"local": result.variables.get("local", {})}}
            placed, position = place_lines(chat, opened.lines, result.lines)
            if not await chats.end_turn(connection, chat, next_position=position, **changes):
                await chats.get_chat(connection, chat.id)  # raises if it was removed
                raise ServiceError(409, "the turn took too long, and another one took over", code="turn_lost")
            await store_lines(connection, chat.id, opened.lines, placed, opened.turn_id)
            await turns.write_globals(
                connection,
                chat.owner,
                chat.selection.platform,
                given.global_variables,
                result.variables.get("global", {}),
            )
            await turns.update_turn(
                connection, opened.turn_id, status=status, response=response, reply_id=result.reply_id
            )
            await self._accounts.add(connection, opened.payer, uses)
        self._known.remember(replaced(chat, version=chat.version + 1), placed, opened.unread)

    async def give_up(self, opened: OpenTurn, error: BaseException) -> None:
        """Release the chat; the user's message stays, unless the failure changed the chat."""
        if not opened.stored and not opened.exchanged:
            return
        try:
            async with self._database.write(together=True) as connection:
                if opened.chat is None or await self._release(connection, opened, opened.chat, error):
                    await turns.fail_turn(connection, opened.turn_id, f"{type(error).__name__}: {error}"[:500])
                await self._accounts.add(connection, opened.payer, opened.uses())
        except Exception:
            logger.warning("the end of a failed turn could not be stored", exc_info=True)

    async def _release(
        self, connection: AsyncConnection, opened: OpenTurn, opened_chat: ChatState, error: BaseException
    ) -> bool:
        """Release the chat of a failed turn; return False if the chat is gone, or the turn is now another process's."""
        try:
            chat = await chats.get_chat(connection, opened_chat.id, lock=True)
        except ServiceError:
            return False
        if chat.turn_id != opened.turn_id:
            return True
        # A repeated request has the id of the first one, whose process may only have been slow.
        if chat.version != opened_chat.version and chat.busy(time.time()):
            return False
        changes = await _left_by(connection, opened, chat, error)
        await chats.update_chat(connection, chat, turn_id=None, lease_until=0.0, **changes)
        return True

    def keep(self, opened: OpenTurn, listener: Listener) -> Heartbeat:
        """Renew the lease until the heartbeat is cancelled; a turn that has lost its chat is stopped."""
        return Heartbeat(self._config.lease_seconds / 3, lambda: self._renew(opened, listener))

    async def _renew(self, opened: OpenTurn, listener: Listener) -> None:
        while opened.stored:
            try:
                async with self._database.write(together=True) as connection:
                    until = time.time() + self._config.lease_seconds
                    kept = await turns.renew(connection, opened.turn_id, opened.chat, until)
            except Exception:
                logger.warning("the lease of a turn could not be renewed", exc_info=True)
            else:
                if not kept and opened.chat is not None:
                    listener.gone.set()
                    return
            await asyncio.sleep(self._config.lease_seconds / 3)


async def _left_by(
    connection: AsyncConnection, opened: OpenTurn, chat: ChatState, error: BaseException
) -> dict[str, object]:
    """Store the lines that a failed turn leaves, and return the other changes of its chat."""
    if not isinstance(error, ChangedByFailure):
        return {}
    placed, position = place_lines(chat, opened.lines, error.lines)
    await store_lines(connection, chat.id, opened.lines, placed, opened.turn_id)
    return {"details": error.details, "variables": {"local": error.variables}, "next_position": position}


def _payer(request: TurnRequest) -> str:
    return request.payer.owner if request.payer is not None else request.owner
