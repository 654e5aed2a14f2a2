"""Data of an imported SillyTavern folder besides its items: settings, names, and files used by chats."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import silly_tavern as st
from tavernkit._values import Json, JsonObject, LRUCache, is_list, is_mapping, is_object, is_sequence, thaw
from tavernkit.server.storage.items import Kind, Ref, infos, item_file, slug
from tavernkit.silly_tavern._files.attached_files import AttachedFiles
from tavernkit.silly_tavern._files.preset import SENSITIVE_KEYS
from tavernkit.silly_tavern._macros.environment import CHAT_COMPLETION_API
from tavernkit.silly_tavern._text_completion.planning import SETTINGS as TEXT_SETTINGS

FOLDER: Kind = "folder"
FILE: Kind = "file"
SERVED = "served"
"""The id of the served folder; new chats with its characters belong to it."""
ATTACHED = ("files", "file", "media", "image", "image_swipes", "video")
"""Keys of a message's ``extra`` that refer to files of the data folder."""
DATA_BANKS = ("attachments", "character_attachments")
"""Settings of extensions that list the files of the Data Bank."""
KEPT_SETTINGS = (
    *("username", "user_avatar", "main_api", "amount_gen", "max_context"),
    *("power_user", "world_info_settings", "extension_settings", "tag_map", "oai_settings", *TEXT_SETTINGS),
)
"""Keys of ``settings.json`` that affect prompts."""
_CONNECTION = re.compile(r"url|server|proxy|password|secret|api_?key", re.IGNORECASE)
"""Settings of text completion that are about connections."""
KEPT_EXTENSIONS = (
    *("note", "memory", "cfg", "vectors", "attachments", "character_attachments", "regex", "disabledExtensions"),
    *("character_allowed_regex", "preset_allowed_regex", "disabled_attachments"),
)
"""Extensions whose settings affect prompts: others may contain keys of services."""

CACHED_FILES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFolder:
    """An imported folder: its settings, and the ids of its files here."""

    id: str
    settings: st.Settings = field(default_factory=st.Settings)
    avatars: Mapping[str, str] = field(default_factory=dict[str, str])
    """The files of characters by their ids."""
    groups: frozenset[str] = frozenset()
    books: Mapping[str, str] = field(default_factory=dict[str, str])
    """The ids of books by their names."""

    def book(self, name: str) -> Ref:
        """Return the book with a name."""
        return "book", self.books.get(name) or slug(name)

    @property
    def completes_text(self) -> bool:
        """Return True if the settings select text completion."""
        return self.settings.main_api != CHAT_COMPLETION_API

    def has(self, character: str | None, group: str | None) -> bool:
        """Return True if a character or a group belongs to the folder."""
        return character in self.avatars if character is not None else group in self.groups


def kept_settings(settings: Mapping[str, object]) -> JsonObject:
    """Return the part of ``settings.json`` that is kept, without connections."""
    found: JsonObject = {key: thaw(settings[key]) for key in KEPT_SETTINGS if key in settings}
    extensions, preset = found.get("extension_settings"), found.get("oai_settings")
    if is_object(extensions):
        found["extension_settings"] = {key: extensions[key] for key in KEPT_EXTENSIONS if key in extensions}
    if is_object(preset):
        found["oai_settings"] = {key: value for key, value in preset.items() if key not in SENSITIVE_KEYS}
    for name in TEXT_SETTINGS:
        samplers = found.pop(name, None)
        if is_object(samplers):
            found[name] = {key: value for key, value in samplers.items() if _CONNECTION.search(key) is None}
    return found


def folder_file(
    settings: JsonObject, avatars: Mapping[str, str], groups: Iterable[str], books: Mapping[str, str]
) -> bytes:
    """Write the stored data of a folder.

    Args:
        settings: Its settings, as returned by ``kept_settings()``.
        avatars: Files of characters by their ids.
        groups: Ids of its groups.
        books: Ids of books by their names.
    """
    content = {"settings": settings, "avatars": {**avatars}, "groups": sorted(groups), "books": {**books}}
    return json.dumps(content, sort_keys=True).encode()


def read_folder(folder_id: str, value: Mapping[str, object]) -> StoredFolder:
    """Read the output of ``folder_file()``."""
    settings, groups = value.get("settings"), value.get("groups")
    return StoredFolder(
        id=folder_id,
        settings=st.Settings.from_json(settings if is_mapping(settings) else {}, warn=_ignore),
        avatars=_names(value.get("avatars")),
        groups=frozenset(str(each) for each in groups) if is_sequence(groups) else frozenset(),
        books=_names(value.get("books")),
    )


def _names(value: object) -> dict[str, str]:
    return {str(key): str(each) for key, each in value.items()} if is_mapping(value) else {}


def file_id(folder: str, url: str) -> str:
    """Return the id of a file of a folder, by its URL in chats."""
    path = unquote(url).partition("?")[0].lstrip("/").replace("\\", "/")
    return f"{folder}-{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def named_files(values: Iterable[Json]) -> list[str]:
    """Return the URLs of data folder files in messages and settings, without duplicates."""
    found: dict[str, None] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if value.lstrip("/").startswith("user/"):
                found[value] = None
        elif is_object(value):
            waiting += value.values()
        elif is_list(value):
            waiting += value
    return sorted(found)


def attached(native: JsonObject) -> list[Json]:
    """Return the attachments of a message."""
    extra = native.get("extra")
    return [extra[key] for key in ATTACHED if extra.get(key)] if is_object(extra) else []


class FolderStore:
    """Reads files of imported folders; recent ones are cached."""

    def __init__(self) -> None:
        self._files: LRUCache[tuple[object, ...], tuple[str, bytes]] = LRUCache(CACHED_FILES)

    async def files(
        self, connection: AsyncConnection, folder: str, urls: Sequence[str]
    ) -> dict[str, tuple[str, bytes]]:
        """Return the names and contents of files by URL, without missing ones.

        Args:
            connection: The database.
            folder: The id of the folder.
            urls: The URLs of the files in chats.
        """
        known = await infos(connection, [(FILE, file_id(folder, url)) for url in urls]) if urls else {}
        found: dict[str, tuple[str, bytes]] = {}
        for url in urls:
            info = known.get((FILE, file_id(folder, url)))
            if info is None:
                continue
            key = (info.id, info.version, info.created_at)
            file = self._files.get(key)
            if file is None:
                file = (info.filename, await item_file(connection, FILE, info.id))
                self._files.put(key, file)
            found[url] = file
            await asyncio.sleep(0)
        return found


class _StoredFiles(Mapping[str, str]):
    def __init__(self, files: Mapping[str, tuple[str, bytes]]) -> None:
        self._files = files

    def __getitem__(self, url: str) -> str:
        return self._value(*self._files[url])

    def _value(self, name: str, content: bytes) -> str:
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


class StoredTexts(_StoredFiles):
    """The texts of attached files by URL."""

    def _value(self, name: str, content: bytes) -> str:
        return content.decode("utf-8", "replace").removeprefix("\ufeff")


class StoredMedia(_StoredFiles):
    """Attached pictures, videos and sounds as ``data:`` URLs."""

    def _value(self, name: str, content: bytes) -> str:
        return AttachedFiles.data_url(name, content)


def _ignore(_: str) -> None:
    """Ignore a warning: warnings of settings are shown when they are imported."""
