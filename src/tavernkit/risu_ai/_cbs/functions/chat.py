"""The chat: who takes part (names, personas, the character's fields), its messages, modules and media by name."""

from __future__ import annotations

from tavernkit._text.js_values import number_to_string
from tavernkit.risu_ai._cbs.limits import FunctionFailure
from tavernkit.risu_ai._cbs.lists import make_array, stringify
from tavernkit.risu_ai._cbs.registry import CBSCall, FunctionGroup
from tavernkit.risu_ai._objects import Asset, RisuCharacter, RisuMessage, RisuModule

identity_functions = FunctionGroup("identity")


def selected(call: CBSCall) -> RisuCharacter:
    """Return the selected character; fails if there is none."""
    if call.context.character is None:
        raise FunctionFailure("no character is selected")
    return call.context.character


def described(call: CBSCall) -> RisuCharacter:
    """Return the character whose fields are used: the speaker if it is a character, else the selected one."""
    speaking = call.context.speaking
    return speaking if isinstance(speaking, RisuCharacter) else selected(call)


@identity_functions("char", "bot")
def char(call: CBSCall) -> str:
    """The name of the character."""
    context = call.context
    call.walk(len(context.characters))
    if not context.consistent_names and context.speaking is None:
        selected(call)
    return context.character_name


@identity_functions("user")
def user(call: CBSCall) -> str:
    """The name of the user."""
    context = call.context
    call.walk(len(context.personas))
    persona = context.persona
    if not context.consistent_names and persona is not None and persona.name is None:
        raise FunctionFailure("the persona of this chat has no name")
    return context.user_name


@identity_functions("persona", "userpersona")
def persona(call: CBSCall) -> str:
    """The user's persona, expanded."""
    bound = call.context.persona
    if bound is not None:  # without a fallback: an empty prompt stays empty, a missing one fails
        return call.expand(bound.prompt, "the prompt of the persona")
    return call.expand(call.context.settings.persona_prompt or "", "the persona prompt")


@identity_functions("description", "chardesc")
def description(call: CBSCall) -> str:
    """The description of the character, expanded; empty for a group."""
    character = described(call)
    return "" if character.is_group else call.expand(character.description, "the description")


@identity_functions("personality", "charpersona")
def personality(call: CBSCall) -> str:
    """The personality of the character, expanded; empty for a group."""
    character = described(call)
    return "" if character.is_group else call.expand(character.personality, "the personality")


@identity_functions("scenario")
def scenario(call: CBSCall) -> str:
    """The scenario of the character, expanded; empty for a group."""
    character = described(call)
    return "" if character.is_group else call.expand(character.scenario, "the scenario")


@identity_functions("exampledialogue", "examplemessage", "example_dialogue")
def exampledialogue(call: CBSCall) -> str:
    """The example messages of the character, expanded; empty for a group."""
    character = described(call)
    return "" if character.is_group else call.expand(character.example_message, "the example messages")


@identity_functions("lorebook", "worldinfo")
def lorebook(call: CBSCall) -> str:
    """All lore entries of character, chat and modules as a list of JSON texts, not expanded."""
    selected(call)  # fails without one, even if a speaker has lore
    character = described(call)
    lore = () if character.is_group else character.lore or ()
    modules = (entry for module in call.context.enabled_modules for entry in module.lore)
    return make_array(stringify(entry) for entry in (*lore, *call.context.chat.local_lore, *modules))


history_functions = FunctionGroup("history")


def message_at(call: CBSCall, index: int) -> RisuMessage:
    """Return a message; fails if there is none with that index."""
    messages = call.context.chat.messages
    if call.context.character is None or not 0 <= index < len(messages):
        raise FunctionFailure(f"there is no message {index}")
    return messages[index]


def _expanded(call: CBSCall, message: RisuMessage) -> str:
    return stringify({**message.to_json(), "data": call.expand(message.data, "the message")})


@history_functions("history", "messages", args=("role",))
def history(call: CBSCall) -> str:
    """All messages with the greeting as a list of JSON texts, expanded; with an argument their raw texts.

    With the argument ``role``, each raw text is preceded by its role.
    """
    selected(call)
    messages = call.context.chat.messages
    call.walk(len(messages))
    if call.args:  # even an empty one
        named = "role" in call.args
        return make_array(f"{each.role}: {each.data}" if named else each.data for each in messages)
    # The greeting takes one of the nested texts that the call limit allows: 18 messages can follow it.
    greeting = call.expand(call.context.greeting, "the greeting")
    return make_array([stringify({"role": "char", "data": greeting}), *(_expanded(call, each) for each in messages)])


