"""Command lines (``/send hello | /echo``): what the input box and two effects understand."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import (
    UNDEFINED,
    JSError,
    Undefined,
    json_parse,
    json_stringify,
    number_to_string,
    parse_int,
    to_number,
    to_string,
    trim,
)
from tavernkit.risu_ai._js import replace_first, slice_index
from tavernkit.risu_ai._objects import RisuMessage
from tavernkit.risu_ai._triggers.limits import TriggerFailedError

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.world import World

Pipe: TypeAlias = str | Undefined
RunByName: TypeAlias = Callable[[str], None]

LORE_MARK: Final = "§"
PIECE_MARK: Final = "|||"
_RANGE = re.compile(r"([0-9]+) *- *([0-9]+)")
_NUMBER = re.compile(r"-?[0-9]+")


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a line."""

    name: str
    argument: str
    named: Mapping[str, str]
    pipe: Pipe


@dataclass(frozen=True, slots=True)
class Line:
    """The environment of commands: the stored state, and the trigger runner."""

    world: World
    run_by_name: RunByName

    def set_messages(self, messages: tuple[RisuMessage, ...]) -> None:
        """Store other messages."""
        self.world.set_messages(messages)
        self.world.event("stored_messages", len(messages))

    def add_message(self, role: str, text: str) -> None:
        """Append a message to the stored chat."""
        self.set_messages((*self.world.chat.messages, RisuMessage(role=role, data=self.world.budget.text(text))))


def run_line(world: World, text: str, run_by_name: RunByName) -> Pipe | bool:
    """Run a command line. ``False`` means that a command was unknown or refused; then the rest is not run."""
    line = Line(world, run_by_name)
    pipe: Pipe = ""
    for part in _parts(text):
        command = _read(world, trim(part), pipe)
        function = _COMMANDS.get(command.name)
        if function is None:
            return False
        world.budget.step()
        result = function(line, command)
        if result is False or result is True:
            return result
        pipe = result
    return pipe


def _parts(text: str) -> list[str]:
    """Split a line at bars outside of double quotes, which stay."""
    parts: list[list[str]] = [[]]
    for index, piece in enumerate(text.split('"')):
        quoted = index % 2 == 1
        if index:
            parts[-1].append('"')
        first, *rest = [piece] if quoted else piece.split("|")
        parts[-1].append(first)
        parts += ([each] for each in rest)
    return ["".join(part) for part in parts]


def _read(world: World, text: str, pipe: Pipe) -> Command:
    name, *words = [word for word in text.removeprefix("/").split(" ") if word] or [""]
    named: dict[str, str] = {}
    for word in words:
        if "=" in word:  # any such word, even of a sentence to send
            world.budget.check_time()
            key, value, *_ = word.split("=")  # a second sign cuts the value off
            named[key] = world.cbs(value)
    argument = " ".join(word for word in words if "=" not in word)
    for mark in ("{{pipe}}", "{{slot}}"):  # only the first of each
        argument = replace_first(argument, mark, to_string(pipe), warn=world.warn)
    return Command(name, world.cbs(argument or pipe), named, pipe)


def _input(line: Line, command: Command) -> str:
    return line.world.ask(command.argument)


def _echo(line: Line, command: Command) -> Pipe:
    line.world.show(command.argument)
    return command.pipe


def _buttons(line: Line, command: Command) -> Pipe:
    try:
        labels = json_parse(command.named.get("labels", ""))
    except JSError:
        return command.pipe
    if not isinstance(labels, list):
        return command.pipe
    return line.world.select([to_string(label) for label in labels])


def _speak(line: Line, command: Command) -> Pipe:
    line.world.ask_host("speak", lambda: line.world.host.speak(command.argument), None, command.argument)
    return command.pipe


def _send(line: Line, command: Command) -> Pipe:
    line.add_message("user", command.argument)
    return command.pipe


def _send_as(line: Line, command: Command) -> Pipe:
    line.add_message("char", command.argument)
    return command.pipe


