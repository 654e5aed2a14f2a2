"""The chat of a text-completion prompt without instruct mode: a line a message, with what is injected at a depth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tavernkit.silly_tavern.core_chat import CoreMessage
from tavernkit.silly_tavern.extension_prompts import ExtensionPrompt, joined
from tavernkit.silly_tavern.limits import MAX_INJECTION_DEPTH
from tavernkit.text.js_values import trim_start

SYSTEM, USER, ASSISTANT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class TextMessage:
    """A message of the chat, or one made of prompts that stand in it. Narration and what has no name is only text."""

    name: str
    text: str
    is_user: bool = False
    narrator: bool = False
    injected: bool = False

    @property
    def line(self) -> str:
        """The message as a line of the prompt."""
        return f"{self.name}: {self.text}\n" if self.name and not self.narrator else f"{self.text}\n"


@dataclass(frozen=True, slots=True)
class Speakers:
    """The names a chat is written with."""

    user: str
    character: str


def text_messages(core: Sequence[CoreMessage]) -> list[TextMessage]:
    """The messages of the core chat, oldest first."""
    return [
        TextMessage(message.line.name, message.text, message.line.is_user, message.line.narrator) for message in core
    ]


def inject_texts(
    messages: Sequence[TextMessage],
    prompts: Mapping[tuple[int, int], Sequence[ExtensionPrompt]],
    speakers: Speakers,
    expand: Callable[[str], str],
    *,
    continuing: bool,
) -> list[TextMessage]:
    """Put the registry's prompts into a chat (both oldest first), each depth and role as one message.

    At one depth the assistant's comes first, then the user's, then the system's. When the last message is continued,
    depth 0 is before it.
    """
    newest_first = list(reversed(messages))
    inserted = 0
    for depth in sorted({depth for depth, _ in prompts if depth <= MAX_INJECTION_DEPTH}):
        group = _at_depth(depth, prompts, speakers, expand)
        place = (1 if continuing and depth == 0 else depth) + inserted
        newest_first[place:place] = group
        inserted += len(group)
    return newest_first[::-1]


def _at_depth(
    depth: int,
    prompts: Mapping[tuple[int, int], Sequence[ExtensionPrompt]],
    speakers: Speakers,
    expand: Callable[[str], str],
) -> list[TextMessage]:
    names = {SYSTEM: "", USER: speakers.user, ASSISTANT: speakers.character}
    found: list[TextMessage] = []
    for role, name in names.items():
        text = trim_start(expand(joined(prompts.get((depth, role), ()))))
        if text:
            found.append(TextMessage(name, text, is_user=role == USER, narrator=role == SYSTEM, injected=True))
    return found


def history_lines(
    messages: Sequence[TextMessage], speakers: Speakers, *, continuing: bool, stored_messages: int, name_reply: bool
) -> list[tuple[str, TextMessage]]:
    """The lines of the history, oldest first, each with its message; the last one ends where the reply begins.

    A continued message is not part of the history. ``name_reply`` puts the character's name before the reply, unless
    the only stored message is continued.
    """
    if continuing and len(messages) > 1:
        lines = [(message.line, message) for message in messages[:-1]]
    else:
        lines = [(message.line, message) for message in messages]
    if not lines:
        return []
    text, newest = lines[-1]
    if not continuing:
        text = text.removesuffix("\n")
    if name_reply and not (continuing and stored_messages == 1):
        text = text if text.endswith("\n") else f"{text}\n"
        if not (continuing and messages[-1].is_user):
            text += f"{speakers.character}:"
    return [*lines[:-1], (text, newest)]
