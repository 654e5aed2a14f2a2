"""Functions that need the application: dialogs, models, pictures, the network."""

from __future__ import annotations

import hashlib

from tavernkit._text.js_values import json_parse, json_stringify, to_number, to_string, truthy, utf16_length
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.risu_ai._chat.prompt_message import take_inlays
from tavernkit.risu_ai._triggers.effects.hosts import IMAGE_FAILED
from tavernkit.risu_ai._triggers.host import LLMReply
from tavernkit.risu_ai._triggers.limits import MAX_URL, TriggerFailedError
from tavernkit.risu_ai._triggers.lua.api import Access, LuaCall, LuaFunctionTable, argument

functions = LuaFunctionTable()

_ROLES = {"system": "system", "sys": "system", "user": "user"}
_OWN_SITES = ("https://realm.risuai.net", "https://risuai.net", "https://risuai.xyz")


def _text(value: Json) -> str:
    return "" if value is None else to_string(value)


@functions.function("logMain", kind="void", keyed=False)
def log(call: LuaCall, arguments: list[Json]) -> None:
    """Write to the console."""
    value = json_parse(_text(argument(arguments, 0)))
    call.world.ask_host("log", lambda: call.world.host.log(value), None, value)


@functions.function("reloadDisplay", access=Access.SAFE, kind="void")
def reload_display(call: LuaCall, arguments: list[Json]) -> None:
    """Draw everything again."""
    call.world.reload_screen += 1


@functions.function("reloadChat", access=Access.SAFE, kind="void")
def reload_message(call: LuaCall, arguments: list[Json]) -> None:
    """Draw a message again."""
    call.world.reload_message(argument(arguments, 0))


@functions.function("alertNormal", access=Access.SAFE, kind="void")
def alert(call: LuaCall, arguments: list[Json]) -> None:
    """Show a text."""
    call.world.show(_text(argument(arguments, 0)))


@functions.function("alertError", access=Access.SAFE, kind="void")
def alert_error(call: LuaCall, arguments: list[Json]) -> None:
    """Show a text as an error."""
    call.world.show(_text(argument(arguments, 0)), "error")


@functions.function("alertInput", access=Access.SAFE, kind="strict_promise")
def ask_user(call: LuaCall, arguments: list[Json]) -> str:
    """Ask for a text."""
    return call.world.ask(_text(argument(arguments, 0)))


@functions.function("alertSelect", access=Access.SAFE, kind="strict_promise")
def let_choose(call: LuaCall, arguments: list[Json]) -> str:
    """Let the user choose."""
    return call.world.select(_texts(argument(arguments, 0)))


@functions.function("alertConfirm", access=Access.SAFE, kind="strict_promise")
def confirm(call: LuaCall, arguments: list[Json]) -> bool:
    """Ask yes or no."""
    text, world = _text(argument(arguments, 0)), call.world
    return world.ask_host("confirm", lambda: world.host.confirm(text), False, text)


def _texts(value: Json) -> list[str]:
    if isinstance(value, dict):
        return [to_string(each) for each in value.values()]
    return [to_string(each) for each in value] if isinstance(value, list) else []


@functions.function("sleep", access=Access.SAFE, kind="strict_promise")
def sleep(call: LuaCall, arguments: list[Json]) -> bool:
    """Wait, if the host wants to."""
    milliseconds, world = to_number(argument(arguments, 0)), call.world
    world.ask_host("sleep", lambda: world.host.sleep(milliseconds), None, milliseconds)
    return True


@functions.function("getTokens", access=Access.SAFE, kind="promise")
def count_tokens(call: LuaCall, arguments: list[Json]) -> int:
    """Count the tokens of a text."""
    return call.world.count_tokens(_text(argument(arguments, 0)))


@functions.function("hash", kind="promise")
def hash_text(call: LuaCall, arguments: list[Json]) -> str:
    """Hash a text with SHA-256."""
    return hashlib.sha256(_text(argument(arguments, 0)).encode()).hexdigest()


