"""Functions for variables, messages, the character, the persona and the lorebooks."""

from __future__ import annotations

import dataclasses
import math

from tavernkit._text.js_values import UNDEFINED, json_parse, json_stringify, to_number, to_string, trim, truthy
from tavernkit._values import FrozenJson, FrozenObject, Json, freeze_object, is_object, thaw_object
from tavernkit.risu_ai._js import at_index, slice_index
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai._triggers.limits import TriggerFailedError
from tavernkit.risu_ai._triggers.lua.api import Access, LuaCall, LuaFunctionTable, argument, passed

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
    return "user" if value == "user" else "char"  # any other word, too


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
    """Replace all messages with those of a JSON list; only roles and texts are used: times and ids are lost.

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


BACKGROUND = "backgroundHTML"


def _with_raw(character: RisuCharacter, key: str, value: Json) -> FrozenObject:
    return freeze_object({**character.raw, key: value})


def _store(call: LuaCall, character: RisuCharacter, what: str) -> None:
    call.world.set_selected(character)
    call.world.event("character", what)


@functions.function("getName")
def get_name(call: LuaCall, arguments: list[Json]) -> str:
    """Read the character's name."""
    return call.world.selected.name


@functions.function("setName", access=Access.SAFE, kind="void")
def set_name(call: LuaCall, arguments: list[Json]) -> None:
    """Write the character's name. Unlike the functions below, it raises if it gets no text."""
    name = argument(arguments, 0)
    if not isinstance(name, str):
        raise TriggerFailedError("the name must be a text")
    character = call.world.selected
    _store(call, dataclasses.replace(character, name=name, raw=_with_raw(character, "name", name)), "name")


@functions.function("getDescription", access=Access.SAFE)
def get_description(call: LuaCall, arguments: list[Json]) -> str:
    """Read the description."""
    if call.world.selected.is_group:
        raise TriggerFailedError("a group has no description")
    return call.world.selected.description or ""


@functions.function("setDescription", access=Access.SAFE, kind="void")
def set_description(call: LuaCall, arguments: list[Json]) -> None:
    """Write the description; RisuAI stores anything here."""
    value = argument(arguments, 0)
    character = call.world.selected
    text = "" if value is None else call.text(value)
    raw = _with_raw(character, "desc", value)
    _store(call, dataclasses.replace(character, description=text, raw=raw), "desc")


@functions.function("getCharacterFirstMessage")
def get_first_message(call: LuaCall, arguments: list[Json]) -> str:
    """Read the first message."""
    return call.world.selected.first_message or ""


@functions.function("setCharacterFirstMessage", access=Access.SAFE)
def set_first_message(call: LuaCall, arguments: list[Json]) -> bool:
    """Write the first message; anything but a text is refused."""
    text = argument(arguments, 0)
    if not isinstance(text, str):
        return False
    character = call.world.selected
    raw = _with_raw(character, "firstMessage", call.text(text))
    _store(call, dataclasses.replace(character, first_message=text, raw=raw), "firstMessage")
    return True


@functions.function("getBackgroundEmbedding", access=Access.SAFE)
def get_background(call: LuaCall, arguments: list[Json]) -> str:
    """Read the background."""
    value = call.world.selected.raw.get(BACKGROUND)
    return "" if value is None else to_string(value)


@functions.function("setBackgroundEmbedding", access=Access.SAFE)
def set_background(call: LuaCall, arguments: list[Json]) -> bool:
    """Write the background; anything but a text is refused."""
    text = argument(arguments, 0)
    if not isinstance(text, str):
        return False
    character = call.world.selected
    _store(call, dataclasses.replace(character, raw=_with_raw(character, BACKGROUND, call.text(text))), BACKGROUND)
    return True


@functions.function("getPersonaName")
def get_persona_name(call: LuaCall, arguments: list[Json]) -> str:
    """Read the user's name."""
    return call.world.context.user_name


