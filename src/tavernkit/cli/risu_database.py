"""RisuAI's database as a JSON file: one of its characters with one of its chats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from tavernkit.risu_ai.settings import Settings
from tavernkit.risu_ai.world import RisuCharacter, RisuChat
from tavernkit.values import is_mapping, is_sequence


@dataclass(frozen=True, slots=True)
class ChosenChat:
    """The inputs of a build, and the settings they come from."""

    inputs: dict[str, object]
    settings: Settings


def read_database(path: Path, character: str | None, chat: str | None) -> ChosenChat:
    """Read a database; without a chat's name the one that is open is taken."""
    from tavernkit.cards.json_text import parse_json
    from tavernkit.errors import FileFormatError, log_warning

    value = parse_json(path.read_bytes(), what=path.name, warn=log_warning)
    if not is_mapping(value) or not is_sequence(value.get("characters")):
        raise FileFormatError(f"{path}: this is no RisuAI database: it has no characters")
    listed = value["characters"]
    characters = [RisuCharacter.from_json(each) for each in (listed if is_sequence(listed) else ()) if is_mapping(each)]
    named = [each for each in characters if character in (each.name, each.id)]
    if not named:
        names = ", ".join(each.name for each in characters[:12]) or "(there are none)"
        raise typer.BadParameter(f"choose --character out of {names}")
    settings = Settings.from_json(value)
    inputs: dict[str, object] = {
        "character": named[0],
        "members": characters if named[0].is_group else (),
        "settings": settings,
        "history": _chat(named[0], chat),
    }
    return ChosenChat(inputs, settings)


def _chat(character: RisuCharacter, name: str | None) -> RisuChat:
    chats = character.raw.get("chats")
    found = [each for each in chats if is_mapping(each)] if is_sequence(chats) else []
    if name is None:
        page = character.raw.get("chatPage")
        at = page if isinstance(page, int) and 0 <= page < len(found) else 0
        return RisuChat.from_json(found[at]) if found else RisuChat()
    for each in found:
        if each.get("name") == name:
            return RisuChat.from_json(each)
    names = ", ".join(str(each.get("name")) for each in found[:12]) or "(there are none)"
    raise typer.BadParameter(f"choose --chat out of {names}")
