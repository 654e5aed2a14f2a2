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


def read_save(path: Path, character: str | None, chat: str | None) -> ChosenChat:
    """Read a save; the default is the open chat."""
    with naming(path):
        save = Save.load(path if path.is_dir() else readable(path))
    if character is None:
        names = ", ".join(each.name for each in save.characters[:12]) or "(there are none)"
        raise typer.BadParameter(f"choose --character from {names}")
    try:
        return ChosenChat(save.inputs(character, chat), save.settings)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error
