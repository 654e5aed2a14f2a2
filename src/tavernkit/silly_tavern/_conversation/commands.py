"""Slash commands that change a chat: the part of STscript that people type themselves."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim
from tavernkit._turns import Turn
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.errors import log_warning
from tavernkit.silly_tavern._chat.chat_message import NARRATOR
from tavernkit.silly_tavern._chat.core_chat import inline_bias, without_macros
from tavernkit.silly_tavern._conversation import lines as chat_lines

if TYPE_CHECKING:
    from tavernkit.silly_tavern._conversation.chat import Chat

_COMMAND = re.compile(r"/(?P<name>[^\s|]+)\s*(?P<rest>.*)\Z", re.DOTALL)
_NAMED = re.compile(r'(?P<key>[\w-]+)=(?:"(?P<quoted>(?:[^"\\]++|\\.)*+)"|(?P<plain>\S*))\s*')
_RANGE = re.compile(r"(?P<start>\d+)(?:\s*-\s*(?P<end>\d+))?\Z")
_INJECT_POSITIONS = {"after": 0, "chat": 1, "before": 2, "none": -1}
_ROLES = {"system": 0, "user": 1, "assistant": 2}
_TRUE = ("on", "true", "1")

_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True)
class _Call:
    """A typed command: its named arguments and the text after them."""

    chat: Chat
    named: Mapping[str, str]
    text: str

    def is_on(self, name: str) -> bool:
        """Return True if a named argument is on."""
        return self.named.get(name, "").lower() in _TRUE

    @property
    def range(self) -> tuple[int, int] | None:
        """The lines that the text selects: one number, or two with a hyphen."""
        lines = len(self.chat.state.turn_lines)
        found = _RANGE.match(trim(self.text))
        if found is None:
            return (lines - 1, lines - 1) if lines and not trim(self.text) else None
        start = _whole(found["start"], 0)
        end = _whole(found["end"] or "", start)
        return (start, min(end, lines - 1)) if start < lines and start <= end else None


_Command: TypeAlias = Callable[[_Call], Awaitable[str | Turn]]


def is_known(text: str) -> bool:
    """Return True if a text is a slash command that can be run."""
    found = _COMMAND.match(trim(text))
    return found is not None and found["name"].lower() in _COMMANDS


async def run_command(chat: Chat, text: str) -> Turn:
    """Run one slash command; an unknown one is reported, and nothing is sent.

    Args:
        chat: The chat.
        text: The command line.
    """
    found = _COMMAND.match(trim(text))
    command = _COMMANDS.get(found["name"].lower()) if found is not None else None
    if found is None or command is None:
        log_warning(f"the slash command {text!r:.60} is not known: nothing was sent")
        return Turn(kind="send")
    named, rest = _arguments(found["rest"])
    try:
        result = await command(_Call(chat, named, rest))
    finally:
        chat.state.look_at_lines()  # a command may change any of them
    await chat.host.checkpoint()
    return result if isinstance(result, Turn) else Turn(kind="send", text=result)


def _arguments(text: str) -> tuple[dict[str, str], str]:
    named: dict[str, str] = {}
    at = 0
    while found := _NAMED.match(text, at):
        quoted = found["quoted"]
        named[found["key"]] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else found["plain"]
        at = found.end()
    return named, text[at:]


def _whole(text: str, default: int) -> int:
    """Read a whole number; one with more digits than Python reads is larger than any chat."""
    if not text.isdecimal():
        return default
    return int(text) if len(text) < _MOST_DIGITS else sys.maxsize


async def _send(call: _Call) -> str:
    """Store a line of the user without asking for a reply."""
    keys: JsonObject = {"name": call.named["name"]} if call.named.get("name") else {}
    if call.is_on("compact"):
        keys["extra"] = {"isSmallSys": True}
    call.chat.add_message(call.text, **keys)
    return ""


async def _narrate(call: _Call) -> str:
    text, bias, is_system = _typed(call)
    name = call.named.get("name") or "System"
    call.chat.add_line(_line(call, name, text, is_system, {"type": NARRATOR, "bias": bias}))
    return ""


async def _comment(call: _Call) -> str:
    with call.chat.state.expanding() as workspace:
        text = workspace.macros(call.text)
    call.chat.add_line(_line(call, "Note", text, True, {"type": "comment"}))
    return ""


async def _send_as(call: _Call) -> str:
    """Store a line of another speaker."""
    context = call.chat.state.context()
    name = call.named.get("name") or context.character_name
    known = context.members or ({context.avatar_file: context.card} if context.card is not None else {})
    avatar = next((avatar for avatar, card in known.items() if card.name == name), None)
    text, bias, is_system = _typed(call)
    line = _line(call, name, text, is_system, {"bias": bias}) | {
        "force_avatar": chat_lines.CHARACTER_AVATAR.format(avatar) if avatar is not None else chat_lines.UNKNOWN_AVATAR,
        "original_avatar": avatar if avatar is not None else chat_lines.UNKNOWN_AVATAR,
    }
    call.chat.add_line(line)
    return ""


def _typed(call: _Call) -> tuple[str, Json, Json]:
    """Return a text with its macros expanded, its bias, and whether its line is hidden, as stored.

    Only a text that is nothing but a bias is hidden. For the others, SillyTavern stores the empty text, not false.
    """
    with call.chat.state.expanding() as workspace:
        bias = inline_bias(call.text, workspace.warn)
        text = workspace.macros.typed(call.text)
    hidden = bool(bias) and not without_macros(text)
    return text, bias if trim(bias) else None, True if hidden else ""


def _line(call: _Call, name: str, text: str, is_system: Json, extra: JsonObject) -> JsonObject:
    return {
        "name": name,
        "is_user": False,
        "is_system": is_system,
        "send_date": call.chat.state.now(),
        "mes": text,
        "force_avatar": chat_lines.SYSTEM_AVATAR,
        "extra": {**extra, "gen_id": 0, "isSmallSys": call.is_on("compact"), "api": "manual", "model": "slash command"},
    }


async def _trigger(call: _Call) -> Turn:
    # Outside a group, SillyTavern ignores who is named.
    member = trim(call.text) if call.chat.state.context().group is not None else ""
    turn = await (call.chat.speak(member) if member else call.chat.answer())
    return replace(turn, text="")  # the command returns nothing


async def _continue(call: _Call) -> Turn:
    return await call.chat.continue_reply(call.text)


async def _generate(call: _Call) -> Turn:
    return await call.chat.quiet(call.text)


async def _hide(call: _Call) -> str:
    if call.range is not None:
        call.chat.hide(*call.range)
    return ""


async def _unhide(call: _Call) -> str:
    if call.range is not None:
        call.chat.unhide(*call.range)
    return ""


async def _cut(call: _Call) -> str:
    """Delete lines and return their texts."""
    if call.range is None:
        return ""
    start, end = call.range
    texts = [chat_lines.text_of(line) for line in call.chat.state.turn_lines[start : end + 1]]
    call.chat.delete_range(start, end)
    return "".join(f"{text}\n" for text in texts)


async def _delete_last(call: _Call) -> str:
    call.chat.delete_last(_whole(trim(call.text), 1))
    return ""


async def _add_swipe(call: _Call) -> str:
    call.chat.add_swipe(call.text, show=call.is_on("switch"))
    return ""


async def _inject(call: _Call) -> str:
    """Store a text in the chat's header that is part of every prompt; without a text, remove it."""
    key = call.named.get("id", "")
    if not key:
        log_warning("/inject needs an id: /inject id=name text")
        return ""
    state = call.chat.state
    stored = state.header.get("script_injects")
    injects: JsonObject = stored if is_object(stored) else {}
    state.header["script_injects"] = injects
    injects.pop(key, None)
    if not call.text:
        return key
    with state.expanding() as workspace:
        value = workspace.macros(call.text)
    inject: JsonObject = {
        "value": value,
        "position": _INJECT_POSITIONS.get(call.named.get("position", "after"), 0),
        "depth": _whole(call.named.get("depth", ""), 4),
        "scan": call.is_on("scan"),
        "role": _ROLES.get(call.named.get("role", "system"), 0),
        "filter": call.named.get("filter"),
    }
    injects[key] = inject
    if call.is_on("ephemeral"):
        state.ephemeral_injects.add(key)
    return key


