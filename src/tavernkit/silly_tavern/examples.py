"""Example dialogue of a card: into blocks, and into messages."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from tavernkit.text.js_values import trim

START = "<START>"
_SEPARATOR = re.compile(START, re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class ExampleMessage:
    """One turn of an example dialogue."""

    from_user: bool
    content: str

    @property
    def name(self) -> str:
        """The name it is sent under; its role is system."""
        return "example_user" if self.from_user else "example_assistant"


def split_examples(text: str) -> list[str]:
    """Cut example dialogue into blocks that each begin with a ``<START>`` line.

    The text counts as starting with a separator only if that is in upper case; elsewhere any case separates. So an
    introduction, or a lower-case first separator, makes a block of its own.
    """
    if not text or text == START:
        return []
    if not text.startswith(START):
        text = f"{START}\n{trim(text)}"
    return [f"{START}\n{trim(part)}\n" for part in _SEPARATOR.split(text)[1:]]


def parse_block(
    block: str, *, user_name: str, character_name: str, group_names: Collection[str] = ()
) -> list[ExampleMessage]:
    """Turn one block into messages; in a group (``group_names`` given) each keeps its speaker's name."""
    return _BlockParser(user_name, character_name, group_names).parse(block)


class _BlockParser:
    """A line that begins with a name and a colon starts that speaker's turn; other lines belong to the turn."""

    def __init__(self, user_name: str, character_name: str, group_names: Collection[str]) -> None:
        self._user = user_name
        self._character = character_name
        self._speaker = character_name
        self._group = group_names
        self._lines: list[str] = []
        self._messages: list[ExampleMessage] = []

    def parse(self, block: str) -> list[ExampleMessage]:
        in_user = in_character = False
        for line in block.replace("\r", "").split("\n")[1:]:
            if line.startswith(f"{self._user}:"):
                if in_character:
                    self._flush(from_user=False)
                in_user, in_character = True, False
            elif self._starts_character(line):
                if in_user:
                    self._flush(from_user=True)
                in_user, in_character = False, True
            self._lines.append(line)
        if in_user or in_character:
            self._flush(from_user=in_user)
        return self._messages

    def _starts_character(self, line: str) -> bool:
        if line.startswith(f"{self._character}:"):
            return True
        if any(line.startswith(f"{name}:") for name in self._group):
            self._speaker = line.partition(":")[0]
            return True
        return False

    def _flush(self, *, from_user: bool) -> None:
        speaker = self._user if from_user else self._speaker
        content = trim("\n".join(self._lines).replace(f"{speaker}:", "", 1))
        if self._group:
            content = f"{speaker}: {content}"
        self._messages.append(ExampleMessage(from_user, content))
        self._lines = []
