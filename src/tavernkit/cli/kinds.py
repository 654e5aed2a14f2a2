"""Recognises files of the wrong kind before they are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tavernkit._values import is_mapping
from tavernkit.cards import FileKind, kind_of
from tavernkit.cli.build_options import BuildOptions
from tavernkit.errors import FileFormatError, log_warning
from tavernkit.lint._files import read_json

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


def refuse_mistaken(options: BuildOptions) -> None:
    """Raise for files that are certainly of the wrong kind for their option."""
    for name, path in _given(options):
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


def _given(options: BuildOptions) -> Iterator[tuple[str, Path]]:
    for name in _WANTED:
        value: object = getattr(options, name)
        for each in value if isinstance(value, list) else [value]:  # pyright: ignore[reportUnknownVariableType]  # of paths
            if isinstance(each, (str, Path)) and Path(each).is_file():  # others are names, pipes or missing files
                yield name, Path(each)


def _json(path: Path) -> object:
    return read_json(path) if path.suffix.lower() == ".json" else None
