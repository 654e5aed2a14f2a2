"""Example dialogue: cut into blocks, and formatted with the sequences of instruct mode."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tavernkit.silly_tavern.macros.settings import InstructSettings
from tavernkit.text.js_values import trim

START = "<START>"
"""What separates blocks of example dialogue."""

_ANY_START = re.compile(START, re.IGNORECASE | re.ASCII)
_START_LINE = re.compile(f"{START}\n", re.IGNORECASE | re.ASCII)
_NAME = re.compile(r"\{\{name\}\}", re.IGNORECASE | re.ASCII)
_DOLLAR = re.compile(r"\$([$&`'])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleNames:
    """The names of a chat: those that speaker lines have, and those that are written in front of messages."""

    user: str
    character: str
    members: Sequence[str] = ()
    in_group: bool = False
    written_user: str
    written_character: str


@dataclass(frozen=True, slots=True)
class _Example:
    by_user: bool
    name: str
    text: str


def split_examples(text: str, heading: str) -> list[str]:
    """Cut example dialogue into blocks, each under the heading; nothing or a lone ``<START>`` gives none."""
    if not text or text == START:
        return []
    if not text.startswith(START):
        text = f"{START}\n{trim(text)}"
    return [f"{heading}{trim(block)}\n" for block in _ANY_START.split(text)[1:]]


def format_instruct_examples(
    blocks: Sequence[str],
    instruct: InstructSettings,
    names: ExampleNames,
    heading: str,
    expand: Callable[[str], str],
) -> list[str]:
    """Write blocks (under ``<START>`` lines) as messages of instruct mode. The result is a flat list of pieces."""
    pieces: list[str] = []
    if not instruct.skip_examples:
        sequences = _Sequences(instruct, names, expand)
        for block in blocks:
            messages = _read_block(block, names)
            if messages and heading:
                pieces.append(heading)
            pieces.extend(sequences.write(message) for message in messages)
    return pieces or [_START_LINE.sub(lambda _found: heading, block, count=1) for block in blocks]


def _read_block(block: str, names: ExampleNames) -> list[_Example]:
    lines = _ANY_START.sub("", block, count=1).replace("\r", "").split("\n")[1:]
    others = [f"{member}:" for member in names.members if member != names.character] if names.in_group else []
    messages: list[_Example] = []
    gathered: list[str] = []
    by_user, by_character, bot = False, False, names.character

    def close() -> None:
        name = names.user if by_user else bot
        text = trim("\n".join(gathered).replace(f"{name}:", "", 1))
        messages.append(_Example(by_user, name, text))
        gathered.clear()

    for line in lines:
        if line.startswith(f"{names.user}:"):
            if by_character:
                close()
            by_user, by_character = True, False
        elif line.startswith((f"{names.character}:", *others)):
            if by_user:
                close()
            by_user, by_character = False, True
            other = next((name for name in others if line.startswith(name)), None)
            if other is not None and not line.startswith(f"{names.character}:"):
                bot = other[:-1]
        gathered.append(line)
    if by_user or by_character:
        close()
    return messages


class _Sequences:
    """The sequences around the messages of both speakers, expanded once."""

    def __init__(self, instruct: InstructSettings, names: ExampleNames, expand: Callable[[str], str]) -> None:
        self._instruct = instruct
        self._names = names
        self._separator = "\n" if instruct.wrap else ""
        self._user = self._prepare(instruct.input_sequence, instruct.input_suffix, names.written_user, expand)
        self._bot = self._prepare(instruct.output_sequence, instruct.output_suffix, names.written_character, expand)

    def _prepare(self, prefix: str, suffix: str, name: str, expand: Callable[[str], str]) -> tuple[str, str]:
        # Without macros SillyTavern leaves out the default suffix too.
        if not self._instruct.macro:
            return prefix, suffix
        prefix, suffix = (_NAME.sub(lambda found: _replacement(name, found), expand(text)) for text in (prefix, suffix))
        return prefix, suffix or self._separator

    def write(self, message: _Example) -> str:
        names, behavior = self._names, self._instruct.names_behavior
        prefix, suffix = self._user if message.by_user else self._bot
        name = message.name
        if not names.in_group and behavior != "none":
            name = names.written_user if message.by_user else names.written_character
        shown = behavior == "always" or (behavior == "force" and (message.by_user or names.in_group))
        text = f"{name}: {message.text}{suffix}" if shown else f"{message.text}{suffix}"
        return f"{prefix}{self._separator}{text}" if prefix else text


def _replacement(template: str, found: re.Match[str]) -> str:
    """What JavaScript's ``replace`` makes of a replacement text."""
    whole = found.string
    values = {"$": "$", "&": found[0], "`": whole[: found.start()], "'": whole[found.end() :]}
    return _DOLLAR.sub(lambda pattern: values[pattern[1]], template)
