"""A turn whose requests the application sends itself."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeAlias

from tavernkit._arguments import require
from tavernkit._turns import Turn
from tavernkit.errors import ConfigError
from tavernkit.models._reply import Reply
from tavernkit.models.errors import ModelError
from tavernkit.prompt._plan import Plan

Send: TypeAlias = Callable[[Plan], Coroutine[Any, Any, Reply]]
"""Sends a prompt and returns the reply."""


class PendingTurn:
    """A turn that waits for a reply: ask any model for ``plan`` in any way, and pass what it says to ``receive()``.

    Most turns need one reply. Tools, groups, triggers and summaries of long-term memory may need more: ``plan`` is then
    the next prompt, and None when the turn has ended.

    >>> pending = await chat.begin("Who lit the lamp?")             # doctest: +SKIP
    >>> while pending.plan is not None:                             # doctest: +SKIP
    ...     await pending.receive(my_model(pending.plan.to_messages()))
    >>> pending.turn.text, chat.changes.lines                       # doctest: +SKIP

    The conversation is busy until the turn ends. ``aclose()``, leaving ``async with`` or dropping this object ends it
    without a reply; the user's message stays in the chat, as when a model fails.
    """

    def __init__(self, run: Callable[[Send], Coroutine[Any, Any, Turn]]) -> None:
        self.plan: Plan | None = None
        """The prompt to send next; None when the turn has ended."""
        task = asyncio.current_task()
        # A task that returns this object would keep it forever.
        self._opener = None if task is None else weakref.ref(task)
        self._asked: asyncio.Queue[tuple[Plan, asyncio.Future[Reply]] | None] = asyncio.Queue()
        self._answer: asyncio.Future[Reply] | None = None
        asked = self._asked

        async def send(plan: Plan) -> Reply:
            answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            asked.put_nowait((plan, answer))
            return await answer

        # The task must not reference this object: garbage collection tells us that nobody will answer.
        self._task = asyncio.create_task(run(send))
        self._task.add_done_callback(lambda _: asked.put_nowait(None))

    @property
    def turn(self) -> Turn:
        """What the turn did.

        Raises:
            ConfigError: It has not ended.
        """
        if not self._task.done() or self._task.cancelled():
            raise ConfigError(
                "the turn is not complete: pass replies to receive() until plan is None", code="TURN_NOT_ENDED"
            )
        return self._task.result()

    @property
    def open_in_current_task(self) -> bool:
        """True while the turn waits and the running task is the one that began it."""
        opener = None if self._opener is None else self._opener()
        return not self._task.done() and opener is asyncio.current_task()

    async def next_plan(self) -> None:
        """Wait until the turn needs a reply or has ended.

        Raises:
            ConfigError: The turn was closed meanwhile.
        """
        try:
            asked = await self._asked.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        self.plan, self._answer = (None, None) if asked is None else asked
        if asked is not None:
            return
        if self._task.cancelled():
            raise ConfigError("the turn was closed before it was complete", code="TURN_ENDED")
        self._task.result()

    async def receive(self, reply: Reply | str) -> None:
        """Take the reply to ``plan``: clean it up, run scripts and triggers, store it, and save the chat.

        Args:
            reply: A ``Reply``, or the model's text.

        Raises:
            ConfigError: The turn waits for no reply, or was closed meanwhile.
            StoreError: The chat could not be saved.
        """
        require("reply", reply, Reply | str, "a Reply or the model's text")
        self._waiting().set_result(Reply(text=reply) if isinstance(reply, str) else reply)
        await self.next_plan()

    async def fail(self, reason: str) -> None:
        """Say that there is no reply to ``plan``. RisuAI goes on without a summary, for example; other turns end.

        Args:
            reason: What went wrong, in words for the user.

        Raises:
            ModelError: The turn has ended because of it.
        """
        require("reason", reason, str)
        self._waiting().set_exception(ModelError(reason))
        await self.next_plan()

    async def aclose(self) -> None:
        """End the turn without a reply. Returns when the chat is saved."""
        self.plan = self._answer = None
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # nobody else reads it

    def _waiting(self) -> asyncio.Future[Reply]:
        if self._answer is None or self._answer.done():
            raise ConfigError("the turn waits for no reply", code="TURN_ENDED")
        return self._answer

    def __del__(self) -> None:
        if not self._task.done():
            with suppress(RuntimeError):  # its event loop is closed
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
