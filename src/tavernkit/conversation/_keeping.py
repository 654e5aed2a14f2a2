"""Runs operations one at a time, saves before a model is asked and at the end, changes lines, and undoes changes."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from tavernkit._arguments import require
from tavernkit._turns import Chat
from tavernkit._values import JsonObject, counted
from tavernkit.conversation._changes import Changes, changes_between
from tavernkit.conversation._formats import line_count, saved_chat, turn_of
from tavernkit.conversation._pending_turn import PendingTurn
from tavernkit.conversation._reply_stream import ReplyStream
from tavernkit.conversation._stores import ConversationStore, SavedChat
from tavernkit.conversation._undo import UndoHistory
from tavernkit.conversation.errors import ConversationBusyError
from tavernkit.errors import ConfigError
from tavernkit.prompt._plan import Plan


class ChatKeeper:
    """Keeps one chat in its store. Operations wait for those before them."""

    def __init__(self, chat: Chat, store: ConversationStore, undo: UndoHistory) -> None:
        self.chat = chat
        self.store = store
        self._history = undo
        self._held: weakref.WeakSet[ReplyStream | PendingTurn] = weakref.WeakSet()
        """Turns that the application is in the middle of."""
        self._snapshots: tuple[JsonObject, JsonObject] = {}, {}
        """The chat before and after the last operation."""
        self._lock = asyncio.Lock()
        self._owner: asyncio.Task[Any] | None = None
        self._saved: SavedChat | None = None
        self._closed = False

    def __repr__(self) -> str:
        """Return a one-line summary."""
        lines = counted(line_count(self.chat), "line")
        return f"<{type(self).__name__}: {lines}; chat.lines shows them>"

    @asynccontextmanager
    async def _operation(self, *, turn: bool = False) -> AsyncGenerator[None]:
        """Run a change of the chat: it can be undone, and is saved in any case.

        Args:
            turn: It is a turn, which changes the newest lines.
        """
        async with self._exclusive():
            with turn_of(self.chat) if turn else nullcontext():
                before = self.chat.snapshot()
                self._history.begin(before)
                try:
                    yield
                finally:
                    after = self.chat.snapshot()
                    self._snapshots = before, after
                    self._history.end(after)
                    await self._save(saved_chat(self.chat, self._history, after))

    def _refuse_inside_turn(self) -> None:
        """Refuse an operation that would wait forever for a turn of the same task."""
        if any(each.open_in_current_task for each in self._held):
            raise ConversationBusyError(
                "a turn has not ended: read its stream to the end or receive() its replies, or close the stream or turn"
            )

    @property
    def lines(self) -> Sequence[Mapping[str, object]]:
        """The lines of the chat, in the platform's own format."""
        return self.chat.lines

    @property
    def changes(self) -> Changes:
        """What the last operation changed: lines, variables, timed lore, memory and so on."""
        return changes_between(*self._snapshots)

    @asynccontextmanager
    async def _exclusive(self) -> AsyncGenerator[None]:
        """Wait for earlier operations, and block later ones.

        Raises:
            ConversationBusyError: This task itself is in the middle of an operation.
            ConfigError: The conversation is closed.
        """
        self._refuse_inside_turn()
        if self._owner is not None and self._owner is asyncio.current_task():
            raise ConversationBusyError("another operation is running in this task, and cannot end before this one")
        async with self._lock:
            if self._closed:
                raise ConfigError("this conversation is closed", code="CONVERSATION_CLOSED")
            self._owner = asyncio.current_task()
            try:
                yield
            finally:
                self._owner = None

    def preview(self, text: str = "") -> Plan:
        """Return the prompt that ``send()`` would send. No model is asked, and nothing changes."""
        return self.chat.preview(text)

    async def choose_greeting(self, index: int) -> None:
        """Show another greeting. 0 is the first message, 1 the first alternate."""
        require("index", index, int)
        await self._change(lambda: self.chat.choose_greeting(index))

    async def edit(self, index: int, text: str) -> None:
        """Replace the text of a line.

        Args:
            index: The line, from 0; negative ones count from the end.
            text: Its new text.
        """
        require("text", text, str)
        await self._change(lambda: self.chat.edit(self._place(index), text))

    async def delete(self, index: int) -> None:
        """Delete a line."""
        await self._change(lambda: self.chat.delete(self._place(index)))

    async def delete_from(self, index: int) -> None:
        """Delete a line and all after it."""
        await self._change(lambda: self.chat.delete_from(self._place(index)))

    async def hide(self, start: int, end: int | None = None) -> None:
        """Keep lines out of prompts.

        Args:
            start: The first line.
            end: The last line; only the first by default.
        """
        await self._change(lambda: self.chat.hide(self._place(start), self._place(start if end is None else end)))

    async def unhide(self, start: int, end: int | None = None) -> None:
        """Include hidden lines in prompts again.

        Args:
            start: The first line.
            end: The last line; only the first by default.
        """
        await self._change(lambda: self.chat.unhide(self._place(start), self._place(start if end is None else end)))

    async def undo(self) -> bool:
        """Take back the last operation with everything it changed; returns False if there is none.

        The undo history is saved with the chat, so undo also works after a restart.
        """
        async with self._exclusive():
            before = self._history.take()
            if before is None:
                return False
            now = self.chat.snapshot()
            self.chat.restore(before)
            self._snapshots = now, self.chat.snapshot()
            await self.checkpoint()
            return True

    @property
    def can_undo(self) -> bool:
        """True if there is an operation to undo."""
        return len(self._history) > 0

    async def save(self) -> None:
        """Save the chat. Operations do this automatically; call it after changing ``chat`` directly."""
        async with self._exclusive():
            await self.checkpoint()

    async def checkpoint(self) -> None:
        """Save the chat as it is now. The chat calls this in the middle of operations."""
        await self._save(saved_chat(self.chat, self._history))

    async def _save(self, saved: SavedChat) -> None:
        if saved == self._saved:
            return
        # A thread cannot be stopped: cancelling waits for it, so that saves stay in order.
        work = asyncio.ensure_future(asyncio.to_thread(self.store.save, saved))
        cancelled = False
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                cancelled = True
            except Exception:  # noqa: BLE001  # raised below
                break
        work.result()
        self._saved = saved
        if cancelled:
            raise asyncio.CancelledError

    async def _close(self) -> None:
        """End turns that are still open, and prevent new operations."""
        for each in tuple(self._held):
            await each.aclose()
        async with self._lock:
            self._closed = True

    def _place(self, index: int) -> int:
        """Return a line's index counted from the start."""
        require("index", index, int)
        count = line_count(self.chat)
        if not -count <= index < count:
            raise ConfigError(f"there is no line {index}: the chat has {count}", code="NO_SUCH_LINE")
        return index % count

    async def _change(self, work: Callable[[], None]) -> None:
        async with self._operation():
            work()
