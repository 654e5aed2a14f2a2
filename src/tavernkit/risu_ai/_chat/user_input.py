"""Stores the user's new message in the chat."""

from __future__ import annotations

from tavernkit.risu_ai._chat.chat_log import with_messages
from tavernkit.risu_ai._objects import RisuMessage
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai._triggers.build_triggers import run_build_triggers

SAYS_NOTHING = "*says nothing*"


def take_message(state: RisuState) -> None:
    """Store the text of the input box in the chat: input triggers first, then Lua, CBS and ``editinput`` scripts."""
    text = state.context.message
    if not text:
        if _says_nothing(state):
            # As in RisuAI: no triggers, no scripts, no time.
            _append(state, RisuMessage(role="user", data=SAYS_NOTHING))
        return
    if state.in_group:
        # A group stores the text as it was typed; its macros run with the first speaker's prompt.
        _append(state, RisuMessage(role="user", data=text, time=state.milliseconds))
        return
    run_build_triggers(state, "input")
    _append(state, RisuMessage(role="user", data=state.edit_input(text), time=state.milliseconds))


def _says_nothing(state: RisuState) -> bool:
    context = state.context
    if not context.say_nothing or state.in_group:
        return False
    if context.continued and context.quirks != "reference":
        return False  # RisuAI would overwrite what it added with the continued reply
    return not state.chat.messages or state.chat.messages[-1].role != "user"


def _append(state: RisuState, message: RisuMessage) -> None:
    state.see_chat(state.services.chats.with_ids(with_messages(state.chat, (*state.chat.messages, message))))
