"""One character of a RisuAI database with one of its chats, as the user names them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from tavernkit.cli.files import naming, readable
from tavernkit.risu_ai import Database, RisuCharacter, RisuChat, Settings


@dataclass(frozen=True, slots=True)
class ChosenChat:
    """The inputs of a build, and the settings they come from."""

    inputs: dict[str, object]
    settings: Settings


def read_database(path: Path, character: str | None, chat: str | None) -> ChosenChat:
    """Read a database; without a chat's name the one that is open is taken."""
    with naming(path):
        database = Database.load(readable(path))
    chosen = None if character is None else database.character(character)
    if chosen is None:
        names = ", ".join(each.name for each in database.characters[:12]) or "(there are none)"
        raise typer.BadParameter(f"choose --character out of {names}")
    return ChosenChat(database.inputs(chosen, _chat(chosen, chat)), database.settings)


def _chat(character: RisuCharacter, name: str | None) -> RisuChat | None:
    chats = character.stored_chats
    if name is None:
        return character.stored_chat or next(iter(chats), None)
    for each in chats:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in chats[:12]) or "(there are none)"
    raise typer.BadParameter(f"choose --chat out of {names}")
