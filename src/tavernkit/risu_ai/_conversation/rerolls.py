"""Earlier replies: what RisuAI's arrows on the last message go through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject, is_mapping, is_sequence, thaw
from tavernkit.risu_ai._chat.chat_log import generation_id, with_text
from tavernkit.risu_ai._objects import RisuMessage

Messages = tuple[RisuMessage, ...]

MAX_CHOICES = 100
"""How many replies keep their choices; the oldest are dropped."""


@dataclass(slots=True)
class Choices:
    """The alternatives of one reply, and the current one."""

    texts: tuple[str, ...]
    index: int = 0

    def step(self, by: int) -> str | None:
        """Go to the next choice. The index moves even if there is none, as in RisuAI."""
        self.index += by
        return self.texts[self.index] if 0 <= self.index < len(self.texts) else None


@dataclass(slots=True)
class Rerolls:
    """The replies to the same message, newest last, and which of them is shown.

    They belong to a character, not to a chat: RisuAI keeps them when another chat is opened.
    """

    tails: list[Messages] = field(default_factory=list[Messages])
    position: int = -1
    character: str | None = None
    choices: dict[str, Choices] = field(default_factory=dict[str, Choices])

    def meet(self, character: str) -> None:
        """Start again for another character. Replies without one, from another program, belong to the first."""
        if self.character not in (None, character):
            self.tails, self.position = [], -1
        self.character = character

    def push(self, tail: Messages) -> None:
        """Add the newest reply, with the messages that came with it."""
        if tail:
            self.tails.append(tail)
            self.position = len(self.tails) - 1

    def offer(self, choices: Mapping[str, Sequence[str]]) -> None:
        """Remember texts to choose from, by the id of the reply."""
        self.choices.update((name, Choices(tuple(texts))) for name, texts in choices.items())
        while len(self.choices) > MAX_CHOICES:
            del self.choices[next(iter(self.choices))]

    def move(self, messages: Messages, direction: Literal["left", "right"]) -> Messages | None:
        """Show the next reply on one side; None if there is none."""
        step = 1 if direction == "right" else -1
        choices = self.choices.get(generation_id(messages[-1])) if messages else None
        text = None if choices is None else choices.step(step)
        if text is not None:
            return (*messages[:-1], with_text(messages[-1], text))
        if not (self.position < len(self.tails) - 1 if step > 0 else 0 < self.position <= len(self.tails)):
            return None
        self.position += step
        tail = self.tails[self.position]
        # Tails may differ in length: then older messages are overwritten or left over, as in RisuAI.
        return (*messages[: max(len(messages) - len(tail), 0)], *tail)

    def begin(self, messages: Messages) -> None:
        """Make the current reply the first choice, if there are none."""
        if not self.tails:
            self.tails, self.position = [messages[-1:]], 0

    def to_json(self) -> JsonObject:
        """Write the state for a snapshot."""
        return {
            "tails": [[thaw(message.to_json()) for message in tail] for tail in self.tails],
            "position": self.position,
            "character": self.character,
            "choices": {name: {"texts": [*each.texts], "index": each.index} for name, each in self.choices.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Rerolls:
        """Read the state of a snapshot; invalid parts are left out."""
        tails, position, character, choices = (data.get(key) for key in ("tails", "position", "character", "choices"))
        found = cls(
            tails=[_messages(tail) for tail in tails if is_sequence(tail)] if is_sequence(tails) else [],
            position=position if isinstance(position, int) else -1,
            character=character if isinstance(character, str) else None,
        )
        for name, each in choices.items() if is_mapping(choices) else ():
            texts, index = (each.get("texts"), each.get("index")) if is_mapping(each) else (None, None)
            if is_sequence(texts):
                found.choices[name] = Choices(tuple(map(str, texts)), index if isinstance(index, int) else 0)
        return found


def _messages(tail: Sequence[object]) -> Messages:
    return tuple(RisuMessage.from_json(message) for message in tail if is_mapping(message))


def taken_back(messages: Messages) -> Messages:
    """Return the chat without its last reply: back to the user's message, or to the same speaker's previous one.

    So, as in RisuAI, a single character loses one of several messages in a row, and a group its whole round.
    """
    if not messages:
        return messages
    kept, speaker = [*messages], messages[-1].saying
    while kept and kept[-1].role != "user":
        if len(kept) < len(messages) and kept[-1].saying == speaker:
            break
        kept.pop()
    return tuple(kept)
