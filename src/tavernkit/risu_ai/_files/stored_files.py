"""RisuAI's files besides its database: assets, chats in cold storage, separate blocks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from tavernkit.cards._source import BytesSource, FileContent, PathSource, Source, read_all
from tavernkit.errors import FileFormatError, Warn
from tavernkit.risu_ai._files.compression import CompressionError, decompress
from tavernkit.risu_ai._files.database_codec import parse
from tavernkit.risu_ai._files.message_pack import Packed
from tavernkit.risu_ai._limits import MAX_COLD_CHAT_BYTES, MAX_DATABASE_BYTES

Companions: TypeAlias = str | os.PathLike[str] | Mapping[str, FileContent]
"""A RisuAI folder, or files by RisuAI's names."""

DATABASE_FOLDER, DATABASE_FILE = "database", "database.bin"
DATABASE_KEY = f"{DATABASE_FOLDER}/{DATABASE_FILE}"
COLD_MARK = "\uef01COLDSTORAGE\uef01"
"""Marks the only message of a chat in cold storage, before the name of its file."""

COLD_FIELDS = ("message", "hypaV2Data", "hypaV3Data", "scriptstate", "localLore")
_PLAIN_NAME = re.compile(r"(?!\.)[^/\\\0]{1,200}")
_HEX = re.compile(r"(?:[0-9a-f]{2})++")
_DRIVE_DATABASES = "*-database.risudat"
_OLD_DRIVE_NAME = re.compile(r"_(_|d|s)")


class StoredFiles:
    """Finds files by RisuAI's keys, such as ``remotes/NAME.local.bin``, wherever any version of RisuAI stores them.

    The desktop program has folders, the server one folder with hexadecimal names, a browser names with underscores.
    """

    def __init__(self, companions: Companions | None) -> None:
        self._named: Mapping[str, FileContent] = {}
        self._folder: Path | None = None
        if isinstance(companions, Mapping):
            self._named = companions
        elif companions is not None:
            folder = Path(companions)
            inside = folder.name == DATABASE_FOLDER and (folder / DATABASE_FILE).is_file()
            self._folder = folder.resolve().parent if inside else folder

    def find(self, key: str) -> Source | None:
        """Find a file by its key; a key is never used as a path beyond its two parts."""
        group, _, name = key.rpartition("/")
        if not _PLAIN_NAME.fullmatch(name):
            return None
        for each in (key, f"{key}.json", f"{group}_{name}.json"):
            named = self._named.get(each)
            if named is not None:
                return BytesSource(named) if isinstance(named, bytes) else PathSource(Path(named))
        if self._folder is None:
            return None
        places = (
            self._folder / group / name,
            self._folder / group / f"{name}.json",
            self._folder / f"{group}_{name}.json",
            self._folder / key.encode("utf-8", "replace").hex(),
        )
        return next((PathSource(place) for place in places if place.is_file()), None)

    def database(self) -> Source | None:
        """Find the database of the folder; of those that were downloaded from Google Drive, the newest."""
        downloaded = [] if self._folder is None else sorted(self._folder.glob(_DRIVE_DATABASES))
        return self.find(DATABASE_KEY) or (PathSource(downloaded[-1]) if downloaded else None)

    def remote(self, name: str) -> bytes | None:
        """Read a block that is stored in a separate file."""
        found = self.find(f"remotes/{name}.local.bin") if _PLAIN_NAME.fullmatch(name) else None
        return None if found is None else read_all(found, MAX_DATABASE_BYTES, limit="MAX_DATABASE_BYTES", what=name)

    def assets(self) -> Iterator[tuple[str, Source]]:
        """List the assets by name."""
        if self._folder is None:
            return
        folder = self._folder / "assets"
        if folder.is_dir():
            yield from ((path.name, PathSource(path)) for path in sorted(folder.iterdir()) if path.is_file())
        for path in sorted(self._folder.iterdir()):
            if _HEX.fullmatch(path.name) and path.is_file():
                key = bytes.fromhex(path.name).decode("utf-8", "replace")
                if key.startswith("assets/"):
                    yield key.removeprefix("assets/"), PathSource(path)
        if any(self._folder.glob(_DRIVE_DATABASES)):
            yield from _drive_assets(self._folder)

    def thaw(self, chat: dict[str, Packed], warn: Warn) -> dict[str, Packed]:
        """Restore a chat from cold storage; if its file is missing, it stays as it is, as in RisuAI."""
        name = _cold_name(chat)
        if name is None:
            return chat
        found = self.find(f"coldstorage/{name}")
        title = str(chat.get("name") or "")[:80]
        if found is None:
            warn(f"the chat {title!r} is in cold storage and its file coldstorage/{name[:80]} is not there")
            return chat
        try:
            packed = read_all(found, MAX_COLD_CHAT_BYTES, limit="MAX_COLD_CHAT_BYTES", what=name)
            stored = parse(decompress(packed, MAX_COLD_CHAT_BYTES))
        except (CompressionError, FileFormatError, ValueError) as error:
            warn(f"the chat {title!r} is in cold storage and its file cannot be read: {error}")
            return chat
        if isinstance(stored, list):  # the older form has only messages
            return {**chat, "message": stored}
        if not isinstance(stored, dict):
            warn(f"the chat {title!r} is in cold storage and its file contains no chat")
            return chat
        return {**chat, **{key: stored[key] for key in COLD_FIELDS if key in stored}}


def _drive_assets(folder: Path) -> Iterator[tuple[str, Source]]:
    """List the assets beside a database from Google Drive; older versions of RisuAI rewrote their names."""
    written = {"_": "_", "d": ".", "s": "/"}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".bin":
            yield path.stem, PathSource(path)
        elif path.suffix == ".png":
            key = _OLD_DRIVE_NAME.sub(lambda found: written[found[1]], path.stem)
            yield key.removeprefix("assets/"), PathSource(path)


def _cold_name(chat: Mapping[str, Packed]) -> str | None:
    messages = chat.get("message")
    first = messages[0] if isinstance(messages, list) and messages else None
    text = first.get("data") if isinstance(first, dict) else None
    return text.removeprefix(COLD_MARK) if isinstance(text, str) and text.startswith(COLD_MARK) else None
