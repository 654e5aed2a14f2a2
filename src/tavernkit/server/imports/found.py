"""What an import finds (cards and other items, chats, groups, settings), and how far it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._values import Json, JsonObject
from tavernkit.server.imports.saves import FoundSaveChats, FoundSaveGroup
from tavernkit.server.library.item_files import NewItem
from tavernkit.server.limits import MAX_JOB_WARNINGS


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that a chat or the settings refer to by URL."""

    url: str
    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """The file in the data folder that a chat was read from, with its digest."""

    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class FoundChat:
    """A SillyTavern chat; ``avatar`` and ``persona`` are the character's and the user's files, if known."""

    file: st.ChatFile
    digest: str = ""
    """That of its file."""
    avatar: str | None = None
    persona: str = ""
    files: tuple[FoundFile, ...] = ()
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class FoundGroupChat:
    """A chat of a group; ``group`` is the name of the group's file, ``persona`` that of the user's avatar."""

    group: str
    file: st.ChatFile
    digest: str = ""
    persona: str = ""
    files: tuple[FoundFile, ...] = ()
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class FoundRisuChats:
    """Chats exported from RisuAI; their file does not name the character."""

    path: Path
    file: risu_ai.ChatFile


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """A group, its members by their file names; ``key`` is its own file name."""

    key: str
    group: st.Group


@dataclass(frozen=True, slots=True)
class FoundScripts:
    """SillyTavern's global regex scripts."""

    scripts: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class FoundSettings:
    """A platform's settings of chats."""

    settings: JsonObject
    platform: str
    variables: JsonObject = field(default_factory=dict[str, Json])
    """Global variables."""


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """What applies to all chats of a SillyTavern folder: settings, and the files of its Data Bank."""

    settings: JsonObject
    files: tuple[FoundFile, ...] = ()
    variables: JsonObject = field(default_factory=dict[str, Json])
    """Global variables."""


Found: TypeAlias = (
    NewItem
    | FoundChat
    | FoundGroupChat
    | FoundRisuChats
    | FoundGroup
    | FoundScripts
    | FoundSettings
    | FoundFolder
    | FoundSaveGroup
    | FoundSaveChats
)
Work: TypeAlias = tuple[str, Callable[[], Found]]
"""A name for reports, and a function that reads the item."""


@dataclass(slots=True)
class Progress:
    """The progress of an import."""

    job_id: str
    owner: str
    folder: Path
    """The folder of the upload, which is removed from warnings."""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    skipped: dict[str, int] = field(default_factory=dict[str, int])
    """How much of an upload was there already."""
    warnings: list[str] = field(default_factory=list[str])
    characters: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported characters by the names of their files."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported characters by slugs of their names."""
    groups: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported groups by the names of their files."""
    personas: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported personas by the names of their avatars' files."""
    presets: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported presets by the names of their files."""
    books: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported books by their names."""
    stored_folder: str | None = None
    """The id of the folder's settings, once they are stored."""
    done: int = 0
    more_warnings: int = 0
    served: bool = False
    """True if a folder is read again: unchanged files stay, changed ones become new versions."""
    save: Path | None = None
    """The save that is served: it is imported at each start, and its items become new versions."""
    seen: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Names of files or of parts of a save, by kind and id or key of their items."""

    def warn(self, message: str) -> None:
        """Report what was left out or changed."""
        message = message.replace(f"{self.folder / 'content'}{os.sep}", "")
        if len(self.warnings) < MAX_JOB_WARNINGS:
            self.warnings.append(message)
        else:
            self.more_warnings += 1

    def count(self, kind: str, number: int = 1) -> None:
        """Count what was imported."""
        if number:
            self.counts[kind] = self.counts.get(kind, 0) + number

    def skip(self, kind: str, number: int = 1) -> None:
        """Count what was there already."""
        if number:
            self.skipped[kind] = self.skipped.get(kind, 0) + number

    @property
    def uploaded(self) -> bool:
        """True for an import that is not repeated at every start."""
        return not self.served and self.save is None

    def result(self) -> JsonObject:
        """Return the result for clients."""
        imported: dict[str, Json] = {**self.counts}
        skipped: dict[str, Json] = {"skipped": {**self.skipped}} if self.skipped and self.uploaded else {}
        more = [f"… and {self.more_warnings} more warnings"] if self.more_warnings else []
        return {"imported": imported, **skipped, "warnings": [*self.warnings, *more]}
