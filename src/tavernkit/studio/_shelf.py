"""Where characters can be opened from besides files: a SillyTavern folder, or the service's library."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from tavernkit._values import Json, JsonObject, is_list, thaw
from tavernkit.conversation._installations import FolderChat, find_chat
from tavernkit.errors import TavernKitError, WarningLog
from tavernkit.silly_tavern import DataFolder
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._files.folder_files import CHARACTERS, PRESETS, WORLDS
from tavernkit.studio._build_inputs import BOOK_SLOTS, Inputs
from tavernkit.studio._document import JSONL, Document, empty_data, new_document, read_document
from tavernkit.studio._turn import DEFAULT_TURN, TEXT
from tavernkit.studio._workspace import Workspace
from tavernkit.studio.errors import StudioError

MAX_LISTED: Final = 5000
"""The maximum number of characters, presets and chats in lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """What to open."""

    character: str | None = None
    group: str | None = None
    chat: str | None = None
    preset: str | None = None
    books: Sequence[str] = ()
    platform: str | None = None


@dataclass(frozen=True, slots=True)
class OpenedShelf:
    """The opened documents, and other inputs of builds."""

    workspace: Workspace
    inputs: Inputs


class Shelf(Protocol):
    """A place with characters, books, presets and chats."""

    async def choices(self) -> JsonObject:
        """Return what can be opened."""
        ...

    async def open(self, wanted: OpenRequest) -> OpenedShelf:
        """Open a character with its files."""
        ...

    async def is_changed(self, document: Document) -> bool:
        """Return True if a document was changed elsewhere since it was opened."""
        ...

    async def read(self, document: Document) -> Document:
        """Read a document again."""
        ...

    async def write(self, document: Document, content: bytes, *, overwrite: bool = False) -> str | None:
        """Store a document, unless it was changed elsewhere; return the name of the old version's backup, if any.

        Args:
            document: The document.
            content: Its file.
            overwrite: Store it anyway.
        """
        ...


class FolderShelf:
    """SillyTavern's data folder. Its documents are saved as files."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder

    async def choices(self) -> JsonObject:
        """Return the characters with their chats, the groups and the presets."""
        return await asyncio.to_thread(self._choices)

    def _choices(self) -> JsonObject:
        folder = self._folder
        characters = folder.characters()[:MAX_LISTED]
        chats: JsonObject = {name: _names(folder.chats(name)) for name in characters}
        return {
            "characters": _names(characters),
            "groups": _names(folder.groups()),
            "presets": _names(folder.presets()),
            "chats": chats,
        }

    async def open(self, wanted: OpenRequest) -> OpenedShelf:
        """Open a chat of the folder with all its files."""
        return await asyncio.to_thread(self.open_now, wanted)

    def open_now(self, wanted: OpenRequest) -> OpenedShelf:
        """Do what ``open()`` does, synchronously."""
        folder = DataFolder(self._folder.path, warn=WarningLog())  # files may have changed since it was read
        place = find_chat(folder, wanted.character, wanted.chat, group=wanted.group)
        builder = folder.builder(place.avatar, place.stored_name, group=place.group)
        context = builder.make_context(warn=None)
        documents = [
            *_cards(folder, place, context),
            *_books(folder, context),
            _preset(folder, wanted.preset),
            _chat(place),
            *_scripts(context),
            _persona(context),
        ]
        workspace = Workspace(documents)
        members: list[Json] = [each.id for each in workspace.state.documents.values() if each.kind == "card"]
        turn: JsonObject = {
            **DEFAULT_TURN,
            "dialect": TEXT if context.text_completion else "openai",
            "members": members if place.group is not None else [],
        }
        return OpenedShelf(workspace.with_turn(turn), Inputs(builder))

    async def is_changed(self, document: Document) -> bool:
        """Return False: documents of a folder are files."""
        del document
        return False

    async def read(self, document: Document) -> Document:
        """Return the document: those of a folder are files, which are read without it."""
        return document

    async def write(self, document: Document, content: bytes, *, overwrite: bool = False) -> str | None:
        """Refuse: documents of a folder are files."""
        del content, overwrite
        raise StudioError(409, f"{document.title} has no file to save to: download it", code="not_writable")


def _names(names: Sequence[str]) -> list[Json]:
    return list(names[:MAX_LISTED])


def _cards(folder: DataFolder, place: FolderChat, context: SillyTavernContext) -> Iterator[Document]:
    avatars = [place.avatar] if place.avatar is not None else [*context.members]
    for avatar in avatars:
        yield read_document(folder.path / CHARACTERS / avatar, name=avatar, kind="card")


def _books(folder: DataFolder, context: SillyTavernContext) -> Iterator[Document]:
    seen: set[str] = set()
    for slot in BOOK_SLOTS:
        for book in getattr(context, slot):
            path = folder.path / WORLDS / f"{book.name}.json"
            if book.name not in seen and path.is_file():
                seen.add(book.name)
                yield replace(read_document(path, name=path.name, kind="book"), slot=slot)


def _preset(folder: DataFolder, name: str | None) -> Document:
    """Return the requested preset, or the one in use; its file is used if it has the same content."""
    in_use = folder.settings.preset
    if name is not None:
        path = folder.path / PRESETS / f"{name}.json"
        if name not in folder.presets() or not path.is_file():
            raise StudioError(404, f"there is no preset {name!r}", code="preset_not_found")
        return read_document(path, name=path.name, kind="preset")
    path = folder.path / PRESETS / f"{in_use.name}.json"
    if in_use.name and in_use.name in folder.presets() and path.is_file():
        read = read_document(path, name=path.name, kind="preset")
        try:
            if folder.preset(in_use.name) == in_use:
                return read
        except TavernKitError:
            pass
    return new_document("", "preset", in_use.name or "preset in use", in_use.to_json())


def _chat(place: FolderChat) -> Document:
    path = Path(place.store.path)
    if place.exists:
        return read_document(path, name=path.name, kind="chat")
    data, _ = empty_data("chat")
    return replace(new_document("", "chat", place.name, data, format_=JSONL), path=path)


def _scripts(context: SillyTavernContext) -> Iterator[Document]:
    """Return the global regex scripts; they are part of the settings, which are not written."""
    scripts = thaw(context.settings.extension_settings.get("regex"))
    if is_list(scripts) and scripts:
        yield new_document("", "regex", "scripts of the settings", scripts)


def _persona(context: SillyTavernContext) -> Document:
    persona = context.active_persona
    data: JsonObject = {
        "name": context.user_name,
        "description": persona.description,
        "position": persona.place,
        "depth": int(persona.depth),
        "role": int(persona.role),
    }
    return new_document("", "persona", context.user_name, data)
