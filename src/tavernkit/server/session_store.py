"""Sessions of the service's database as stores of conversations."""

from __future__ import annotations

import asyncio
import copy
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import SecretStr
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._arguments import require, require_choice
from tavernkit._values import JsonObject, is_object
from tavernkit.conversation import SavedChat, StoreConflictError, StoreError
from tavernkit.conversation._formats import FILE, GLOBALS
from tavernkit.conversation._undo import UNDO, FileDigest
from tavernkit.errors import ConfigError, TavernKitError
from tavernkit.server.accounts import Accounts
from tavernkit.server.adapters.registry import Adapters
from tavernkit.server.adapters.vectors import Vectors
from tavernkit.server.config import ServerConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.keys import LOCAL
from tavernkit.server.library.library import Library
from tavernkit.server.library.models import selection_of
from tavernkit.server.limits import MAX_SESSION_MESSAGES
from tavernkit.server.sessions.files import conversation_of, note_conversation, options_of_copy
from tavernkit.server.sessions.session_files import (
    FileLine,
    app_state,
    changed_lines,
    file_lines,
    read_session_file,
    session_file,
    stored_lines,
    with_app_state,
)
from tavernkit.server.storage import chats, turns
from tavernkit.server.storage.chats import ChatState
from tavernkit.server.storage.database import Database, database_errors
from tavernkit.server.storage.lines import ChatLine, place_lines, read_all_lines, store_lines, too_long
from tavernkit.server.storage.tables import Chat
from tavernkit.server.turns.scheduling import BuildExecutor
from tavernkit.server.turns.turn_log import TurnLog

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Known:
    """A session as it was loaded or saved last."""

    chat: ChatState
    lines: Sequence[ChatLine]
    written: Sequence[FileLine]
    shared: JsonObject
    """The global variables."""


