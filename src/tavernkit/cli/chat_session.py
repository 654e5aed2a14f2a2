"""A conversation with a character: the chat so far, the builder and the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tavernkit.models import Model, Reply, Request
from tavernkit.prompt.plan import Plan
from tavernkit.silly_tavern import ChatFile, ChatMessage
from tavernkit.values import JsonObject, freeze_object, thaw_object


def utc_now() -> datetime:
    """Tell the time."""
    return datetime.now(UTC)


@dataclass(slots=True, kw_only=True)
class ChatSession:
    """What is said, saved after every turn in SillyTavern's JSONL.

    ``build`` makes the plan of a turn (``history``, ``message``, ``generation_type``); ``plan`` is the last one.
    """

    build: Callable[..., Plan]
    model: Model
    character_name: str
    user_name: str
    chat: ChatFile
    path: Path
    clock: Callable[[], datetime] = utc_now
    plan: Plan | None = field(default=None)

    def send(self, text: str, on_delta: Callable[[str], object]) -> str:
        """Say something and get the reply."""
        history = self.chat
        reply = self._ask(history, text, "normal", on_delta)
        user = ChatMessage(name=self.user_name, is_user=True, mes=text, send_date=self._now())
        self.chat = history.with_messages(user, self._reply(reply))
        self.save()
        return reply

    def swipe(self, on_delta: Callable[[str], object]) -> str | None:
        """Ask for another version of the last reply; nothing if there is no reply."""
        last = self._last_reply()
        if last is None:
            return None
        reply = self._ask(self.chat, "", "swipe", on_delta)
        swipes = [*(last.swipes or [last.mes]), reply]
        self._replace_last(last.replace(mes=reply, swipes=tuple(swipes), swipe_id=len(swipes) - 1))
        self.save()
        return reply

    def turn_swipe(self, step: int) -> tuple[str, int, int] | None:
        """Go to a neighbouring version of the last reply: its text, number and how many there are."""
        last = self._last_reply()
        if last is None or not last.swipes:
            return None
        at = ((last.swipe_id or 0) + step) % len(last.swipes)
        self._replace_last(last.replace(mes=last.swipes[at], swipe_id=at))
        self.save()
        return last.swipes[at], at + 1, len(last.swipes)

    def undo(self) -> bool:
        """Take back the last exchange."""
        messages = list(self.chat.messages)
        while messages and not messages[-1].is_user:
            messages.pop()
        if not messages:
            return False
        self.chat = ChatFile(tuple(messages[:-1]), self.chat.metadata, self.chat.header, self.chat.name)
        self.save()
        return True

    def save(self) -> None:
        """Write the chat to its file."""
        header: JsonObject = {
            "user_name": self.user_name,
            "character_name": self.character_name,
            **thaw_object(self.chat.header),
        }
        header.setdefault("create_date", self._now())
        self.chat = ChatFile(self.chat.messages, self.chat.metadata, freeze_object(header), self.chat.name)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.chat.save(self.path)

    def _ask(self, history: ChatFile, text: str, kind: str, on_delta: Callable[[str], object]) -> str:
        self.plan = self.build(history=history, message=text, generation_type=kind)
        return asyncio.run(_sent(self.model, self.plan.request(), on_delta)).text.strip()

    def _reply(self, text: str) -> ChatMessage:
        return ChatMessage(name=self.character_name, mes=text, send_date=self._now(), swipes=(text,), swipe_id=0)

    def _last_reply(self) -> ChatMessage | None:
        last = self.chat.messages[-1] if self.chat.messages else None
        return None if last is None or last.is_user else last

    def _replace_last(self, message: ChatMessage) -> None:
        self.chat = ChatFile((*self.chat.messages[:-1], message), self.chat.metadata, self.chat.header, self.chat.name)

    def _now(self) -> str:
        return self.clock().isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def _sent(model: Model, request: Request, on_delta: Callable[[str], object]) -> Reply:
    async with model:  # connections belong to the event loop of this turn
        return await model.send(request, on_delta=lambda piece: on_delta(piece.text) if piece.text else None)
