"""Detects the kind of a save, and reads its database and its list of assets."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._source import FileContent, Source, as_source, read_all
from tavernkit.errors import Warn
from tavernkit.risu_ai._files.backup_file import DATABASE_KEY, StoredFiles, find_database, looks_like_backup, read_index
from tavernkit.risu_ai._files.compression import CompressionError, decompress
from tavernkit.risu_ai._files.database_codec import MARK, DatabaseError, Decoder, parse
from tavernkit.risu_ai._files.file_kinds import foreign_file, foreign_json, foreign_lines, is_database, is_text
from tavernkit.risu_ai._files.start_up import Stored
from tavernkit.risu_ai._limits import MAX_COLD_CHAT_BYTES, MAX_DATABASE_BYTES

Kind = Literal["backup", "database", "json"]
_LOOK = 4096
_SHOWN_BYTES = 8
EXPORT = "in RisuAI, Settings > Save Local Backup writes a file with everything"


class SaveAsset:
    """A picture or another file of a save, read on demand.

    Args:
        name: Its name in the save.
        size: Its size in bytes.
        read: Returns its bytes.
    """

    def __init__(self, name: str, size: int, read: Callable[[], bytes]) -> None:
        self.name = name
        self.size = size
        self._read = read

    def __repr__(self) -> str:
        return f"SaveAsset({self.name!r}, {self.size} bytes)"

    def read(self) -> bytes:
        """Read the bytes."""
        return self._read()


def open_save(source: FileContent, files: StoredFiles) -> Source:
    """Open a file, or the database in a folder of RisuAI's."""
    if not isinstance(source, (str, os.PathLike)) or not os.fspath(source).strip() or not Path(source).is_dir():
        return as_source(source, DEFAULT_LIMITS)
    if (found := files.database()) is not None:
        return found
    copies = ", ".join(path.name for path in sorted(Path(source).glob("database/dbbackup-*.bin"), reverse=True)[:3])
    hint = f"; in its folder database are copies, which you can open: {copies}" if copies else ""
    raise DatabaseError(f"{source}: the folder has no {DATABASE_KEY}{hint}; {EXPORT}")


def read_save(source: Source, name: str, decoder: Decoder, warn: Warn) -> tuple[Stored, Kind, dict[str, SaveAsset]]:
    """Read the database and list the assets; raises ``DatabaseError`` for other files."""
    with source.open() as stream:
        start = stream.read(_LOOK)
    if not is_database(start) and looks_like_backup(start, None if decoder.salvage else source.size):
        return _read_backup(source, name, decoder, warn)
    if foreign := foreign_file(start):
        raise DatabaseError(f"{name}: this is {foreign}, not a save of RisuAI; {EXPORT}")
    data = read_all(source, MAX_DATABASE_BYTES, limit="MAX_DATABASE_BYTES", what=name)
    if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return _read_json(data, name), "json", {}
    try:
        database = decoder.decode(data)
    except DatabaseError as error:
        why = str(error) if is_database(start) else f"this is {_unknown(data)}, not a save of RisuAI"
        raise DatabaseError(f"{name}: {why}; {EXPORT}") from error
    if not is_database(start) and (foreign := foreign_json(database)):
        raise DatabaseError(f"{name}: this is {foreign}, not a save of RisuAI; {EXPORT}")
    return database, "database", {}


def _unknown(data: bytes) -> str:
    """Describe a file that could not be decoded, as far as its bytes show what it is."""
    if not data:
        return "an empty file"
    if is_text(data[:_LOOK]):
        return "a web page, perhaps a chat (`risu_ai.ChatFile.load`)" if data.lstrip()[:1] == b"<" else "a text"
    if data.startswith(MARK) and len(data) > len(MARK):
        return f"a database of version {data[len(MARK)]}, where 7, 8 and 9 are known"
    try:
        unpacked = foreign_json(parse(decompress(data, MAX_COLD_CHAT_BYTES)))
    except (CompressionError, ValueError):
        unpacked = ""
    return unpacked or f"an unknown file that begins with the bytes {data[:_SHOWN_BYTES].hex(' ')}"


def _read_backup(source: Source, name: str, decoder: Decoder, warn: Warn) -> tuple[Stored, Kind, dict[str, SaveAsset]]:
    index = read_index(source)
    if index.problem:
        warn(f"{name}: {index.problem}")
    entry = index.database
    if entry is None and index.problem and decoder.salvage:
        entry = index.rest if index.rest is not None and index.rest.is_database else find_database(source)
        if entry is not None and entry is not index.rest:
            warn(f"{name}: what follows was searched, and the database was found at offset {entry.offset}")
    if entry is None:
        why = f" ({index.problem})" if index.problem else ""
        raise DatabaseError(f"{name}: the backup has {len(index.assets)} assets and no database{why}; {EXPORT}")
    try:
        database = decoder.decode(entry.read())
    except DatabaseError as error:
        raise DatabaseError(f"{name}: {error}") from error
    assets = {each.name: SaveAsset(each.name, each.size, each.read) for each in index.assets.values()}
    return database, "backup", assets


def _read_json(data: bytes, name: str) -> Stored:
    try:
        value = parse(data)
    except ValueError as error:
        found = foreign_lines(data) or f"not JSON ({error})"
        raise DatabaseError(f"{name}: this is {found}, not a save of RisuAI; {EXPORT}") from error
    if isinstance(value, dict) and isinstance(value.get("characters"), list):
        return value
    found = foreign_json(value) or "JSON without a list of characters"
    raise DatabaseError(f"{name}: this is {found}, not a save of RisuAI; {EXPORT}")


def file_asset(name: str, source: Source) -> SaveAsset:
    """Return an asset that is a separate file."""

    def read() -> bytes:
        return read_all(source, MAX_DATABASE_BYTES, limit="MAX_DATABASE_BYTES", what=name)

    return SaveAsset(name, source.size, read)
