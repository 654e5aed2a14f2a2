"""What begins and changes sessions outside turns: greetings, edited messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._dataclass import replaced
from tavernkit._values import JsonObject, is_object
from tavernkit.server.adapters.registry import Adapters
from tavernkit.server.adapters.silly_tavern import SillyTavernAdapter
from tavernkit.server.adapters.swipes import swipes_of
from tavernkit.server.adapters.turn import LineChange, TurnInput
from tavernkit.server.config import ServerConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import Library
from tavernkit.server.limits import CACHED_CHATS, MAX_CACHED_CHAT_LINES, MAX_CACHED_LINES
from tavernkit.server.sessions.edits import plainly_changed
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import ChatLine, ChatState, Selection


class KnownLines:
    """Caches lines of chats between turns, by version of the chat. The least recently used ones are dropped."""

    def __init__(self, *, chats: int = CACHED_CHATS, lines: int = MAX_CACHED_LINES) -> None:
        """Make a cache.

        Args:
            chats: The maximum number of chats.
            lines: The maximum number of lines in total.
        """
        self._most_chats = chats
        self._most_lines = lines
        self._known: OrderedDict[str, tuple[int, list[ChatLine]]] = OrderedDict()
        self._total = 0

    def get(self, chat_id: str) -> tuple[int, list[ChatLine]] | None:
        """Return the version and the lines of a chat."""
        found = self._known.get(chat_id)
        if found is not None:
            self._known.move_to_end(chat_id)
        return found

    def put(self, chat_id: str, version: int, lines: list[ChatLine]) -> None:
        """Cache a chat at a version."""
        old = self._known.pop(chat_id, None)
        self._total += len(lines) - (len(old[1]) if old is not None else 0)
        self._known[chat_id] = (version, lines)
        while self._known and (len(self._known) > self._most_chats or self._total > self._most_lines):
            _, (_, gone) = self._known.popitem(last=False)
            self._total -= len(gone)

    async def read(self, connection: AsyncConnection, chat: ChatState) -> tuple[list[ChatLine], int]:
        """Return the lines of a chat that a turn reads, and how many lines before them it skips."""
        known = self.get(chat.id)
        if known is not None and known[0] == chat.version:
            return known[1], 0
        return await chats.read_history(connection, chat)

    def remember(self, chat: ChatState, lines: list[ChatLine], unread: int) -> None:
        """Cache a chat that was read or written as a whole, unless it is long."""
        if len(lines) <= MAX_CACHED_CHAT_LINES and not unread:
            self.put(chat.id, chat.version, lines)


class SessionChanges:
    """Begins sessions and changes their messages, as each platform does."""

    def __init__(self, config: ServerConfig, library: Library, adapters: Adapters, known: KnownLines) -> None:
        self._config = config
        self._library = library
        self._adapters = adapters
        self._known = known

    async def new_chat(
        self,
        connection: AsyncConnection,
        owner: str,
        external_id: str,
        selection: Selection,
        *,
        greeting: int | None = 0,
        options: JsonObject | None = None,
    ) -> ChatState:
        """Start a chat with one of the character's greetings, or with none."""
        cast = await self._library.cast(connection, selection)
        lines, details = [], {}
        if greeting is not None:
            adapter = self._adapters.of(selection.platform)
            _check_greeting(greeting, adapter.greetings(cast))
            lines, details = await adapter.greeting(cast, user_name=self._config.user_name, index=greeting)
        return await chats.create_chat(
            connection, owner, external_id, selection, lines, details=details, options=options
        )

    async def greet_again(self, connection: AsyncConnection, chat: ChatState) -> None:
        """Write a greeting without an answer again, as SillyTavern does when the persona changes."""
        adapter = self._adapters.of(chat.selection.platform)
        lines = await chats.read_lines(connection, chat.id, limit=2)
        untouched = len(lines) == 1 and lines[0].role == "assistant" and not chat.details.get("tainted")
        if not untouched or chat.selection.group is not None or not isinstance(adapter, SillyTavernAdapter):
            return
        _, shown = swipes_of(lines[0].native) or ([], 0)
        cast = await self._library.cast(connection, chat.selection)
        greeting, _ = await adapter.greeting(cast, user_name=self._config.user_name, index=shown)
        if greeting:
            changed = replaced(lines[0], content=greeting[0].content, native=greeting[0].native)
            await chats.store_lines(connection, chat.id, lines, [changed])

    async def rewrite(
        self, connection: AsyncConnection, chat: ChatState, line: ChatLine, change: LineChange
    ) -> tuple[ChatLine, JsonObject, JsonObject]:
        """A changed message, and the chat's details and variables. If the character is gone, no macro runs.

        Args:
            connection: The database.
            chat: The chat.
            line: The message.
            change: What is changed of it.
        """
        local = chat.variables.get("local")
        variables = local if is_object(local) else {}
        adapter = self._adapters.of(chat.selection.platform)
        if isinstance(adapter, SillyTavernAdapter) and "metadata" not in line.native:
            with suppress(ServiceError):
                cast = await self._library.cast(connection, chat.selection)
                lines, unread = await self._known.read(connection, chat)
                given = TurnInput(
                    cast=cast,
                    chat_id=chat.id,
                    lines=lines if any(each.id == line.id for each in lines) else [line, *lines],
                    unread=unread,
                    pending=line.id,
                    details=chat.details,
                    user_name=self._config.user_name,
                    local_variables=variables,
                )
                return await adapter.changed(given, change)
        return plainly_changed(chat, line, change), chat.details, variables


def _check_greeting(greeting: int, known: Sequence[tuple[str, int]]) -> None:
    """Refuse a number outside the available greetings; a chat may start without any."""
    having = [(name, count) for name, count in known if count] or known
    for name, count in having:
        if greeting >= max(count, 1):
            count_of_greetings = (
                f"{count} greetings, 0 to {count - 1}" if count > 1 else "one greeting, 0" if count else "no greetings"
            )
            raise ServiceError(422, f"{name!r} has {count_of_greetings}", code="no_such_greeting", param="greeting")