def _variable_command(name: str, scope: str) -> _Command:
    """Make a command that reads or changes variables by expanding the macro with the same name."""

    async def run(call: _Call) -> str:
        key, value = call.named.get("key") or call.named.get("name"), call.text
        if key is None:
            key, _, value = trim(call.text).partition(" ")
        macro = f"{name}{scope}var::{key}"
        if name in ("set", "add"):
            macro += f"::{value}"
        with call.chat.state.expanding() as workspace:
            result = workspace.macros("{{" + macro + "}}")
        return value if name == "set" else result

    return run


_COMMANDS: dict[str, _Command] = {
    "send": _send,
    "sys": _narrate,
    "nar": _narrate,
    "comment": _comment,
    "sendas": _send_as,
    "trigger": _trigger,
    "continue": _continue,
    "cont": _continue,
    "gen": _generate,
    "hide": _hide,
    "unhide": _unhide,
    "cut": _cut,
    "del": _delete_last,
    "addswipe": _add_swipe,
    "swipeadd": _add_swipe,
    "inject": _inject,
    **{
        f"{name}{scope}var": _variable_command(name, scope)
        for name in ("get", "set", "add", "inc", "dec")
        for scope in ("", "global")
    },
}
"""Commands by name; each returns a text (the pipe) or the turn that it ran."""