class SessionStore:
    """A session of the service as the store of a conversation.

    >>> store = SessionStore("tavernkit-data", "discord:42")                          # doctest: +SKIP
    >>> chat = tk.Conversation.open(store, card="aria.png", model=model)              # doctest: +SKIP

    The service may be running. Each save is one transaction; if the session has changed since it was loaded or saved
    here, or the service is replying in it, ``StoreConflictError`` is raised and the session stays as it is. Pass the
    card and other inputs yourself: the service continues with those of its library.
    """

    def __init__(
        self,
        place: str | os.PathLike[str],
        session: str,
        *,
        model: str | None = None,
        platform: Literal["silly_tavern", "risu_ai"] = "silly_tavern",
        owner: str | None = None,
    ) -> None:
        """Set the database and the session.

        Args:
            place: The service's data folder (``tavernkit-data``), an SQLite file, or the URL of the database.
            session: The session's id: the client's own (``X-Tavern-Session``), or the service's.
            model: Who a new session is with, as in requests: ``aria``, ``aria@preset``, ``group:crew``. An existing
                session needs none.
            platform: The platform of a new session.
            owner: Whose session it is, if several clients use the same id; of a new one: ``local`` by default, as in a
                service without keys.

        Raises:
            ConfigError: There is no such database.
        """
        require("place", place, str | os.PathLike[str], "a data folder or the URL of a database")
        require("session", session, str)
        require("model", model, str | None)
        require_choice("platform", platform, ("silly_tavern", "risu_ai"))
        self.name = session
        self._config = _config(os.fspath(place))
        self._owner = owner
        self._selection = selection_of(model, platform=platform) if model is not None else None
        self._options: JsonObject = {}
        self._known: _Known | None = None
        self._is_checked = False

    @property
    def session_id(self) -> str | None:
        """The service's own id of the session; None until it is loaded or saved."""
        return self._known.chat.id if self._known is not None else None

    def load(self) -> SavedChat | None:
        """Read the session as a file of its platform; None if there is none yet.

        Raises:
            StoreError: The database cannot be read.
        """
        return self._run(self._load)

    def save(self, chat: SavedChat) -> None:
        """Write the session; a new one is created.

        Raises:
            StoreConflictError: The session has changed in the meantime, or the service is replying in it.
            StoreError: The database cannot be written, or does not have the character of a new session.
        """
        self._run(lambda database: self._save(database, chat))

    def names(self) -> list[str]:
        """Return the ids of all sessions of the same client."""

        async def work(database: Database) -> list[str]:
            async with database.read() as connection:
                rows = await connection.execute(select(Chat.external_id).where(Chat.owner == self._owner_of_new))
            return [row[0] for row in rows]

        return self._run(work)

    def branch(self, name: str) -> SessionStore:
        """Return the store of a new session with the same characters, presets and options.

        Args:
            name: Its id; a number makes it unique.
        """
        taken, free, number = set(self.names()), name, 2
        while free in taken:
            free, number = f"{name} {number}", number + 1
        twin = copy.copy(self)
        twin.name, twin._owner, twin._known = free, self._owner_of_new, None  # noqa: SLF001  # it is one of us
        return twin

    @property
    def _owner_of_new(self) -> str:
        if self._known is not None:
            return self._known.chat.owner
        return self._owner if self._owner is not None else LOCAL.owner

    async def _load(self, database: Database) -> SavedChat | None:
        async with database.read() as connection:
            chat = await self._find(connection)  # the one of this id, even if another one had it before
        if chat is None:
            self._known = None
            return None
        if chat.turn_id is not None and not chat.busy(time.time()):
            await self._recover(database, chat)
        async with database.read() as connection:
            chat = await chats.get_chat(connection, chat.id)
            lines = await read_all_lines(connection, chat.id)
            shared = await turns.read_globals(connection, chat.owner, chat.selection.platform)
            kept = await conversation_of(connection, chat.id)
        platform, header = chat.selection.platform, kept.get("header")
        content = session_file(chat, lines, header if is_object(header) else {})
        written = file_lines(platform, lines, read_session_file(platform, content).messages)
        self._remember(_Known(chat, lines, written, shared))
        state = {**app_state(platform, lines), **_state_of(kept, chat)}
        if shared:
            state[GLOBALS] = shared
        if set(state) - {GLOBALS, UNDO}:
            state[FILE] = FileDigest().of([content])
        return SavedChat(file=content, state=state)

    async def _save(self, database: Database, saved: SavedChat) -> None:
        async with database.write() as connection:
            known = await self._lock_session(connection)
            chat, platform = known.chat, known.chat.selection.platform
            file = read_session_file(platform, saved.file)
            written = with_app_state(platform, changed_lines(platform, known.written, file.messages), saved.state)
            lines, position = place_lines(chat, known.lines, stored_lines(platform, known.lines, written))
            if len(lines) > MAX_SESSION_MESSAGES:
                raise too_long()
            variables = {**chat.variables, "local": file.variables}
            changes: dict[str, object] = {"details": file.details, "variables": variables, "next_position": position}
            await chats.update_chat(connection, chat, **changes)
            await store_lines(connection, chat.id, known.lines, lines)
            given = saved.state.get(GLOBALS)
            shared: JsonObject = given if is_object(given) else {}
            await turns.write_globals(connection, chat.owner, platform, known.shared, shared)
            state: JsonObject = {key: each for key, each in saved.state.items() if key not in (GLOBALS, FILE)}
            kept: JsonObject = {"version": chat.version + 1, "state": state, "header": file.header}
            await note_conversation(connection, chat.id, kept)
            chat = await chats.get_chat(connection, chat.id)
        places = {line.id: line for line in lines}
        self._remember(_Known(chat, lines, [FileLine(each.written, places[each.line.id]) for each in written], shared))

    async def _lock_session(self, connection: AsyncConnection) -> _Known:
        """Return the session as it is known here, locked until the transaction ends."""
        known = self._known
        if known is None:
            return await self._create(connection)
        try:
            chat = await chats.get_chat(connection, known.chat.id, lock=True)
        except ServiceError as error:
            raise StoreConflictError(f"the session {self.name!r} was removed from the service") from error
        if chat.turn_id is not None:
            raise _conflict(f"the service is replying in the session {self.name!r}")
        if chat.version != known.chat.version:
            raise _conflict(f"the session {self.name!r} has changed in the service")
        return known

    async def _create(self, connection: AsyncConnection) -> _Known:
        if await self._find(connection) is not None:
            raise _conflict(f"there is a session {self.name!r} in the service")
        if self._selection is None:
            raise ConfigError(f"there is no session {self.name!r}: pass model='aria' to start it", code="NO_SESSION")
        owner, platform = self._owner_of_new, self._selection.platform
        await Library().cast(connection, self._selection)
        chat = await chats.create_chat(connection, owner, self.name, self._selection, options=self._options)
        return _Known(chat, (), (), await turns.read_globals(connection, owner, platform))

    async def _find(self, connection: AsyncConnection) -> ChatState | None:
        """Return the session by the client's id or by the service's, if it exists."""
        owner = {} if self._owner is None else {"owner": self._owner}
        for column in ("external_id", "id"):
            chosen = {column: self.name, **owner}
            found = await chats.list_chats(connection, None, limit=2, chosen=chosen)
            if len(found) > 1:
                raise ConfigError(f"several clients have a session {self.name!r}: pass owner=, or the service's id")
            if found:
                return found[0]
        return None

    async def _recover(self, database: Database, chat: ChatState) -> None:
        """Store what a process that died had of a reply."""
        executor = BuildExecutor()
        try:
            adapters = Adapters(executor, Vectors(self._config.data / "vectors"))
            await TurnLog(self._config, database, Library(), adapters, Accounts()).recover(chat.id)
        finally:
            executor.close()

    def _remember(self, known: _Known) -> None:
        self._known, self._selection = known, known.chat.selection
        self._options = options_of_copy(known.chat)

    def _run(self, work: Callable[[Database], Awaitable[T]]) -> T:
        async def run() -> T:
            database = Database(self._config.database_url, create=False)
            try:
                if not self._is_checked:
                    with database_errors():
                        await database.require_tables()
                    self._is_checked = True
                return await work(database)
            finally:
                await database.close()

        try:
            return _from_any_thread(run)
        except ServiceError as error:
            raise StoreError(f"the session {self.name!r}: {error}") from error
        except TavernKitError:
            raise
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            reason = str(getattr(error, "orig", None) or error)
            raise StoreError(f"the session {self.name!r}: {reason}") from error


def _state_of(kept: JsonObject, chat: ChatState) -> JsonObject:
    """Return what was saved with a session, if it has not changed since."""
    state = kept.get("state")
    return state if is_object(state) and kept.get("version") == chat.version else {}


def _conflict(problem: str) -> StoreConflictError:
    return StoreConflictError(f"{problem}: nothing was overwritten; open the conversation again to go on from there")


def _config(place: str) -> ServerConfig:
    """Return the settings of a service with this database."""
    if "://" in place:
        return ServerConfig(db=SecretStr(place))
    path = Path(place)
    return ServerConfig(db=SecretStr(f"sqlite:///{path.absolute()}")) if path.is_file() else ServerConfig(data=path)


def _from_any_thread(work: Callable[[], Coroutine[None, None, T]]) -> T:
    """Run a coroutine; in another thread if this one has an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()
