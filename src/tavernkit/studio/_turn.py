"""Reads the turn and persona documents, and the members of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.prompt._inputs import GENERATION_TYPES, GenerationType
from tavernkit.studio._document import Document
from tavernkit.studio._workspace import State

TEXT: Final = "text"
SILLY_TAVERN, RISU_AI = "silly_tavern", "risu_ai"
PLATFORMS: Final = (SILLY_TAVERN, RISU_AI)

DEFAULT_TURN: Final[JsonObject] = {
    "platform": SILLY_TAVERN,
    "message": "",
    "generation_type": "normal",
    "dialect": "openai",
    "model": None,
    "context_length": None,
    "response_length": None,
    "seed": 1,
    "allow_scripts": True,
    "speaker": None,
    "greeting": 0,
    "members": [],
}
"""The fields of a turn document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The values of the turn document, each of the right type."""

    platform: str
    message: str
    generation_type: GenerationType
    dialect: str
    model: str | None
    context_length: int | None
    response_length: int | None
    seed: int
    allow_scripts: bool
    speaker: str | None
    greeting: int
    members: tuple[str, ...]
    """Ids of the cards of a group; fewer than two are not a group."""

    @classmethod
    def of(cls, state: State) -> Turn:
        """Read the active turn document; values of the wrong type count as missing."""
        document = state.one("turn")
        given = document.data if document is not None and is_object(document.data) else {}
        platform, kind, members = given.get("platform"), given.get("generation_type"), given.get("members")
        return cls(
            platform=platform if isinstance(platform, str) and platform in PLATFORMS else SILLY_TAVERN,
            message=_text(given.get("message")) or "",
            generation_type=GENERATION_TYPES[GENERATION_TYPES.index(kind)] if kind in GENERATION_TYPES else "normal",
            dialect=_text(given.get("dialect")) or "openai",
            model=_text(given.get("model")) or None,
            context_length=_number(given.get("context_length"), 1),
            response_length=_number(given.get("response_length"), 0),
            seed=_number(given.get("seed"), 0) or 0,
            allow_scripts=given.get("allow_scripts") is not False,
            speaker=_text(given.get("speaker")) or None,
            greeting=_number(given.get("greeting"), -1) or 0,
            members=tuple(each for each in members if isinstance(each, str)) if is_list(members) else (),
        )


@dataclass(frozen=True, slots=True)
class PersonaFields:
    """The values of the persona document, each of the right type."""

    name: str = "User"
    description: str = ""
    position: int = 0
    depth: int = 2
    role: int = 0


def persona_of(state: State) -> PersonaFields:
    """Read the active persona document; values of the wrong type count as missing."""
    document = state.one("persona")
    data = document.data if document is not None and is_object(document.data) else {}
    return PersonaFields(
        name=_text(data.get("name")) or "User",
        description=_text(data.get("description")) or "",
        position=_number(data.get("position"), 0) or 0,
        depth=depth if (depth := _number(data.get("depth"), 0)) is not None else 2,
        role=_number(data.get("role"), 0) or 0,
    )


def group_members(state: State) -> list[Document]:
    """Return the cards of the group; empty for a single character."""
    found = (state.documents.get(each) for each in dict.fromkeys(Turn.of(state).members))
    members = [each for each in found if each is not None and each.kind == "card"]
    return members if len(members) > 1 else []


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Json, least: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e15 < value < 1e15:
        return None
    return max(int(value), least)