@functions.function("getPersonaDescription")
def get_persona_description(call: LuaCall, arguments: list[Json]) -> str:
    """Read the persona's text, expanded."""
    context = call.world.context
    persona = context.persona
    return call.world.cbs((context.settings.persona_prompt if persona is None else persona.prompt) or "")


@functions.function("getAuthorsNote")
def get_note(call: LuaCall, arguments: list[Json]) -> str:
    """Read the author's note."""
    return call.world.chat.note


def _image(call: LuaCall, path: str) -> str:
    if not path:
        return ""
    world = call.world
    made = world.ask_host("asset_inlay", lambda: world.host.asset_inlay(path), None, path)
    return "" if made is None else f"{{{{inlayed::{made}}}}}"


@functions.function("getCharacterImageMain", kind="promise")
def get_character_image(call: LuaCall, arguments: list[Json]) -> str:
    """Make a tag that shows the character's picture."""
    return _image(call, call.world.selected.image)


@functions.function("getPersonaImageMain", kind="promise")
def get_persona_image(call: LuaCall, arguments: list[Json]) -> str:
    """Make a tag that shows the persona's picture."""
    context, index = call.world.context, call.world.selected_persona
    persona = context.persona
    if persona is None and 0 <= index < len(context.personas):
        persona = context.personas[index]
    return _image(call, "" if persona is None else persona.icon)


@functions.function("getLoreBooksMain")
def get_lore(call: LuaCall, arguments: list[Json]) -> str:
    """List the entries with a name: the chat's, the character's, those of modules."""
    world, name = call.world, argument(arguments, 0)
    books = [world.chat.local_lore, world.selected.lore or ()]
    books += [module.lore for module in world.context.enabled_modules]
    found = [entry for book in books for entry in book if entry.get("comment") == name]
    return json_stringify(
        [{**thaw_object(each), "content": world.cbs(to_string(each.get("content")))} for each in found]
    )


@functions.function("upsertLocalLoreBook", access=Access.SAFE, kind="void")
def upsert_lore(call: LuaCall, arguments: list[Json]) -> None:
    """Put an entry into the chat's lorebook.

    In a trigger run that is the chat inside the copy of the character: it lasts only if an effect stores that copy.
    """
    name, content, options = argument(arguments, 0), argument(arguments, 1), argument(arguments, 2)
    if isinstance(options, list):
        options = {}
    if not is_object(options):
        raise TriggerFailedError("upsertLocalLoreBook takes a table of options")
    second = _option(options, "secondKey", "")
    entry: dict[str, FrozenJson] = {
        "alwaysActive": _option(options, "alwaysActive", False),
        "comment": name,
        "content": call.text(content),
        "insertorder": _option(options, "insertOrder", 100),
        "mode": "normal",
        "key": _option(options, "key", ""),
        "secondkey": second,
        "selective": truthy(second),
        "useRegex": _option(options, "regex", False),
    }
    world, run = call.world, call.run
    if run is None:
        world.chat = _with_entry(call, world.chat, freeze_object(entry))
        world.event("local_lore", name)
    elif call.made_sandbox:
        run.stale_chat = _with_entry(call, run.stale_chat, freeze_object(entry))


def _option(options: dict[str, Json], name: str, default: Json) -> Json:
    value = options.get(name)
    return default if value is None else value


def _with_entry(call: LuaCall, chat: RisuChat, entry: FrozenObject) -> RisuChat:
    kept = tuple(each for each in chat.local_lore if each.get("comment") != entry["comment"])
    call.world.budget.count("lore", len(kept) + 1, call.world.budget.limits.lore)
    return dataclasses.replace(chat, local_lore=(*kept, entry))


@functions.function("loadLoreBooksMain", access=Access.LOW, kind="promise")
def load_lore(call: LuaCall, arguments: list[Json]) -> str:
    """List the active entries, expanded; there is no token limit, because RisuAI's script passes none."""
    world = call.world
    result = world.scan_lore(token_budget=math.inf)
    texts = [(trim(world.cbs(each.text)), each.role) for each in result.actives]
    return json_stringify(
        [{"data": text, "role": "char" if role == "assistant" else role} for text, role in texts if text]
    )
