"""Where conversations are saved."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Final, Protocol, TypeVar, runtime_checkable

from tavernkit._arguments import require
from tavernkit._atomic import remove_parts, write_atomically
from tavernkit._values import JsonObject, is_object
from tavernkit.cards._silly_tavern.stored import sanitize
from tavernkit.conversation.errors import StoreConflictError, StoreError

STATE_SUFFIX: Final = ".state.json"

_TABLE: Final = """CREATE TABLE IF NOT EXISTS conversations
(name TEXT PRIMARY KEY, file BLOB NOT NULL, state TEXT NOT NULL)"""
_NAMES: Final = "SELECT name FROM conversations ORDER BY name"
_LOAD: Final = "SELECT file, state FROM conversations WHERE name = ?"
_SAVE: Final = "INSERT OR REPLACE INTO conversations (name, file, state) VALUES (?, ?, ?)"

_T = TypeVar("_T")


class SavedChat:
    """A chat as stores keep it.

    Args:
        file: The chat in its program's own format: what SillyTavern or RisuAI opens; whole or in parts.
        state: Data that the format cannot contain, mainly global variables; usually empty.
    """

    __slots__ = ("parts", "state")

    def __init__(
        self, *, file: bytes | bytearray | memoryview | Iterable[bytes], state: JsonObject | None = None
    ) -> None:
        self.parts: tuple[bytes, ...] = (
            (bytes(file),) if isinstance(file, (bytes, bytearray, memoryview)) else tuple(file)
        )
        """``file`` in parts: a store that writes them one by one need not copy a long chat."""
        self.state: JsonObject = {} if state is None else state
        """Data that the format cannot contain, mainly global variables; usually empty."""

    @property
    def file(self) -> bytes:
        """The chat in its program's own format."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SavedChat):
            return NotImplemented
        return self.state == other.state and (self.parts == other.parts or self._same_file(other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # the state can change

    def _same_file(self, other: SavedChat) -> bool:
        return sum(map(len, self.parts)) == sum(map(len, other.parts)) and self.file == other.file

    def __repr__(self) -> str:
        """Return a one-line summary."""
        return f"<{type(self).__name__}: {sum(map(len, self.parts)):,} bytes; state: {', '.join(self.state) or 'none'}>"


@runtime_checkable
class ConversationStore(Protocol):
    """Where one conversation is saved. Write your own with these four methods.

    They are called one at a time, ``save()`` in a worker thread. Their errors reach the caller of the operation; the
    chat in memory is unchanged and is saved again with the next operation.
    """

    def load(self) -> SavedChat | None:
        """Return the saved chat; None if there is none yet."""
        ...

    def save(self, chat: SavedChat) -> None:
        """Save a chat. After this returns, a crash must not lose it; if it raises, the old version must still exist."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names that a branch cannot have, because they are taken."""
        ...

    def branch(self, name: str) -> ConversationStore:
        """Return the empty store of a branch of the chat, next to this one."""
        ...


class MemoryStore:
    """Keeps a conversation in memory, as long as the program runs."""

    def __init__(self, saved: SavedChat | None = None) -> None:
        self.saved = saved

    def load(self) -> SavedChat | None:
        """Return the saved chat."""
        return self.saved

    def save(self, chat: SavedChat) -> None:
        """Keep a chat."""
        self.saved = chat

    def names(self) -> Iterable[str]:
        """Return nothing: chats in memory have no names."""
        return ()

    def branch(self, name: str) -> MemoryStore:
        """Return an empty store."""
        return MemoryStore()


class FileStore:
    """Keeps a conversation in a file in the program's own format: SillyTavern's JSONL, RisuAI's JSON.

    Data that such a file cannot contain (global variables, which SillyTavern keeps in its settings) goes to a second
    file. A file that another program has changed is not overwritten.
    """

    def __init__(self, path: str | os.PathLike[str], *, state: str | os.PathLike[str] | None = None) -> None:
        """Set the files, which need not exist.

        Args:
            path: The chat.
            state: The file for data that the chat's format cannot contain; ``NAME.state.json`` next to the chat by
                default. Chats with the same state file share their global variables.
        """
        require("path", path, str | os.PathLike[str])
        self.path = Path(path)
        self.state = default_state(self.path) if state is None else Path(state)
        self._file = WatchedFile(self.path)
        self._state: JsonObject | None = None

    def load(self) -> SavedChat | None:
        """Read the files."""
        content = self._file.read()
        self._state = _read_state(self.state)
        if content is None:
            return SavedChat(file=b"", state=self._state) if self._state else None
        return SavedChat(file=content, state=self._state)

    def save(self, chat: SavedChat) -> None:
        """Write the files; each is replaced as a whole."""
        self._file.check()
        if chat.state != (self._state or {}):
            save_file(self.state, _written_state(chat.state))
            self._state = chat.state
        self._file.write(*chat.parts)

    def names(self) -> Iterable[str]:
        """Return the names of the chats in the same folder."""
        return [path.stem for path in self.path.parent.glob(f"*{self.path.suffix}")]

    def branch(self, name: str) -> FileStore:
        """Return the store of a new file in the same folder."""
        own_state = self.state == default_state(self.path)
        return FileStore(free_path(self.path, name), state=None if own_state else self.state)

    def back_up(self) -> Path:
        """Copy a damaged chat to a file next to it, before saving loses the unreadable parts."""
        copy = free_path(self.path, f"{self.path.stem} (damaged)")
        save_file(copy, self.path.read_bytes())
        return copy


class WatchedFile:
    """A file that is replaced as a whole, and only if no other program has changed it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark: tuple[int, ...] | None = None
        self._watched = False

    def read(self) -> bytes | None:
        """Read the file; None if there is none."""
        remove_parts(self.path)
        try:
            self._mark, self._watched = _mark(self.path), True
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error}") from error

    def check(self) -> None:
        """Raise an error if another program has changed the file. Stores call this before they write other files."""
        if self._watched and _mark(self.path) != self._mark:
            raise StoreConflictError(
                f"{self.path} was changed by another program and is not overwritten: open the conversation again"
            )

    def write(self, *content: bytes) -> None:
        """Replace the file, with content that may be in parts."""
        self.check()
        if not self._watched:
            remove_parts(self.path)
        save_file(self.path, *content)
        self._mark, self._watched = _mark(self.path), True


def save_file(path: Path, *content: bytes) -> None:
    """Replace a file as a whole.

    Args:
        path: The file.
        content: What it contains, which may be in parts.

    Raises:
        StoreError: It could not be written; the old file is unchanged.
    """
    try:
        write_atomically(path, *content)
    except OSError as error:
        raise StoreError(f"{path} cannot be saved: {error.strerror or error}") from error


def _mark(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _read_state(path: Path) -> JsonObject:
    remove_parts(path)
    try:
        state: object = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    return state if is_object(state) else {}


def _written_state(state: JsonObject) -> bytes:
    """Write a state, one line for each part: indenting a whole undo history takes longer than building a prompt."""
    parts = (f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in state.items())
    return "{{\n{}\n}}".format(",\n".join(parts)).encode("utf-8", "surrogatepass")


def free_path(path: Path, name: str) -> Path:
    """Return the path of a new file next to another one; a number makes the name unique."""
    stem, number = sanitize(name) or path.stem, 2
    found = path.with_name(f"{stem}{path.suffix}")
    while found.exists():
        found, number = path.with_name(f"{stem} {number}{path.suffix}"), number + 1
    return found


def default_state(path: Path) -> Path:
    """Return the path of the state file next to a chat."""
    return path.with_suffix(STATE_SUFFIX)


class SqliteStore:
    """Keeps conversations in a SQLite database, each under a name."""

    def __init__(self, path: str | os.PathLike[str], name: str = "chat") -> None:
        """Set the database, which need not exist, and the conversation.

        Args:
            path: The database file.
            name: The conversation, e.g. the channel of a bot.
        """
        require("path", path, str | os.PathLike[str])
        require("name", name, str)
        self.path = Path(path)
        self.name = name
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """Return the names of all conversations in the database."""
        return self._within(lambda database: [str(row[0]) for row in database.execute(_NAMES)])

    def load(self) -> SavedChat | None:
        """Read the conversation.

        Raises:
            StoreError: The stored state is damaged.
        """
        row = self._within(lambda database: database.execute(_LOAD, (self.name,)).fetchone())
        if row is None:
            return None
        try:
            state: object = json.loads(row[1])
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"{self.path}: the state of {self.name!r} cannot be read: {error}") from error
        return SavedChat(file=bytes(row[0]), state=state if is_object(state) else {})

    def save(self, chat: SavedChat) -> None:
        """Write the conversation in one transaction."""
        state = json.dumps(chat.state)
        self._within(lambda database: database.execute(_SAVE, (self.name, chat.file, state)))

    def branch(self, name: str) -> SqliteStore:
        """Return the store of another conversation in the same database."""
        return SqliteStore(self.path, name)

    def _within(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock, closing(sqlite3.connect(self.path)) as database, database:
                database.execute(_TABLE)
                return work(database)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: {error}") from error
