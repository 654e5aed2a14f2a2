"""The texts of character and persona, ready for a prompt, with the example dialogues."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim
from tavernkit._text.traced import join, split
from tavernkit.cards._character import Character
from tavernkit.silly_tavern._chat.authors_note import depth_prompt_of
from tavernkit.silly_tavern._files.chat_file import ChatMetadata
from tavernkit.silly_tavern._group import START, JoinedFields


@dataclass(frozen=True, slots=True)
class CardTexts:
    """Card fields with their macros expanded. A whitespace-only field is empty."""

    system_prompt: str = ""
    examples: str = ""
    description: str = ""
    personality: str = ""
    persona: str = ""
    scenario: str = ""
    post_history: str = ""
    depth_prompt: str = ""
    creator_notes: str = ""
    of_chat: frozenset[str] = frozenset()
    """Fields whose texts are the chat's own, from its header."""


def card_texts(
    character: Character | None,
    metadata: ChatMetadata,
    persona: str,
    *,
    prefer_prompt: bool,
    prefer_jailbreak: bool,
    joined: JoinedFields | None,
    expand: Callable[[str], str],
) -> CardTexts:
    """Expand the fields in SillyTavern's order: a variable set in one is available in the next.

    ``expand`` expands a text in which card macros are empty. ``joined`` has a group's merged fields, expanded.
    """
    if character is None:
        return CardTexts(persona=expand(trim(persona)))
    own = character

    def ready(text: str) -> str:
        return expand(trim(text))

    system_prompt = ready(metadata.system_prompt or own.system_prompt) if prefer_prompt else ""
    examples = joined.examples if joined is not None else ready(metadata.mes_example or own.mes_example)
    description = joined.description if joined is not None else ready(own.description)
    personality = joined.personality if joined is not None else ready(own.personality)
    persona_text = ready(persona)
    scenario = joined.scenario if joined is not None else ready(metadata.scenario or own.scenario)
    texts = CardTexts(
        system_prompt=system_prompt,
        examples=examples,
        description=description,
        personality=personality,
        persona=persona_text,
        scenario=scenario,
        post_history=ready(own.post_history_instructions) if prefer_jailbreak else "",
        depth_prompt=ready(depth_prompt_of(own).text),
        creator_notes=ready(own.creator_notes),
        of_chat=_of_chat(metadata, prefer_prompt=prefer_prompt),
    )
    # SillyTavern expands the greetings in every build, too: variables that they set count.
    for greeting in (own.first_mes, *own.alternate_greetings):
        ready(greeting)
    return texts


def _of_chat(metadata: ChatMetadata, *, prefer_prompt: bool) -> frozenset[str]:
    stored = {"scenario": metadata.scenario, "mes_example": metadata.mes_example}
    if prefer_prompt:
        stored["system_prompt"] = metadata.system_prompt
    return frozenset(name for name, text in stored.items() if text)


START_LINE = f"{START}\n"

_SEPARATOR = re.compile(START, re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class ExampleTurn:
    """What one speaker says in an example, without the name before it."""

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
    """Split example dialogue into blocks, each under the heading.

    The text counts as starting with a separator only if that is in upper case; elsewhere any case separates. So an
    introduction, or a lower-case first separator, makes a separate block.
    """
    if not text or text == START:
        return []
    if not text.startswith(START):
        text = START_LINE + trim(text)
    return [heading + trim(part) + "\n" for part in split(_SEPARATOR, text)[1:]]


def parse_block(
    block: str, *, user_name: str, character_name: str, group_names: Collection[str] = ()
) -> list[ExampleMessage]:
    """Convert one block to messages; in a group (``group_names`` given) each keeps its speaker's name."""
    turns = read_block(block, user_name=user_name, character_name=character_name, group_names=group_names)
    return [
        ExampleMessage(turn.from_user, turn.name + ": " + turn.text if group_names else turn.text) for turn in turns
    ]


def read_block(
    block: str, *, user_name: str, character_name: str, group_names: Collection[str] = ()
) -> list[ExampleTurn]:
    """Read the turns of one block; its first line is the separator's.

    A line that begins with a name and a colon starts that speaker's turn; other lines belong to the turn, including
    prose before the first one. The character's side speaks under the name of the member whose line was read last.
    """
    user, character = f"{user_name}:", f"{character_name}:"
    others = (character, *(f"{name}:" for name in group_names))
    turns: list[ExampleTurn] = []
    gathered: list[str] = []
    in_user, in_character, speaker = False, False, character_name

    def close() -> None:
        name = user_name if in_user else speaker
        # The first occurrence, wherever it is: with prose before it, a name inside the text is removed.
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
            if not line.startswith(character):  # a later line of the character does not change it back
                speaker = line.partition(":")[0]
        gathered.append(line)
    if in_user or in_character:
        close()
    return turns


IN_PROMPT, AFTER_CHARACTER, TOP_OF_NOTE, BOTTOM_OF_NOTE, AT_DEPTH, NOWHERE = 0, 1, 2, 3, 4, 9
"""Positions of a persona description. ``AFTER_CHARACTER`` is deprecated: files that have it are read as
``IN_PROMPT``, and a persona with it is not shown."""

_POSITIONS = {
    "in_prompt": IN_PROMPT,
    "top_an": TOP_OF_NOTE,
    "bottom_an": BOTTOM_OF_NOTE,
    "at_depth": AT_DEPTH,
    "none": NOWHERE,
}


def stored_position(value: object) -> int:
    """Read a position from a file; SillyTavern does not accept numbers written as text."""
    if value is None:
        return IN_PROMPT
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not float(value).is_integer():
        return NOWHERE
    return IN_PROMPT if value == AFTER_CHARACTER else int(value)


@dataclass(frozen=True, slots=True)
class Persona:
    """A persona description and where it goes; ``position`` is SillyTavern's number or one of its names.

    The names are ``in_prompt``, ``top_an``, ``bottom_an``, ``at_depth`` and ``none``. Depth and role (0 system, 1 user,
    2 assistant) count only at a depth.
    """

    description: str = ""
    """The text."""
    position: int | str = IN_PROMPT
    depth: int | float = 2
    """Messages between it and the end of the chat."""
    role: int | float = 0
    """Its role in the chat."""
    lorebook: str | None = None
    """The name of the lorebook that is linked to the persona."""
    reason: str = field(default="", compare=False)
    """Where it is stored and why it was chosen, for explanations."""

    @property
    def place(self) -> int:
        """The position as a number."""
        return _POSITIONS.get(self.position, NOWHERE) if isinstance(self.position, str) else self.position

    def around_note(self, note: str) -> str:
        """Return the text of a due author's note, with the persona above or below if that is its place.

        The line break is added to an empty note, too.
        """
        if not self.description:
            return note
        if self.place == TOP_OF_NOTE:
            return self.description + "\n" + note
        return note + "\n" + self.description if self.place == BOTTOM_OF_NOTE else note
