"""What the user just wrote, on its way into the chat."""

from __future__ import annotations

from tavernkit.risu_ai.chat.chat_log import with_ids, with_messages
from tavernkit.risu_ai.objects import RisuMessage
from tavernkit.risu_ai.state import RisuState
from tavernkit.risu_ai.triggers.build_runs import run_triggers


def take_message(state: RisuState) -> None:
    """Put the text of the input box into the chat: input triggers first, then Lua, CBS and ``editinput`` scripts."""
    text = state.context.message
    if not text:
        return
    if not state.in_group:
        run_triggers(state, "input")
    message = RisuMessage(role="user", data=state.edit_input(text))
    state.see_chat(with_ids(with_messages(state.chat, (*state.chat.messages, message))))
