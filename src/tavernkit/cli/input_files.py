"""Reads the books and saves that a command names, and refuses files of the wrong kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject, is_mapping
from tavernkit.cards import FileKind, kind_of
from tavernkit.cli.build_options import BuildOptions
from tavernkit.cli.files import STDIN, naming, read_bytes, readable, shown
from tavernkit.conversation._books import indexed_book, parse_book, world_book
from tavernkit.errors import ConfigError, FileFormatError, log_warning
from tavernkit.lint._files import read_json

if TYPE_CHECKING:
    from tavernkit.risu_ai import Lorebook, RisuAIInputs, Settings
    from tavernkit.silly_tavern import WorldBook


_WANTED: dict[str, tuple[str, frozenset[FileKind]]] = {
    "card": ("a character card", frozenset({FileKind.CARD})),
    "preset": ("a preset", frozenset({FileKind.PRESET, FileKind.RISU_PRESET})),
    "book": (
        "a lore book",
        frozenset({FileKind.WORLD_BOOK, FileKind.LOREBOOK, FileKind.CHARACTER_BOOK, FileKind.CARD, FileKind.MODULE}),
    ),
    "chat": ("a chat", frozenset()),
    "context_template": ("a context template", frozenset({FileKind.CONTEXT_TEMPLATE})),
    "instruct": ("an instruct template", frozenset({FileKind.INSTRUCT_TEMPLATE})),
    "system_prompt": ("a system prompt", frozenset()),
    "regex_script": ("a regex script", frozenset({FileKind.REGEX})),
}
"""What an option expects: a description, and the accepted kinds of files."""

_OPTION_OF = {
    FileKind.CARD: "the card comes first, without an option",
    FileKind.WORLD_BOOK: "use --book",
    FileKind.LOREBOOK: "use --book",
    FileKind.PRESET: "use --preset",
    FileKind.RISU_PRESET: "use --preset",
    FileKind.CONTEXT_TEMPLATE: "use --context-template",
    FileKind.INSTRUCT_TEMPLATE: "use --instruct",
    FileKind.REGEX: "use --regex-script",
}


def load_world(path: Path) -> WorldBook:
    """Read a book of any kind as a world book."""
    if str(path) == STDIN:
        return world_book(read_book(path), "stdin")
    indexed = indexed_book(path, log_warning)
    return world_book(read_book(path), path.stem) if indexed is None else indexed


def load_lorebook(path: Path) -> Lorebook:
    """Read a book of any kind as RisuAI's."""
    from tavernkit.risu_ai import Lorebook

    return Lorebook.from_json(read_book(path), name=path.stem)


def read_book(path: Path) -> JsonObject:
    """Return the JSON of a book: a world file, a RisuAI export, a card's book or a module's."""

    def warn(message: str) -> None:
        log_warning(message if shown(path) in message else f"{shown(path)}: {message}")

    if path.suffix.lower() == ".jsonl":
        raise FileFormatError(f"{path} is a chat, not a lore book: use --chat")
    with naming(path):
        return parse_book(read_bytes(path), shown(path), warn)


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
    from tavernkit.risu_ai import Save

    with naming(path):
        save = Save.load(path if path.is_dir() else readable(path))
    if character is None:
        from tavernkit.conversation._installations import listed

        raise typer.BadParameter(f"choose --character from {listed([each.name for each in save.characters])}")
    try:
        persona = user if any(each.name == user for each in save.personas) else None
        inputs = save.inputs(character, chat, persona=persona, preset=preset)
        return ChosenChat(inputs, inputs.get("settings", save.settings), persona is not None)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error


def refuse_mistaken(options: BuildOptions) -> None:
    """Raise for files that are certainly of the wrong kind for their option."""
    for name, path in _given_files(options):
        words, wanted = _WANTED[name]
        if path.suffix.lower() == ".jsonl" and name != "chat":
            raise FileFormatError(f"{path} is a chat, not {words}: use --chat")
        value = _json(path)
        kind = kind_of(value)
        if kind is not None and kind not in wanted:
            hint = f": {_OPTION_OF[kind]}" if kind in _OPTION_OF else ""
            raise FileFormatError(f"{path} is {kind.with_article}, not {words}{hint}")
        if kind is None and name == "preset" and is_mapping(value):
            log_warning(f"{path}: it has neither prompts nor a context size; is it a preset?")


def _given_files(options: BuildOptions) -> Iterator[tuple[str, Path]]:
    for name in _WANTED:
        value: object = getattr(options, name)
        for each in value if isinstance(value, list) else [value]:  # pyright: ignore[reportUnknownVariableType]  # of paths
            if isinstance(each, (str, Path)) and Path(each).is_file():  # others are names, pipes or missing files
                yield name, Path(each)


def _json(path: Path) -> object:
    return read_json(path) if path.suffix.lower() == ".json" else None
