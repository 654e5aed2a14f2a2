"""Those who take part in a chat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tavernkit.arguments import check_fields


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

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def persona_text(self) -> str:
        """The persona's description."""
        return self.persona
