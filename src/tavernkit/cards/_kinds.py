"""Kinds of files, recognised by the names of their fields."""

from __future__ import annotations

from enum import StrEnum

from tavernkit._values import is_mapping, is_sequence
from tavernkit.cards._book import CharacterBook
from tavernkit.errors import Warn


class FileKind(StrEnum):
    """The kind of content of a file."""

    CARD = "card"
    MODULE = "RisuAI module"
    WORLD_BOOK = "world book"
    CHARACTER_BOOK = "character book"
    LOREBOOK = "RisuAI lorebook"
    PRESET = "SillyTavern preset"
    RISU_PRESET = "RisuAI preset"
    CONTEXT_TEMPLATE = "context template"
    INSTRUCT_TEMPLATE = "instruct template"
    CHAT_TEMPLATE = "chat template"
    REGEX = "regex scripts"
    TEXT = "text"

    @property
    def with_article(self) -> str:
        """The kind as part of a sentence: ``an instruct template``."""
        if self in (FileKind.REGEX, FileKind.TEXT):
            return self.value
        return f"an {self}" if self is FileKind.INSTRUCT_TEMPLATE else f"a {self}"


def kind_of(value: object) -> FileKind | None:
    """Return what kind of file parsed JSON belongs to; None if unknown."""
    if _has_scripts(value):
        return FileKind.REGEX
    if not is_mapping(value):
        return None
    for kind, belongs in (
        (FileKind.LOREBOOK, value.get("type") == "risu"),
        (FileKind.REGEX, value.get("type") == "regex"),
        (FileKind.MODULE, value.get("type") == "risuModule"),
        (FileKind.CARD, "spec" in value or "first_mes" in value),
        (FileKind.CHARACTER_BOOK, CharacterBook.fits(value)),
        (FileKind.WORLD_BOOK, "entries" in value),
        (FileKind.RISU_PRESET, "promptTemplate" in value or "aiModel" in value),
        (FileKind.PRESET, "prompts" in value or "prompt_order" in value or "openai_max_context" in value),
        (FileKind.CONTEXT_TEMPLATE, "story_string" in value),
        (FileKind.INSTRUCT_TEMPLATE, "input_sequence" in value),
    ):
        if belongs:
            return kind
    return None


def warn_if_mistaken(value: object, wanted: str, *kinds: FileKind, what: str, warn: Warn) -> None:
    """Warn about a file that is read as one kind and is certainly another, which would otherwise go unnoticed.

    Args:
        value: The parsed file.
        wanted: What it is read as, in words.
        kinds: The kinds that it may be.
        what: What the file is called.
        warn: Called with the warning.
    """
    kind = kind_of(value)
    if kind is not None and kind not in kinds:
        warn(f"{what} is read as {wanted}, but it is {kind.with_article}: little or nothing of it is used")


def _has_scripts(value: object) -> bool:
    """Return True for a list of regex scripts, or one of them."""
    items = value if is_sequence(value) else (value,)
    return bool(items) and all(is_mapping(item) and ("findRegex" in item) for item in items)
