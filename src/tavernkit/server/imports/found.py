"""What an upload or a folder may contain, as it is found: cards and other items, chats, groups, settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._values import Json, JsonObject
from tavernkit.server.imports.saves import FoundSaveChats, FoundSaveGroup
from tavernkit.server.library.item_files import NewItem


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
"""A name for reports, and a function that reads the item."""
