"""What a save keeps besides its database, and the local backups (``.bin``) that have both in one file.

That is assets, chats in cold storage, and separate blocks. A backup is a list of named entries, of which one is the
database and the others are assets.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit.cards._source import BytesSource, FileContent, PathSource, Source, read_all
from tavernkit.errors import FileFormatError, LimitExceededError, Warn
from tavernkit.risu_ai._files.compression import CompressionError, decompress
from tavernkit.risu_ai._files.database_codec import parse
from tavernkit.risu_ai._files.message_pack import Packed
from tavernkit.risu_ai._limits import MAX_BACKUP_ENTRIES, MAX_BACKUP_NAME, MAX_COLD_CHAT_BYTES, MAX_DATABASE_BYTES

DATABASE_ENTRY = "database.risudat"
_LENGTH = struct.Struct("<I")
_FIELD = _LENGTH.size
_SEARCHED = 1 << 20
"""How much of a damaged backup is searched at a time."""


@dataclass(frozen=True, slots=True)
class BackupEntry:
    """One entry. Its name is data, never a path; its bytes are read on demand."""

    name: str
    size: int
    offset: int
    source: Source

    @property
    def is_database(self) -> bool:
        """True if this is the database."""
        return self.name == DATABASE_ENTRY

    def read(self) -> bytes:
        """Read the bytes."""
        if self.size > MAX_DATABASE_BYTES:
            raise LimitExceededError(
                f"{self.name[:80]!r} has {self.size} bytes, more than {MAX_DATABASE_BYTES}", limit="MAX_DATABASE_BYTES"
            )
        with self.source.open() as stream:
            stream.seek(self.offset)
            return stream.read(self.size)


@dataclass(frozen=True, slots=True)
class BackupIndex:
    """The entries that are complete, in order; ``problem`` says where and why the reading ended early.

    ``rest`` is the rest of a truncated last entry, which RisuAI does not read.
    """

    entries: tuple[BackupEntry, ...]
    problem: str = ""
    rest: BackupEntry | None = None

    @property
    def database(self) -> BackupEntry | None:
        """The database; the last one if there are several."""
        return next((entry for entry in reversed(self.entries) if entry.is_database), None)

    @property
    def assets(self) -> Mapping[str, BackupEntry]:
        """The assets by name; the later one of duplicates."""
        return {entry.name: entry for entry in self.entries if not entry.is_database}


def read_index(source: Source) -> BackupIndex:
    """List the entries of a backup without reading what is in them.

    As in RisuAI, reading stops at the first incomplete entry, and up to three bytes at the end are ignored.
    """
    entries: list[BackupEntry] = []
    total = source.size
    with source.open() as stream:
        at = 0
        while at + _FIELD <= total:
            if len(entries) == MAX_BACKUP_ENTRIES:
                return BackupIndex(tuple(entries), f"only the first {MAX_BACKUP_ENTRIES} entries are read")
            start, length = at, _length(stream, at)
            if length > MAX_BACKUP_NAME and at + _FIELD + length <= total:
                return BackupIndex(tuple(entries), f"at offset {start}: a name of {length} bytes is too long")
            name = stream.read(min(length, MAX_BACKUP_NAME))
            at += _FIELD + length
            if at > total:
                return _cut(entries, start, "the name", at - total)
            if at + _FIELD > total:
                return _cut(entries, start, "the length of the data", at + _FIELD - total)
            size = _length(stream, at)
            at += _FIELD
            if at + size > total:
                shown = name.decode("utf-8", "replace")[:80]
                rest = BackupEntry(name.decode("utf-8", "replace"), total - at, at, source)
                return _cut(entries, start, f"the data of {shown!r}", at + size - total, rest)
            entries.append(BackupEntry(name.decode("utf-8", "replace"), size, at, source))
            at += size
    return BackupIndex(tuple(entries))


def find_database(source: Source) -> BackupEntry | None:
    """Search a damaged backup for the start of the last database, ignoring the lengths before it."""
    mark = _LENGTH.pack(len(DATABASE_ENTRY)) + DATABASE_ENTRY.encode()
    found, begin, kept = -1, 0, b""
    with source.open() as stream:
        while piece := stream.read(_SEARCHED):
            place = (kept + piece).rfind(mark)
            found = found if place < 0 else begin - len(kept) + place
            begin += len(piece)
            kept = (kept + piece)[1 - len(mark) :]
        at = found + len(mark)
        if found < 0 or at + _FIELD > source.size:
            return None
        size = min(_length(stream, at), source.size - at - _FIELD)
    return BackupEntry(DATABASE_ENTRY, size, at + _FIELD, source)


def _length(stream: BinaryIO, at: int) -> int:
    stream.seek(at)
    return _LENGTH.unpack(stream.read(_FIELD))[0]


def _cut(
    entries: list[BackupEntry], offset: int, what: str, missing: int, rest: BackupEntry | None = None
) -> BackupIndex:
    problem = f"the file is cut off at the entry at offset {offset}: {missing} bytes of {what} are missing"
    return BackupIndex(tuple(entries), problem, rest)


def looks_like_backup(start: bytes, total: int | None) -> bool:
    """Return True if a file with this beginning is a backup.

    Args:
        start: The first bytes.
        total: How many bytes it has; None if it may be cut off in its first entry.
    """
    if len(start) < _FIELD:
        return False
    length = _LENGTH.unpack_from(start)[0]
    if not 1 <= length <= MAX_BACKUP_NAME or len(start) < 2 * _FIELD + length:
        return False
    try:
        name = start[_FIELD : _FIELD + length].decode()
    except UnicodeDecodeError:
        return False
    size = _LENGTH.unpack_from(start, _FIELD + length)[0]
    whole = total is None or 2 * _FIELD + length + size <= total
    return (name.endswith(".png") or name == DATABASE_ENTRY) and whole


def write_backup(out: BinaryIO, assets: Iterable[tuple[str, bytes]], database: bytes) -> None:
    """Write a backup: the assets in order, the database last, as RisuAI does.

    Args:
        out: Where to write.
        assets: Names and bytes; only the part of a name after the last slash is kept.
        database: The database, encoded.
    """
    for name, data in assets:
        _write_entry(out, name.replace("\\", "/").rpartition("/")[2], data)
    _write_entry(out, DATABASE_ENTRY, database)


def _write_entry(out: BinaryIO, name: str, data: bytes) -> None:
    encoded = name.encode("utf-8", "replace")
    out.write(_LENGTH.pack(len(encoded)) + encoded + _LENGTH.pack(len(data)))
    out.write(data)


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
