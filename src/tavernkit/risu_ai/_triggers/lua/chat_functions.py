"""Functions for variables and messages."""

from __future__ import annotations

import dataclasses

from tavernkit._text.js_values import UNDEFINED, json_parse, json_stringify, to_number, to_string
from tavernkit._values import FrozenJson, Json, is_object
from tavernkit.risu_ai._js import at_index, slice_index
from tavernkit.risu_ai._objects import RisuMessage
from tavernkit.risu_ai._triggers.lua.api import Access, LuaCall, LuaFunctionTable, argument, passed
from tavernkit.risu_ai._triggers.signals import TriggerFailedError

functions = LuaFunctionTable()


@functions.function("getChatVar")
def get_variable(call: LuaCall, arguments: list[Json]) -> str:
    """Read a chat variable."""
    return call.get_variable(to_string(passed(arguments, 0)))


@functions.function("setChatVar", access=Access.DISPLAY, kind="void")
def set_variable(call: LuaCall, arguments: list[Json]) -> None:
    """Write a chat variable."""
    call.set_variable(to_string(passed(arguments, 0)), passed(arguments, 1))


@functions.function("getGlobalVar")
def get_global_variable(call: LuaCall, arguments: list[Json]) -> str:
    """Read a global variable."""
    return call.world.context.global_variable(to_string(passed(arguments, 0)))


@functions.function("stopChat", access=Access.SAFE, kind="void")
def stop_chat(call: LuaCall, arguments: list[Json]) -> None:
    """Send nothing after this run."""
    if call.made_sandbox:
        call.stop_sending = True


def _number(value: Json) -> float:
    return to_number(UNDEFINED if value is None else value)


def _readable(message: RisuMessage) -> dict[str, FrozenJson]:
    return {"role": message.role, "data": message.data, "time": message.time or 0}


def _role(value: Json) -> str:
    return "user" if value == "user" else "char"


@functions.function("getChatMain")
def get_message(call: LuaCall, arguments: list[Json]) -> str:
    """Read a message as JSON."""
    messages = call.messages
    index = at_index(_number(argument(arguments, 0)), len(messages))
    return json_stringify(None if index is None else _readable(messages[index]))


@functions.function("getFullChatMain")
def get_messages(call: LuaCall, arguments: list[Json]) -> str:
    """Read all messages as JSON."""
    return json_stringify([_readable(message) for message in call.messages])


@functions.function("getChatLength")
def count_messages(call: LuaCall, arguments: list[Json]) -> int:
    """Count the messages."""
    return len(call.messages)


def _change(call: LuaCall, number: Json, **changes: str) -> None:
    messages = call.messages
    index = at_index(_number(number), len(messages))
    if index is not None:
        messages[index] = dataclasses.replace(messages[index], **changes)
        call.set_messages(messages)


@functions.function("setChat", access=Access.SAFE, kind="void")
def set_message(call: LuaCall, arguments: list[Json]) -> None:
    """Replace the text of a message."""
    _change(call, argument(arguments, 0), data=call.text(argument(arguments, 1)))


@functions.function("setChatRole", access=Access.SAFE, kind="void")
def set_role(call: LuaCall, arguments: list[Json]) -> None:
    """Change the role of a message."""
    _change(call, argument(arguments, 0), role=_role(argument(arguments, 1)))


@functions.function("addChat", access=Access.SAFE, kind="void")
def add_message(call: LuaCall, arguments: list[Json]) -> None:
    """Append a message."""
    added = RisuMessage(role=_role(argument(arguments, 0)), data=call.text(argument(arguments, 1)))
    call.set_messages([*call.messages, added])


@functions.function("insertChat", access=Access.SAFE, kind="void")
def insert_message(call: LuaCall, arguments: list[Json]) -> None:
    """Insert a message."""
    messages = call.messages
    added = RisuMessage(role=_role(argument(arguments, 1)), data=call.text(argument(arguments, 2)))
    messages.insert(slice_index(_number(argument(arguments, 0)), len(messages)), added)
    call.set_messages(messages)


@functions.function("removeChat", access=Access.SAFE, kind="void")
def remove_message(call: LuaCall, arguments: list[Json]) -> None:
    """Remove a message."""
    messages = call.messages
    index = slice_index(_number(argument(arguments, 0)), len(messages))
    del messages[index : index + 1]
    call.set_messages(messages)


@functions.function("cutChat", access=Access.SAFE, kind="void")
def cut_messages(call: LuaCall, arguments: list[Json]) -> None:
    """Keep a slice of the messages."""
    messages = call.messages
    last = slice_index(_number(arguments[1]), len(messages)) if len(arguments) > 1 else len(messages)
    call.set_messages(messages[slice_index(_number(argument(arguments, 0)), len(messages)) : last])


@functions.function("setFullChatMain", access=Access.SAFE, kind="void")
def set_messages(call: LuaCall, arguments: list[Json]) -> None:
    """Replace all messages with those of a JSON list; only roles and texts are used.

    A long chat is not one long text: its messages count one by one.
    """
    given = argument(arguments, 0)
    value = json_parse("" if given is None else to_string(given))
    if not isinstance(value, list):
        raise TriggerFailedError("setFullChat takes a list of messages")
    found = [each if is_object(each) else {} for each in value]
    call.set_messages(
        [RisuMessage(role=call.text(each.get("role")), data=call.text(each.get("data"))) for each in found]
    )


@functions.function("getCharacterLastMessage")
def get_character_message(call: LuaCall, arguments: list[Json]) -> str:
    """Read the character's last message, or its first message."""
    found = next((message.data for message in reversed(call.messages) if message.role == "char"), None)
    return call.world.selected.first_message or "" if found is None else found


@functions.function("getUserLastMessage")
def get_user_message(call: LuaCall, arguments: list[Json]) -> str:
    """Read the user's last message."""
    return next((message.data for message in reversed(call.messages) if message.role == "user"), "")


@functions.function("cbs", keyed=False)
def expand(call: LuaCall, arguments: list[Json]) -> str:
    """Expand a CBS text."""
    return call.world.cbs(argument(arguments, 0))
