"""Chats as stores keep them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tavernkit.conversation.stores import SavedChat
from tavernkit.turns import Chat


def saved_chat(chat: Chat) -> SavedChat:
    """Return a chat in its program's own format, and what that format has no place for."""
    return SavedChat(file=json.dumps(chat.snapshot(), ensure_ascii=False).encode("utf-8", "surrogatepass"))


def chat_name(chat: Chat) -> str:
    """Return the name that the chat's program gives it."""
    return str(getattr(chat, "name", ""))


def reserve_names(chat: Chat, names: Iterable[str]) -> None:
    """Keep a chat from giving one of these names to a branch."""
