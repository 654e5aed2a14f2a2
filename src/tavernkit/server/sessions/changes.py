"""What begins and changes sessions outside turns: greetings, edited messages, swipes, branches."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._dataclass import replaced
from tavernkit._values import JsonObject, is_object
from tavernkit.server.adapters.registry import Adapters
from tavernkit.server.adapters.silly_tavern import SillyTavernAdapter
from tavernkit.server.adapters.silly_tavern_lines import opened_again
from tavernkit.server.adapters.swipes import swipes_of, with_first_swipe, with_swipe, with_text, without_swipe
from tavernkit.server.adapters.turn import LineChange, TurnInput
from tavernkit.server.config import ServerConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.keys import Client
from tavernkit.server.library.library import RISU_AI, Library
from tavernkit.server.limits import CACHED_CHATS, MAX_CACHED_CHAT_LINES, MAX_CACHED_LINES
from tavernkit.server.sessions.files import options_of_copy
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import ChatState, Selection
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.lines import (
    COMPLETE,
    ChatLine,
    get_line,
    insert_lines,
    read_history,
    read_lines,
    remove_lines,
    store_lines,
)
from tavernkit.server.storage.tables import new_id

ALL_BEFORE = "allBefore"
"""RisuAI's value of ``disabled`` for a message that is left out with everything before it."""
COPIED_AT_ONCE = 1000
"""How many messages of a branch are copied at a time."""


def owned_by(client: Client) -> str | None:
    """Return whose chats a client may see; None means everybody's."""
    return None if client.may("admin") else client.owner


Rewrite: TypeAlias = Callable[
    [AsyncConnection, ChatState, ChatLine, LineChange], Awaitable[tuple[ChatLine, JsonObject, JsonObject]]
]
"""Gives a changed message as the platform stores it, and the chat's details and variables."""


async def change_message(
    database: Database, client: Client, chat_id: str, message_id: str, change: LineChange, rewrite: Rewrite
) -> ChatLine:
    """Give a message another text, show or remove one of its swipes, hide it, or show it again.

    Args:
        database: The database.
        client: The client.
        chat_id: The chat.
        message_id: The message.
        change: The change.
        rewrite: Applies the platform's rules to the change.
    """
    async with _editing(database, client, chat_id, message_id) as (connection, chat, line):
        _refuse_impossible(chat, line, change)
        changed, details, variables = await rewrite(connection, chat, line, change)
        changed = replace(changed, status=COMPLETE)
        await store_lines(connection, chat.id, [line], [changed])
        await chats.update_chat(connection, chat, details=details, variables={**chat.variables, "local": variables})
        return changed


async def remove_messages(
    database: Database, client: Client, chat_id: str, message_id: str, *, following: bool
) -> None:
    """Remove a message, or everything from it on."""
    async with _editing(database, client, chat_id, message_id) as (connection, chat, line):
        await remove_lines(connection, chat.id, line, following=following)
        tainted: JsonObject = {} if chat.selection.platform == RISU_AI else {"tainted": True}  # as SillyTavern has it
        await chats.update_chat(connection, chat, details={**chat.details, **tainted})


async def branch_chat(
    database: Database, client: Client, chat_id: str, message_id: str, external_id: str, *, marked: bool = False
) -> ChatState:
    """Create a chat with everything up to a message, and the current state.

    Args:
        database: The database.
        client: The client.
        chat_id: The chat.
        message_id: The last message of the branch.
        external_id: The client's id of the new chat.
        marked: True if the branch names its origin, if its platform supports that.
    """
    async with database.write() as connection:
        chat = await chats.get_chat(connection, chat_id, owner=owned_by(client))
        last = await get_line(connection, chat_id, message_id)
        following = last.position + 1
        await chats.refuse_taken(connection, chat.owner, external_id)
        options = options_of_copy(chat)
        made = await chats.create_chat(connection, chat.owner, external_id, chat.selection, options=options)
        details, added = opened_again(chat.details), list[ChatLine]()
        if marked and chat.selection.platform == RISU_AI:
            details, added = _mark_branch(chat, last)
        changes: dict[str, object] = {"details": details, "variables": chat.variables}
        await chats.update_chat(connection, made, next_position=following + len(added), **changes)
        before, now = following, time.time()
        await insert_lines(connection, made.id, added, now=now)
        while lines := await read_lines(connection, chat_id, limit=COPIED_AT_ONCE, before=before):
            copies = [replace(line, id=new_id()) for line in lines]
            await insert_lines(connection, made.id, copies, now=now)
            before = lines[0].position
            await asyncio.sleep(0)
        return await chats.get_chat(connection, made.id)


