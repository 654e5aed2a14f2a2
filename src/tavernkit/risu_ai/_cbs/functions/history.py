"""The messages of the chat."""

from __future__ import annotations

from tavernkit._text.js_values import number_to_string
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.functions.identity import selected
from tavernkit.risu_ai._cbs.lists import make_array, stringify
from tavernkit.risu_ai._cbs.registry import FunctionGroup
from tavernkit.risu_ai._cbs.signals import FunctionFailure
from tavernkit.risu_ai._objects import RisuMessage

functions = FunctionGroup("history")


def message_at(call: CBSCall, index: int) -> RisuMessage:
    """Return a message; fails if there is none with that index."""
    messages = call.context.chat.messages
    if call.context.character is None or not 0 <= index < len(messages):
        raise FunctionFailure(f"there is no message {index}")
    return messages[index]


def _expanded(call: CBSCall, message: RisuMessage) -> str:
    return stringify({**message.to_json(), "data": call.expand(message.data, "the message")})


@functions("history", "messages", args=("role",))
def history(call: CBSCall) -> str:
    """All messages with the greeting as a list of JSON texts, expanded; with an argument their raw texts.

    With the argument ``role``, each raw text is preceded by its role.
    """
    selected(call)
    messages = call.context.chat.messages
    call.walk(len(messages))
    if call.args:
        named = "role" in call.args
        return make_array(f"{each.role}: {each.data}" if named else each.data for each in messages)
    greeting = call.expand(call.context.greeting, "the greeting")
    return make_array([stringify({"role": "char", "data": greeting}), *(_expanded(call, each) for each in messages)])


@functions("userhistory", "usermessages", "user_history")
def userhistory(call: CBSCall) -> str:
    """The user's messages as a list of JSON texts, expanded."""
    selected(call)
    call.walk(len(call.context.chat.messages))
    return make_array(_expanded(call, each) for each in call.context.chat.messages if each.role == "user")


@functions("charhistory", "charmessages", "char_history")
def charhistory(call: CBSCall) -> str:
    """The character's messages as a list of JSON texts, expanded."""
    selected(call)
    call.walk(len(call.context.chat.messages))
    return make_array(_expanded(call, each) for each in call.context.chat.messages if each.role == "char")


def _before(call: CBSCall, role: str, index: int) -> str:
    messages = call.context.chat.messages
    if index > len(messages):
        raise FunctionFailure(f"there is no message {index}")
    for place in range(index - 1, -1, -1):
        if messages[place].role == role:
            call.walk(index - place)
            return messages[place].data
    call.walk(index)
    greeting = call.context.greeting
    if greeting is None:
        raise FunctionFailure("the greeting is missing")
    return greeting


@functions("previouscharchat", "lastcharmessage")
def previouscharchat(call: CBSCall) -> str:
    """The character's last message before this one, or the greeting; not expanded."""
    selected(call)
    index = call.context.chat_index
    return _before(call, "char", len(call.context.chat.messages) if index == -1 else index)


@functions("previoususerchat", "lastusermessage")
def previoususerchat(call: CBSCall) -> str:
    """The user's last message before this one, or the greeting; not expanded; empty outside a message."""
    if call.context.chat_index == -1:
        return ""
    selected(call)
    return _before(call, "user", call.context.chat_index)


@functions("lastmessage")
def lastmessage(call: CBSCall) -> str:
    """The last message, not expanded."""
    if call.context.character is None:
        return ""
    return message_at(call, len(call.context.chat.messages) - 1).data


@functions("lastmessageid", "lastmessageindex")
def lastmessageid(call: CBSCall) -> str:
    """The index of the last message."""
    return "" if call.context.character is None else str(len(call.context.chat.messages) - 1)


@functions("previouschatlog", "previous_chat_log", args=("index",))
def previouschatlog(call: CBSCall) -> str:
    """The message with that index, not expanded, or ``Out of range``."""
    index = call.number(0)
    messages = call.context.chat.messages
    if call.context.character is None or not 0 <= index < len(messages) or index != int(index):
        return "Out of range"
    return messages[int(index)].data


@functions("messageunixtimearray", "message_unixtime_array")
def messageunixtimearray(call: CBSCall) -> str:
    """The times of all messages as a list, ``0`` where there is none."""
    selected(call)
    call.walk(len(call.context.chat.messages))
    return make_array(number_to_string(each.time or 0) for each in call.context.chat.messages)