def _comment(line: Line, command: Command) -> Pipe:
    messages = line.world.chat.messages
    if not messages:
        raise TriggerFailedError("there is no message to comment")
    text = line.world.budget.text(f"{messages[-1].data}<Comment>\n{command.argument}\n</Comment>")
    line.set_messages((*messages[:-1], dataclasses.replace(messages[-1], data=text)))
    return command.pipe


def _cut(line: Line, command: Command) -> Pipe:
    """Keep a range of messages or only one, or remove the one with an id."""
    messages, count = line.world.chat.messages, len(line.world.chat.messages)
    bounds = _RANGE.fullmatch(command.argument)
    if bounds is not None:
        start, end = parse_int(bounds[1]), parse_int(bounds[2])
        line.set_messages(messages[slice_index(start, count) : slice_index(end, count)])
    elif _NUMBER.fullmatch(command.argument):
        index = slice_index(parse_int(command.argument), count)
        line.set_messages(messages[index : index + 1])  # RisuAI keeps what it meant to cut out
    else:
        line.set_messages(tuple(each for each in messages if each.raw.get("chatId") != command.argument))
    return command.pipe


def _delete(line: Line, command: Command) -> Pipe:
    """Keep only the last messages: as many as RisuAI meant to delete."""
    number = parse_int(command.argument)
    messages = line.world.chat.messages
    if number == number:
        line.set_messages(messages[slice_index(0 - number, len(messages)) :])
    return command.pipe


def _length(line: Line, command: Command) -> Pipe:
    try:
        value = json_parse(command.argument)
    except JSError:
        return command.pipe
    return str(len(value)) if isinstance(value, list) else command.pipe


def _multi_send(line: Line, command: Command) -> str:
    pieces = command.argument.split(PIECE_MARK)
    clear = pieces[0] == "clear"
    for piece in pieces[1:] if clear else pieces:
        if clear:
            line.set_messages(())
        line.add_message("user", piece)
        line.world.ask_host("send_chat", line.world.host.send_chat, None)
    return ""


def _name(command: Command) -> str:
    return command.named.get("key", "undefined")


def _set_variable(line: Line, command: Command) -> str:
    line.world.variables.set(_name(command), line.world.budget.text(command.argument))
    line.world.event("variable", _name(command), command.argument)
    return ""


def _add_variable(line: Line, command: Command) -> str:
    old = line.world.variables.get(_name(command))
    # A variable that is not set is NaN, not 0.
    total = number_to_string(to_number(UNDEFINED if old is None else old) + to_number(command.argument))
    line.world.variables.set(_name(command), total)
    line.world.event("variable", _name(command), total)
    return ""


def _get_variable(line: Line, command: Command) -> str:
    value = line.world.variables.get(_name(command))
    if value is None:
        raise TriggerFailedError(f"there is no variable {_name(command)!r}")
    return to_string(value)


def _test_lorebook(line: Line, command: Command) -> str:
    result = line.world.scan_lore()
    line.world.show(LORE_MARK.join(each.text for each in result.actives))
    return json_stringify([{"source": each.source, "text": each.text} for each in result.actives])


def _trigger(line: Line, command: Command) -> Undefined:
    """Run triggers by name; in a group nothing happens."""
    selected = line.world.context.character
    if selected is None or not selected.is_group:
        line.run_by_name(command.argument)
    return UNDEFINED


def _help(line: Line, command: Command) -> str:
    text = "\n".join(f"- /{name}" for name in _COMMANDS)
    line.world.show(text, "markdown")
    return "help"


_COMMANDS: Final[Mapping[str, Callable[[Line, Command], Pipe | bool]]] = {
    "input": _input,
    "echo": _echo,
    "popup": _echo,
    "pass": lambda line, command: command.argument,
    "buttons": _buttons,
    "setinput": lambda line, command: False,  # ends the line like an unknown command
    "speak": _speak,
    "send": _send,
    "sendas": _send_as,
    "comment": _comment,
    "cut": _cut,
    "del": _delete,
    "len": _length,
    "multisend": _multi_send,
    "setvar": _set_variable,
    "addvar": _add_variable,
    "getvar": _get_variable,
    "test_lorebook": _test_lorebook,
    "trigger": _trigger,
    "?": _help,
}
