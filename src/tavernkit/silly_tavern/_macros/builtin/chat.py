"""The messages of the chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._macros.call import MacroCall
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.registry import MacroRegistry

macros = MacroRegistry()


def last_index(environment: MacroEnvironment) -> int | None:
    """Return the index of the newest message; a message whose next swipe is being generated does not count."""
    return environment.place_in_chat("last", lambda: _newest(environment.chat, lambda _line: True))


def last_text(environment: MacroEnvironment, *, by_user: bool) -> str:
    """Return the text of the newest visible message of the user, or of others."""

    def wanted(line: ChatMessage) -> bool:
        return line.is_user == by_user and not line.is_system

    name = "last by user" if by_user else "last by others"
    index = environment.place_in_chat(name, lambda: _newest(environment.chat, wanted))
    return "" if index is None else environment.chat[index].mes


def _newest(chat: Sequence[ChatMessage], wanted: Callable[[ChatMessage], bool]) -> int | None:
    places = range(len(chat) - 1, -1, -1)
    return next((at for at in places if not _in_progress(chat[at]) and wanted(chat[at])), None)


def last_swipe_count(environment: MacroEnvironment) -> int | None:
    """Return the number of swipes of the newest message; None if it has no list of them."""
    chat = environment.chat
    return len(chat[-1].swipes) if chat and chat[-1].swipes is not None else None


def index_range(environment: MacroEnvironment) -> str:
    """The range of all message indexes, such as ``0-7``."""
    chat = environment.chat
    return f"0-{len(chat) - 1}" if chat else ""


def _in_progress(line: ChatMessage) -> bool:
    return line.swipes is not None and line.swipe_id is not None and line.swipe_id >= len(line.swipes)


@macros.macro("lastMessage", category="chat")
def last_message(call: MacroCall) -> str:
    """The text of the last message."""
    index = last_index(call.environment)
    return "" if index is None else call.environment.chat[index].mes


@macros.macro("lastMessageId", category="chat", returns="integer")
def last_message_id(call: MacroCall) -> object:
    """The index of the last message."""
    return last_index(call.environment)


@macros.macro("lastUserMessage", category="chat")
def last_user_message(call: MacroCall) -> str:
    """The text of the user's last message."""
    return last_text(call.environment, by_user=True)


@macros.macro("lastCharMessage", category="chat")
def last_char_message(call: MacroCall) -> str:
    """The text of the character's last message."""
    return last_text(call.environment, by_user=False)


@macros.macro("firstIncludedMessageId", category="chat", returns="integer")
def first_included_message_id(call: MacroCall) -> object:
    """The index of the first message in the last prompt."""
    index = call.environment.first_included_message_id
    return index if isinstance(index, (int, float)) and not isinstance(index, bool) else ""


@macros.macro("firstDisplayedMessageId", category="chat", returns="integer")
def first_displayed_message_id(call: MacroCall) -> object:
    """The index of the first message on the screen."""
    return call.environment.first_displayed_message_id


@macros.macro("lastSwipeId", category="chat", returns="integer")
def last_swipe_id(call: MacroCall) -> object:
    """How many swipes the newest message has."""
    return last_swipe_count(call.environment)


@macros.macro("currentSwipeId", category="chat", returns="integer")
def current_swipe_id(call: MacroCall) -> object:
    """The number of the swipe that the newest message shows, from 1."""
    chat = call.environment.chat
    return chat[-1].swipe_id + 1 if chat and chat[-1].swipe_id is not None else ""


@macros.macro("allChatRange", category="chat")
def all_chat_range(call: MacroCall) -> str:
    """The range of all message indexes, such as 0-7."""
    return index_range(call.environment)
