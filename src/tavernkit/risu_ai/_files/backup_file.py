"""Local backups (``.bin``): a list of named entries, of which one is the database and the others are assets."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import BinaryIO

from tavernkit._dataclass import dataclass
from tavernkit.cards._source import Source
from tavernkit.errors import LimitExceededError
from tavernkit.risu_ai._limits import MAX_BACKUP_ENTRIES, MAX_BACKUP_NAME, MAX_DATABASE_BYTES

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
