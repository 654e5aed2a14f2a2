"""The platforms and formats that commands support."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import typer


class Platform(StrEnum):
    """The program whose rules or format are used."""

    SILLY_TAVERN = "silly_tavern"
    RISU_AI = "risu_ai"


CHARACTER_BOOK = "character_book"
"""The format of books inside cards, which belongs to no program."""


def choice_option(choices: Sequence[str], *names: str, help: str, panel: str | None = None) -> object:  # noqa: A002  # typer's word
    """Make an option that accepts its choices in any spelling: ``silly_tavern``, ``SillyTavern``."""
    known = {_joined(each): each for each in choices}

    def read(value: str) -> str:
        found = known.get(_joined(value))
        if found is None:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}")
        return found

    def complete(incomplete: str) -> list[str]:
        return [each for each in choices if each.startswith(incomplete)]

    return typer.Option(
        *names,
        help=help,
        parser=read,
        metavar=f"<{'|'.join(choices)}>",
        autocompletion=complete,
        rich_help_panel=panel,
        show_default=False,
    )


def _joined(value: str) -> str:
    return value.lower().replace("_", "").replace("-", "")