def _reply(reply: LLMReply) -> str:
    """Return the reply for Lua; streams and multiple replies are refused."""
    text = f"Error: {reply.text}" if reply.kind == "fail" else reply.text
    return json_stringify({"success": reply.kind == "success", "result": text})


def _ask(call: LuaCall, arguments: list[Json], model: str) -> str:
    given = json_parse(_text(argument(arguments, 0)))
    if not isinstance(given, list):
        raise TriggerFailedError("a model takes a list of messages")
    attach = truthy(argument(arguments, 1))
    messages = [_message(call, each if is_object(each) else {}, attach=attach) for each in given]
    return _reply(call.world.ask_model(messages, model))


def _message(call: LuaCall, given: JsonObject, *, attach: bool) -> JsonObject:
    # Words like `bot`, but also unknown and missing ones, are the assistant.
    role = _ROLES.get(_text(given.get("role")), "assistant")
    content = _text(given.get("content"))
    if not attach:
        return {"role": role, "content": content}
    files: list[Json] = []
    text, inlays = take_inlays(content)
    for kind, name in inlays:
        # All marks leave the text, but of an assistant's only `inlayeddata` is attached.
        if role != "assistant" or kind == "inlayeddata":
            files += _file(call, name)
    message: JsonObject = {"role": role, "content": text}
    return {**message, "multimodals": files} if files else message


def _file(call: LuaCall, name: str) -> list[Json]:
    world = call.world
    found = world.ask_host("inlay", lambda: world.host.inlay(name), None, name)
    if found is None:
        return []
    return [{"type": found.kind, "base64": found.data, "width": found.width, "height": found.height}]


@functions.function("LLMMain", access=Access.LOW, kind="promise")
def ask_main_model(call: LuaCall, arguments: list[Json]) -> str:
    """Ask the main model."""
    return _ask(call, arguments, "model")


@functions.function("axLLMMain", access=Access.LOW, kind="promise")
def ask_other_model(call: LuaCall, arguments: list[Json]) -> str:
    """Ask the auxiliary model."""
    return _ask(call, arguments, "otherAx")


@functions.function("simpleLLM", access=Access.LOW, kind="table_promise")
def ask_simply(call: LuaCall, arguments: list[Json]) -> str:
    """Ask the main model with one message of the user."""
    return _reply(call.world.ask_model([{"role": "user", "content": _text(argument(arguments, 0))}], "model"))


@functions.function("similarity", access=Access.LOW, kind="table_promise")
def rank(call: LuaCall, arguments: list[Json]) -> str:
    """Rank texts."""
    return json_stringify(call.world.similarity(_text(argument(arguments, 0)), _texts(argument(arguments, 1))))


@functions.function("generateImage", access=Access.LOW, kind="promise")
def generate_image(call: LuaCall, arguments: list[Json]) -> str:
    """Make a picture."""
    name = call.world.character.name if call.sandbox.fix_stale_closures else call.sandbox.character_name
    made = call.world.make_image(_text(argument(arguments, 0)), _text(argument(arguments, 1)), name)
    return IMAGE_FAILED if made is None else made


def _refusal(call: LuaCall, url: str) -> tuple[int, str] | None:
    if not call.sandbox.requests.allow(call.world.context.clock()):
        return 429, "Too many requests. you can request 5 times per minute"
    if utf16_length(url) > MAX_URL:
        return 413, "URL to large. max is 120 characters"
    if not url.startswith("https://"):
        return 400, "Only https requests are allowed"
    if url.startswith(_OWN_SITES):
        return 400, f"request to {url} is not allowed"
    return None


@functions.function("request", access=Access.LOW, kind="promise")
def request(call: LuaCall, arguments: list[Json]) -> str:
    """Get an address of the network."""
    url, world = _text(argument(arguments, 0)), call.world
    answer = _refusal(call, url)
    if answer is None:
        try:
            reply = world.ask_host("fetch", lambda: world.host.fetch(url), None, url)
        except OSError:
            reply = None
        answer = (400, "internal error") if reply is None else (reply.status, reply.text)
    return json_stringify({"status": answer[0], "data": answer[1]})
