"""Example dialogue of a card: into blocks, and into the turns of its speakers."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from tavernkit.text.js_values import trim
from tavernkit.text.traced import join, split

START = "<START>"
"""What separates blocks of example dialogue."""

START_LINE = f"{START}\n"

_SEPARATOR = re.compile(START, re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class ExampleTurn:
    """What one speaker says in an example, without the name in front of it."""

    from_user: bool
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ExampleMessage:
    """One message of an example dialogue in chat completion."""

    from_user: bool
    content: str

    @property
    def name(self) -> str:
        """The name it is sent under; its role is system."""
        return "example_user" if self.from_user else "example_assistant"


def split_examples(text: str, heading: str = START_LINE) -> list[str]:
    """Cut example dialogue into blocks, each under the heading.

    The text counts as starting with a separator only if that is in upper case; elsewhere any case separates. So an
    introduction, or a lower-case first separator, makes a block of its own.
    """
    if not text or text == START:
        return []
    if not text.startswith(START):
        text = START_LINE + trim(text)
    return [heading + trim(part) + "\n" for part in split(_SEPARATOR, text)[1:]]


def parse_block(
    block: str, *, user_name: str, character_name: str, group_names: Collection[str] = ()
) -> list[ExampleMessage]:
    """Turn one block into messages; in a group (``group_names`` given) each keeps its speaker's name."""
    turns = read_block(block, user_name=user_name, character_name=character_name, group_names=group_names)
    return [
        ExampleMessage(turn.from_user, turn.name + ": " + turn.text if group_names else turn.text) for turn in turns
    ]


def read_block(
    block: str, *, user_name: str, character_name: str, group_names: Collection[str] = ()
) -> list[ExampleTurn]:
    """Read the turns of one block; its first line is the separator's.

    A line that begins with a name and a colon starts that speaker's turn; other lines belong to the turn, prose before
    the first one too. The character's side speaks under the name of the member whose line was read last.
    """
    user, character = f"{user_name}:", f"{character_name}:"
    others = (character, *(f"{name}:" for name in group_names))
    turns: list[ExampleTurn] = []
    gathered: list[str] = []
    in_user, in_character, speaker = False, False, character_name

    def close() -> None:
        name = user_name if in_user else speaker
        turns.append(ExampleTurn(in_user, name, trim(join("\n", gathered).replace(f"{name}:", "", 1))))
        gathered.clear()

    for line in block.replace("\r", "").split("\n")[1:]:
        if line.startswith(user):
            if in_character:
                close()
            in_user, in_character = True, False
        elif line.startswith(others):
            if in_user:
                close()
            in_user, in_character = False, True
            if not line.startswith(character):
                speaker = line.partition(":")[0]
        gathered.append(line)
    if in_user or in_character:
        close()
    return turns
