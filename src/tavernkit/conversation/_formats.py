"""Chats as stores keep them: in their program's own format, plus data that does not fit into it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, NoReturn

from tavernkit._turns import Chat, Host, OnPiece, ToolOutcome
from tavernkit._values import Json, JsonObject
from tavernkit.conversation._stores import SavedChat
from tavernkit.conversation._undo import IN_THE_FILE, UNDO, FileDigest, UndoHistory
from tavernkit.errors import ConfigError
from tavernkit.models._reply import Reply, ToolCall
from tavernkit.prompt._plan import Plan
from tavernkit.risu_ai._conversation.chat import Chat as RisuAIChat
from tavernkit.silly_tavern._conversation.chat import Chat as SillyTavernChat
from tavernkit.silly_tavern._conversation.chat_state import OF_ONE_RUN

GLOBALS: Final = "global_variables"
FILE: Final = "file"
"""The key of the digest of the file that a state belongs to."""

_NOT_KEPT: Final = frozenset((*OF_ONE_RUN, "branches"))
"""Parts that SillyTavern does not keep, or reads from its folder."""


def saved_chat(chat: Chat, undo: UndoHistory | None = None, snapshot: JsonObject | None = None) -> SavedChat:
    """Return a chat as a store keeps it.

    Args:
        chat: The chat.
        undo: The undo history.
        snapshot: The chat's snapshot, if one was just taken.
    """
    if snapshot is None:
        snapshot = chat.snapshot()
    if isinstance(chat, SillyTavernChat):
        file = chat.state.file_parts(look=False)
    elif isinstance(chat, RisuAIChat):
        file = chat.file_parts()
    else:  # the application's own kind of chat
        return SavedChat(file=json.dumps(snapshot, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    skipped = IN_THE_FILE | _NOT_KEPT
    state: JsonObject = {key: value for key, value in snapshot.items() if key not in skipped and value}
    if undo is not None and (steps := undo.to_json(snapshot)):
        state[UNDO] = steps
    if set(state) - {GLOBALS, UNDO}:
        state[FILE] = (FileDigest() if undo is None else undo.file_digest).of(file)
    return SavedChat(file=file, state=state)


def line_count(chat: Chat) -> int:
    """Return how many lines a chat has. Nobody gets them, so none can have changed."""
    if isinstance(chat, SillyTavernChat):
        return len(chat.state.turn_lines)
    return len(chat.chat.messages) if isinstance(chat, RisuAIChat) else len(chat.lines)


def turn_of(chat: Chat) -> AbstractContextManager[None]:
    """Run a turn of a chat: lines that it does not change are looked at once."""
    return chat.state.turn() if isinstance(chat, SillyTavernChat) else nullcontext()


def restore_state(chat: Chat, saved: SavedChat | None) -> None:
    """Restore the state that was saved with a chat's file.

    If another program has changed the file since, only global variables are taken.
    """
    if saved is None or not saved.state:
        return
    same = saved.state.get(FILE) == FileDigest().of(saved.parts)
    state: dict[str, Json] = {key: value for key, value in saved.state.items() if key == GLOBALS or same}
    for key in (FILE, UNDO):
        state.pop(key, None)
    if state:
        chat.restore({**chat.snapshot(), **state})


def chat_name(chat: Chat) -> str:
    """Return the name that a chat's program gives it."""
    if isinstance(chat, SillyTavernChat):
        return chat.chat_id
    return chat.chat.name if isinstance(chat, RisuAIChat) else ""


def reserve_names(chat: Chat, names: Iterable[str]) -> None:
    """Prevent a chat from using one of these names for a branch."""
    if isinstance(chat, SillyTavernChat):
        chat.state.branches.update(names)


class _NoHost:
    """Placeholder until a conversation becomes the host."""

    async def ask(self, plan: Plan, *, on_piece: OnPiece | None = None) -> Reply:
        self._refuse()

    async def checkpoint(self) -> None:
        self._refuse()

    async def call_tool(self, call: ToolCall) -> ToolOutcome:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ConfigError("this chat belongs to no conversation yet")


NO_HOST: Final[Host] = _NoHost()
