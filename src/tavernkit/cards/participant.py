"""Those who take part in a chat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Participant(Protocol):
    """Anyone who takes part in a chat; a character can be the user."""

    @property
    def name(self) -> str:
        """The name shown."""
        ...

    @property
    def persona_text(self) -> str:
        """Who they are, for the prompt."""
        ...


@dataclass(frozen=True, slots=True)
class User:
    """The user's side of a chat."""

    name: str
    persona: str = ""

    @property
    def persona_text(self) -> str:
        """The persona's description."""
        return self.persona
