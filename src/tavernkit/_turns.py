"""Turns of a chat: what both platforms' chats can do, and what they need from the program that runs them.

``tavernkit.silly_tavern.Chat`` and ``tavernkit.risu_ai.Chat`` hold the state of one chat and know what every operation
does to it. They neither talk to a model nor write files: a ``Host`` does. ``tavernkit.Conversation`` is a host
with a model and a store; the service has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.models._reply import Reply, ReplyPiece, ToolCall
from tavernkit.prompt._plan import Plan

TurnKind: TypeAlias = Literal["send", "regenerate", "swipe", "continue", "impersonate", "quiet", "speak"]
"""The operations that may ask a model."""
OnPiece: TypeAlias = Callable[[ReplyPiece], object]
"""Called with each piece of a streamed reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request of a turn and its reply."""

    plan: Plan
    """The prompt that was sent."""
    reply: Reply
    """What the model answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What an operation did: the requests it made, and the text that came out of it."""

    kind: TurnKind
    """The operation: ``send``, ``swipe``, ``continue``, …"""
    text: str = ""
    """The last reply as it is stored; for ``impersonate`` and ``quiet`` the returned text."""
    exchanges: tuple[Exchange, ...] = ()
    """Requests and replies in order; empty if no request was needed, e.g. for a swipe that already existed."""

    @property
    def plan(self) -> Plan | None:
        """The prompt that the last reply saw."""
        return self.exchanges[-1].plan if self.exchanges else None

    @property
    def reply(self) -> Reply | None:
        """The last reply as the model gave it."""
        return self.exchanges[-1].reply if self.exchanges else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """The result of a tool call."""

    result: str
    """The text that goes back to the model."""
    failed: bool = False
    """True if ``result`` is a message about an error."""


class Host(Protocol):
    """What a chat needs from the program that runs it."""

    async def ask(self, plan: Plan, *, on_piece: OnPiece | None = None) -> Reply:
        """Send a prompt to the model and return its reply.

        Args:
            plan: The prompt; the host turns it into a request for its model.
            on_piece: Called with each piece if the host streams. The chat keeps the text so far if this method raises.

        Raises:
            ModelError: There is no usable reply.
        """
        ...

    async def checkpoint(self) -> None:
        """Save the chat as it is now. Called before a model is asked and after every change."""
        ...

    async def call_tool(self, call: ToolCall) -> ToolOutcome:
        """Run a tool that the model asked for. Errors of the tool are outcomes, not exceptions."""
        ...


class Chat(Protocol):
    """One chat with its state. Indexes count the lines from 0, as they are in the file; negative ones from the end.

    Operations that may ask a model are coroutines and return a ``Turn``. The others change the chat at once; the
    host saves afterwards. An operation that does not apply (swiping a user's line, say) does nothing.
    """

    host: Host

    async def send(self, text: str = "") -> Turn:
        """Store the user's message and ask for a reply; in a group, for one of each speaker whose turn it is."""
        ...

    async def regenerate(self) -> Turn:
        """Ask for the last reply (in a group: the last round) again."""
        ...

    async def swipe(self, direction: Literal["left", "right"] = "right") -> Turn:
        """Show the next swipe of the last reply; right of the newest one, ask for another."""
        ...

    async def continue_reply(self, text: str = "") -> Turn:
        """Let the model continue the last message."""
        ...

    async def impersonate(self) -> Turn:
        """Let the model write the user's next message. It is returned, not stored."""
        ...

    async def quiet(self, prompt: str) -> Turn:
        """Ask something outside the chat. The answer is returned, not stored."""
        ...

    async def speak(self, member: str) -> Turn:
        """Let this member of the group speak next, even if muted."""
        ...

    def preview(self, text: str = "") -> Plan:
        """Return the prompt that ``send()`` would send. Nothing changes."""
        ...

    def choose_greeting(self, index: int) -> None:
        """Show another greeting. 0 is the first message, 1 the first alternate."""
        ...

    def edit(self, index: int, text: str) -> None:
        """Replace the text of a line.

        Args:
            index: The number of the line; -1 is the last.
            text: Its new text.
        """
        ...

    def delete(self, index: int) -> None:
        """Delete a line."""
        ...

    def delete_from(self, index: int) -> None:
        """Delete a line and all after it."""
        ...

    def hide(self, start: int, end: int | None = None) -> None:
        """Keep lines ``start`` to ``end`` (included) out of prompts."""
        ...

    def unhide(self, start: int, end: int | None = None) -> None:
        """Include hidden lines in prompts again.

        Args:
            start: The first line.
            end: The last line, included; only ``start`` by default.
        """
        ...

    def branch(self, index: int) -> Chat:
        """Return a copy of the chat that ends with this line."""
        ...

    @property
    def lines(self) -> Sequence[Mapping[str, object]]:
        """The lines of the chat, in the platform's own format."""
        ...

    def snapshot(self) -> JsonObject:
        """Return everything that a turn may change, as JSON. Stores save it, and undo restores it."""
        ...

    def restore(self, snapshot: Mapping[str, object]) -> None:
        """Go back to a snapshot."""
        ...
