"""Where triggers and Lua meet a build: what they are given, and what they give back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from tavernkit.risu_ai.character_fields import CharacterFields
from tavernkit.risu_ai.context import RisuContext
from tavernkit.risu_ai.world import RisuCharacter, RisuChat
from tavernkit.values import JsonObject

TriggerMode: TypeAlias = Literal["start", "input", "output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerOutcome:
    """What a run of triggers did: the chat as it should be stored, and texts for the prompt."""

    chat: RisuChat
    start: str = ""
    history_end: str = ""
    prompt_end: str = ""
    tokens: int = 0
    stop_sending: bool = False
    send_ai_prompt: bool = False


class TriggerHost(Protocol):
    """Runs triggers and Lua for a build."""

    def run(
        self, mode: TriggerMode, character: RisuCharacter, chat: RisuChat, context: RisuContext
    ) -> TriggerOutcome | None:
        """Run the triggers of a mode; nothing when there are none, or when a trigger broke the run off."""
        ...

    def edit_request(
        self, character: RisuCharacter, messages: Sequence[JsonObject], context: RisuContext
    ) -> Sequence[JsonObject]:
        """Let Lua's ``editRequest`` listeners change the finished list."""
        ...

    def run_request(
        self, character: RisuCharacter, messages: Sequence[JsonObject], context: RisuContext
    ) -> Sequence[JsonObject]:
        """Run the ``request`` triggers over the messages of a request; an error leaves them as they are."""
        ...

    def edit_text(self, mode: str, character: RisuCharacter, text: str, index: int, context: RisuContext) -> str:
        """Let Lua's ``editInput`` or ``editOutput`` listeners change a text."""
        ...


def has_triggers(fields: CharacterFields, context: RisuContext) -> bool:
    """Whether there is anything to run."""
    return bool(fields.triggers) or any(module.raw.get("trigger") for module in context.enabled_modules)
