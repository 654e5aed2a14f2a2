"""Everything that may go into a prompt, in place, before the budget decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tavernkit.silly_tavern.chat.core_chat import CoreMessage
from tavernkit.silly_tavern.chat.examples import ExampleMessage
from tavernkit.silly_tavern.chat_completion.in_chat_injection import Injected
from tavernkit.silly_tavern.chat_completion.prompt_collection import Prompt, PromptCollection
from tavernkit.silly_tavern.provenance import source
from tavernkit.values import FrozenObject


class LateText:
    """A text that is expanded when it is first needed: macros of what is never reached must not run."""

    __slots__ = ("_expand", "_text", "raw")

    def __init__(self, raw: str, expand: Callable[[str], str]) -> None:
        self.raw = raw
        self._expand = expand
        self._text: str | None = None

    def __str__(self) -> str:
        if self._text is None:
            self._text = self._expand(self.raw)
        return self._text


HistoryEntry: TypeAlias = "CoreMessage | Injected"
"""A message of the chat, or one made of prompts that stand in the chat."""


@dataclass(frozen=True, slots=True)
class ExampleBlock:
    """One example dialogue, with where it came from: as messages, or for text completion as text."""

    messages: tuple[ExampleMessage, ...]
    kind: str = "card field"
    id: str = "mes_example"
    title: str = ""
    reason: str = "example dialogue of the card"
    text: str = ""

    def source(self, stage: str, number: int) -> FrozenObject:
        """Its provenance; ``number`` counts the examples of this prompt from 0."""
        return source(stage, self.kind, self.id, self.title or f"example dialogue {number + 1}", self.reason)


@dataclass(slots=True)
class Layout:
    """What the assembly works on. ``history`` is oldest first, injections included."""

    collection: PromptCollection
    generation_type: str
    control: list[Prompt] = field(default_factory=list[Prompt])
    bias: bool = False
    beside_main: list[Prompt] = field(default_factory=list[Prompt])
    tools_text: str | None = None
    core: Sequence[CoreMessage] = ()
    history: list[HistoryEntry] = field(default_factory=list["HistoryEntry"])
    prefill: CoreMessage | None = None
    prefill_prefix: str = ""
    continued_text: str = ""
    new_chat: LateText | None = None
    continue_nudge: LateText | None = None
    group_nudge: Prompt | None = None
    send_if_empty: str = ""
    example_header: LateText | None = None
    examples: list[ExampleBlock] = field(default_factory=list[ExampleBlock])
    pin_examples: bool = False