def _mark_branch(chat: ChatState, last: ChatLine) -> tuple[JsonObject, list[ChatLine]]:
    """Return the details of a RisuAI branch, and its last line: its name and origin."""
    from tavernkit.server.adapters import risu_ai_lines

    own, name = chat.details.get("id") or chat.id, str(chat.details.get("name") or chat.external_id)
    comment = risu_ai_lines.comment_line(str(own), name, str(last.native.get("chatId") or last.id))
    details: JsonObject = {**chat.details, "name": risu_ai_lines.branch_name(name)}
    return details, [replace(comment, position=last.position + 1)]


@asynccontextmanager
async def _editing(
    database: Database, client: Client, chat_id: str, message_id: str
) -> AsyncGenerator[tuple[AsyncConnection, ChatState, ChatLine]]:
    async with database.write() as connection:
        chat = await chats.get_chat(connection, chat_id, owner=owned_by(client), lock=True)
        if chat.busy(time.time()):
            raise ServiceError(409, "a turn of this session is running", code="session_busy", retry_after=1)
        yield connection, chat, await get_line(connection, chat_id, message_id)


def _refuse_impossible(chat: ChatState, line: ChatLine, change: LineChange) -> None:
    found = swipes_of(line.native)
    swipes = len(found[0]) if found is not None else 0
    for swipe in (change.swipe, change.removed_swipe):
        if swipe is not None and swipe >= swipes:
            raise ServiceError(422, f"the message has no swipe {swipe}", code="no_such_swipe", param="swipe")
    if change.removed_swipe is not None and swipes < 2:
        raise ServiceError(422, "the only reply cannot be removed: remove the message", code="only_swipe")
    if change.hidden is not None and "metadata" in line.native:
        raise ServiceError(422, "calls of tools and their results cannot be hidden", code="not_hidden", param="hidden")
    if change.hidden == "all_before" and chat.selection.platform != RISU_AI:
        message = "SillyTavern hides messages one by one: only RisuAI's sessions have all_before"
        raise ServiceError(422, message, code="not_hidden", param="hidden")


def plainly_changed(chat: ChatState, line: ChatLine, change: LineChange) -> ChatLine:
    """A changed line; no macros or scripts run on it.

    Args:
        chat: Its chat.
        line: The line.
        change: The change.
    """
    native, content = line.native, line.content if change.content is None else change.content
    if change.swipe is not None:
        native = with_swipe(native, change.swipe)
    if change.removed_swipe is not None:
        native = without_swipe(native, change.removed_swipe)
    if change.content is None and (found := swipes_of(native)) is not None:
        content = found[0][found[1]]
    if change.hidden is not None:
        hidden = ALL_BEFORE if change.hidden == "all_before" else change.hidden
        native = {**native, ("disabled" if chat.selection.platform == RISU_AI else "is_system"): hidden}
    is_reply = chat.selection.platform == RISU_AI and line.role == "assistant" and "metadata" not in native
    if change.content is not None and is_reply:
        # RisuAI's arrows bring back the reply as the model gave it.
        return replace(line, content=content, native={**with_first_swipe(native, line.content), "data": content})
    return with_content(chat, line, native, content)


def with_content(chat: ChatState, line: ChatLine, native: JsonObject, content: str) -> ChatLine:
    """Return the line with another text; the current swipe is updated too.

    Args:
        chat: Its chat, whose platform says where the text is kept.
        line: The line.
        native: The platform's object of the line.
        content: The text.
    """
    if "metadata" in native:
        return replace(line, content=content, native={**native, "content": content})
    key = "data" if chat.selection.platform == RISU_AI else "mes"
    return replace(line, content=content, native={**with_text(native, content), key: content})


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
        return await read_history(connection, chat)

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
        parse: bool = True,
    ) -> ChatState:
        """Start a chat with one of the character's greetings, or with none."""
        cast = await self._library.cast(connection, selection, parse=parse)
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
        lines = await read_lines(connection, chat.id, limit=2)
        untouched = len(lines) == 1 and lines[0].role == "assistant" and not chat.details.get("tainted")
        if not untouched or chat.selection.group is not None or not isinstance(adapter, SillyTavernAdapter):
            return
        _, shown = swipes_of(lines[0].native) or ([], 0)
        cast = await self._library.cast(connection, chat.selection)
        greeting, _ = await adapter.greeting(cast, user_name=self._config.user_name, index=shown)
        if greeting:
            changed = replaced(lines[0], content=greeting[0].content, native=greeting[0].native)
            await store_lines(connection, chat.id, lines, [changed])

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
