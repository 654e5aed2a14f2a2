"""Selects a character of a RisuAI save and one of its chats."""

from __future__ import annotations

from pathlib import Path

import typer

from tavernkit._dataclass import dataclass
from tavernkit.cli.files import naming, readable
from tavernkit.errors import ConfigError
from tavernkit.risu_ai import RisuAIInputs, Save, Settings


@dataclass(frozen=True, slots=True)
class ChosenChat:
    """The inputs of a build, and the settings they come from."""

    inputs: RisuAIInputs
    settings: Settings
    has_persona: bool
    """True if a persona has the user's name; it is then the active persona."""


def read_save(
    path: Path, character: str | None, chat: str | None, *, preset: str | None = None, user: str | None = None
) -> ChosenChat:
    """Read a save; the default is the open chat, with the preset and the persona in use.

    Args:
        path: The file or folder.
        character: The name or id of the character or group.
        chat: The name or id of the chat.
        preset: The name of a preset to switch to.
        user: The user's name; a persona with this name becomes the active one.
    """
    with naming(path):
        save = Save.load(path if path.is_dir() else readable(path))
    if character is None:
        names = ", ".join(each.name for each in save.characters[:12]) or "(there are none)"
        raise typer.BadParameter(f"choose --character from {names}")
    try:
        persona = user if any(each.name == user for each in save.personas) else None
        inputs = save.inputs(character, chat, persona=persona, preset=preset)
        return ChosenChat(inputs, inputs.get("settings", save.settings), persona is not None)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error
