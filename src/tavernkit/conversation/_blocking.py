"""Conversations for programs without an event loop."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Coroutine, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from tavernkit._loop_thread import LoopThread
from tavernkit._turns import Chat, Turn, TurnKind
from tavernkit.conversation._changes import Changes
from tavernkit.conversation._pending_turn import PendingTurn
from tavernkit.conversation.errors import ConversationBusyError
from tavernkit.models._reply import Reply, ReplyPiece, Usage
from tavernkit.prompt._plan import Plan

if TYPE_CHECKING:
    from tavernkit.conversation._attachments import AttachmentInput
    from tavernkit.conversation._conversation import Conversation
    from tavernkit.conversation._stores import ConversationStore

_T = TypeVar("_T")


class Run(Protocol):
    """Runs a coroutine to its end, in the thread of a conversation."""

    def __call__(self, work: Coroutine[Any, Any, _T], *, is_operation: bool = True) -> _T:
        """Return the coroutine's result."""
        ...


class BlockingConversation:
    """A ``Conversation`` whose methods return when they are done.

    >>> with Conversation.open("a.jsonl", card="a.png", model=model).blocking() as chat:   # doctest: +SKIP
    ...     print(chat.send("Hello").text)

    The work runs in a thread with an event loop. Closing this object closes the conversation. When the caller is
    interrupted (Ctrl+C), the operation is stopped, a partial reply is kept, and the conversation can continue.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._thread = LoopThread("conversation")
        self._readers: Counter[int] = Counter()
        """Threads that read streams, with the number of streams."""
        self._pending: weakref.WeakSet[BlockingPendingTurn] = weakref.WeakSet()
        self._pending_lock = threading.Lock()

    @property
    def chat(self) -> Chat:
        """The platform's own chat; call ``save()`` after changing it directly."""
        return self.conversation.chat

    @property
    def lines(self) -> Sequence[Mapping[str, object]]:
        """The lines of the chat, in the platform's own format."""
        return self.conversation.lines

    @property
    def last(self) -> Turn | None:
        """The newest turn."""
        return self.conversation.last

    @property
    def changes(self) -> Changes:
        """What the last operation changed."""
        return self.conversation.changes

    @property
    def can_undo(self) -> bool:
        """True if there is an operation to undo."""
        return self.conversation.can_undo

    @property
    def usage(self) -> Usage:
        """The tokens of all requests so far."""
        return self.conversation.usage

    def send(self, text: str = "", *, attachments: Iterable[AttachmentInput] = ()) -> Turn:
        """Send the user's message and return the reply.

        Args:
            text: What the user says.
            attachments: Files sent with it.
        """
        return self._run(self.conversation.send(text, attachments=attachments))

    def stream(
        self, text: str = "", *, kind: TurnKind = "send", attachments: Iterable[AttachmentInput] = ()
    ) -> Generator[ReplyPiece]:
        """Run a turn and iterate over the reply as it arrives; leaving the loop stops it and keeps the partial reply.

        Args:
            text: What the user says.
            kind: The operation, as for ``Conversation.stream()``.
            attachments: Files sent with the user's message.
        """
        stream = self.conversation.stream(text, kind=kind, attachments=attachments)

        async def read() -> ReplyPiece | None:
            return await anext(stream, None)

        reader = threading.get_ident()
        self._refuse_if_reading()
        self._readers[reader] += 1
        try:
            while (piece := self._run(read(), is_operation=False)) is not None:
                yield piece
        finally:
            self._readers[reader] -= 1
            if not self._thread.is_closed:
                self._run(stream.aclose(), is_operation=False)

    def begin(
        self, text: str = "", *, kind: TurnKind = "send", attachments: Iterable[AttachmentInput] = ()
    ) -> BlockingPendingTurn:
        """Begin a turn and return it with its prompt. You ask a model yourself and pass on the reply.

        Args:
            text: What the user says, as for ``stream()``.
            kind: The operation, as for ``stream()``.
            attachments: Files sent with the user's message.
        """
        begun = self._run(self.conversation.begin(text, kind=kind, attachments=attachments))
        pending = BlockingPendingTurn(begun, self._run)
        with self._pending_lock:
            self._pending.add(pending)
        return pending

    def regenerate(self) -> Turn:
        """Ask for the last reply again."""
        return self._run(self.conversation.regenerate())

    def swipe(self, direction: Literal["left", "right"] = "right") -> Turn:
        """Show the next swipe of the last reply; right of the newest one, ask for another."""
        return self._run(self.conversation.swipe(direction))

    def continue_reply(self, text: str = "") -> Turn:
        """Let the model continue the last message."""
        return self._run(self.conversation.continue_reply(text))

    def impersonate(self) -> Turn:
        """Let the model write the user's next message. It is returned, not stored."""
        return self._run(self.conversation.impersonate())

    def quiet(self, prompt: str) -> Turn:
        """Ask something outside the chat. The answer is returned, not stored."""
        return self._run(self.conversation.quiet(prompt))

    def speak(self, member: str) -> Turn:
        """Let this member of the group speak next, even if muted."""
        return self._run(self.conversation.speak(member))

    def preview(self, text: str = "") -> Plan:
        """Return the prompt that ``send()`` would send."""
        return self.conversation.preview(text)

    def choose_greeting(self, index: int) -> None:
        """Show another greeting."""
        self._run(self.conversation.choose_greeting(index))

    def edit(self, index: int, text: str) -> None:
        """Replace the text of a line.

        Args:
            index: The number of the line; -1 is the last.
            text: Its new text.
        """
        self._run(self.conversation.edit(index, text))

    def delete(self, index: int) -> None:
        """Delete a line."""
        self._run(self.conversation.delete(index))

    def delete_from(self, index: int) -> None:
        """Delete a line and all after it."""
        self._run(self.conversation.delete_from(index))

    def hide(self, start: int, end: int | None = None) -> None:
        """Keep lines out of prompts.

        Args:
            start: The first line.
            end: The last line; by default the same.
        """
        self._run(self.conversation.hide(start, end))

    def unhide(self, start: int, end: int | None = None) -> None:
        """Include hidden lines in prompts again.

        Args:
            start: The first line.
            end: The last line; by default the same.
        """
        self._run(self.conversation.unhide(start, end))

    def branch(self, index: int = -1, *, store: ConversationStore | None = None) -> Conversation:
        """Return a new conversation with a copy of the chat up to a line; call its ``blocking()`` to use it.

        Args:
            index: The last line of the branch.
            store: Where the branch is saved; next to this conversation by default.
        """
        return self._run(self.conversation.branch(index, store=store))

    def adopt(self, conversation: Conversation) -> None:
        """Switch to another conversation that uses the same model, such as a branch."""
        self.conversation = conversation

    def undo(self) -> bool:
        """Take back the last operation; returns False if there is none."""
        return self._run(self.conversation.undo())

    def save(self) -> None:
        """Save the chat; every operation does this automatically."""
        self._run(self.conversation.save())

    def close(self) -> None:
        """Save, close the model, and end the thread."""
        if self._thread.is_closed:
            return
        try:
            self._run(self.conversation.aclose(), is_operation=False)
        finally:
            self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, _T], *, is_operation: bool = True) -> _T:
        """Run a coroutine to its end.

        Args:
            work: The coroutine.
            is_operation: It must not start while the same thread reads a stream. Reading a piece of a stream is not an
                operation: its turn continues until the stream is closed.

        Raises:
            ConversationBusyError: This thread holds a stream open, for which the operation would wait forever.
        """
        if is_operation and not self._thread.is_closed:
            try:
                self._refuse_if_reading()
            except ConversationBusyError:
                work.close()
                raise
        return self._thread.run(work)

    def _refuse_if_reading(self) -> None:
        thread = threading.get_ident()
        if self._readers[thread]:
            raise ConversationBusyError("a reply is still being read: read it to its end or close the stream first")
        with self._pending_lock:
            waiting = any(each.plan is not None and each.opener == thread for each in self._pending)
        if waiting:
            raise ConversationBusyError("a turn still waits for a reply: pass it to receive(), or close the turn first")


class BlockingPendingTurn:
    """A ``PendingTurn`` whose methods return when they are done.

    Args:
        pending: The turn.
        run: Runs a coroutine to its end.
    """

    def __init__(self, pending: PendingTurn, run: Run) -> None:
        self.opener = threading.get_ident()
        self._pending = pending
        self._run = run

    @property
    def plan(self) -> Plan | None:
        """The prompt to send next; None when the turn has ended."""
        return self._pending.plan

    @property
    def turn(self) -> Turn:
        """What the turn did, when it has ended."""
        return self._pending.turn

    def receive(self, reply: Reply | str) -> None:
        """Take the reply to ``plan``, do what follows from it, and save the chat.

        Args:
            reply: A ``Reply``, or the model's text.
        """
        self._run(self._pending.receive(reply), is_operation=False)

    def fail(self, reason: str) -> None:
        """Say that there is no reply to ``plan``.

        Args:
            reason: What went wrong, in words for the user.

        Raises:
            ModelError: The turn has ended because of it.
        """
        self._run(self._pending.fail(reason), is_operation=False)

    def close(self) -> None:
        """End the turn without a reply."""
        if self.plan is not None:  # otherwise it has ended, perhaps with its conversation
            self._run(self._pending.aclose(), is_operation=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