@history_functions("userhistory", "usermessages", "user_history")
def userhistory(call: CBSCall) -> str:
    """The user's messages as a list of JSON texts, expanded."""
    selected(call)
    call.walk(len(call.context.chat.messages))
    return make_array(_expanded(call, each) for each in call.context.chat.messages if each.role == "user")


@history_functions("charhistory", "charmessages", "char_history")
def charhistory(call: CBSCall) -> str:
    """The character's messages as a list of JSON texts, expanded."""
    selected(call)
    call.walk(len(call.context.chat.messages))
    return make_array(_expanded(call, each) for each in call.context.chat.messages if each.role == "char")


def _before(call: CBSCall, role: str, index: int) -> str:
    messages = call.context.chat.messages
    if index > len(messages):  # one past the last message still works
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


@history_functions("previouscharchat", "lastcharmessage")
def previouscharchat(call: CBSCall) -> str:
    """The character's last message before this one, or the greeting; not expanded."""
    selected(call)
    index = call.context.chat_index
    return _before(call, "char", len(call.context.chat.messages) if index == -1 else index)


@history_functions("previoususerchat", "lastusermessage")
def previoususerchat(call: CBSCall) -> str:
    """The user's last message before this one, or the greeting; not expanded; empty outside a message."""
    # Its counterpart for the character searches from the end of the chat instead.
    if call.context.chat_index == -1:
        return ""
    selected(call)
    return _before(call, "user", call.context.chat_index)


@history_functions("lastmessage")
def lastmessage(call: CBSCall) -> str:
    """The last message, not expanded."""
    if call.context.character is None:
        return ""
    return message_at(call, len(call.context.chat.messages) - 1).data


@history_functions("lastmessageid", "lastmessageindex")
def lastmessageid(call: CBSCall) -> str:
    """The index of the last message."""
    return "" if call.context.character is None else str(len(call.context.chat.messages) - 1)


@history_functions("previouschatlog", "previous_chat_log", args=("index",))
def previouschatlog(call: CBSCall) -> str:
    """The message with that index, not expanded, or ``Out of range``."""
    index = call.number(0)
    messages = call.context.chat.messages
    if call.context.character is None or not 0 <= index < len(messages) or index != int(index):
        return "Out of range"
    return messages[int(index)].data


@history_functions("messageunixtimearray", "message_unixtime_array")
def messageunixtimearray(call: CBSCall) -> str:
    """The times of all messages as a list, ``0`` where there is none."""
    selected(call)
    call.walk(len(call.context.chat.messages))
    return make_array(number_to_string(each.time or 0) for each in call.context.chat.messages)


asset_functions = FunctionGroup("assets")


def _module(call: CBSCall) -> RisuModule | None:
    namespace = call.get(0)  # without it, a module that has no namespace is found
    call.walk(len(call.context.settings.modules))
    return next((module for module in call.context.enabled_modules if module.namespace == namespace), None)


def _names(assets: tuple[Asset, ...] | None, what: str) -> str:
    if assets is None:
        raise FunctionFailure(f"{what} is missing")
    return make_array(asset.name for asset in assets)


@asset_functions("moduleenabled", "module_enabled", args=("namespace",))
def moduleenabled(call: CBSCall) -> str:
    """``1`` if a module with that namespace is enabled, else ``0``."""
    return "0" if _module(call) is None else "1"


@asset_functions("moduleassetlist", "module_assetlist", args=("namespace",))
def moduleassetlist(call: CBSCall) -> str:
    """The names of the assets of a module as a list; empty if the module does not exist."""
    module = _module(call)
    return "" if module is None else _names(module.assets, "the asset list of the module")


@asset_functions("emotionlist")
def emotionlist(call: CBSCall) -> str:
    """The names of the character's emotion images as a list."""
    character = call.context.character  # a group has emotions, though it has no assets
    return "" if character is None else _names(character.emotions, "the emotion list")


@asset_functions("assetlist")
def assetlist(call: CBSCall) -> str:
    """The names of the character's assets as a list; nothing for a group."""
    character = call.context.character
    return "" if character is None or character.is_group else _names(character.assets, "the asset list")


@asset_functions("chardisplayasset")
def chardisplayasset(call: CBSCall) -> str:
    """The names of the assets that the model may show, as a list."""
    character = selected(call)
    if character.is_group or not character.prebuilt_asset_command:
        return "[]"
    call.walk(len(character.assets or ()) + len(character.prebuilt_asset_exclude))
    hidden = set(character.prebuilt_asset_exclude)  # paths, although names are listed
    return make_array(asset.name for asset in character.assets or () if asset.path not in hidden)
