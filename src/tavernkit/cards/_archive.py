"""A ZIP reader for files from strangers: bounded, by name, one member at a time.

The standard library reads the whole directory at once, trusts it, and fails if it is damaged. This reader stops at its
limits, finds archives appended to pictures, and walks the members themselves if the directory is missing.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import field
from typing import BinaryIO

from tavernkit._dataclass import dataclass
from tavernkit._values import Json
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._limits import Limits
from tavernkit.cards._source import Source
from tavernkit.cards.errors import UnsafeNameError, ZipError
from tavernkit.errors import LimitExceededError, Warn

LOCAL = b"PK\x03\x04"
_CENTRAL = b"PK\x01\x02"
_END = b"PK\x05\x06"
_END64 = b"PK\x06\x06"
_LOCATOR64 = b"PK\x06\x07"

_TAIL_BYTES = 22 + 0xFFFF + 20 + 56
_BLOCK_BYTES = 1 << 16
_STORED, _DEFLATED = 0, 8
_MAX_OFFSET = 1 << 62


@dataclass(frozen=True, slots=True)
class Member:
    """One member as the directory describes it."""

    name: str
    method: int
    flags: int
    crc: int
    compressed_size: int
    size: int
    offset: int
    """Where its local header is in the file."""

    @property
    def encrypted(self) -> bool:
        """True if a password is needed."""
        return bool(self.flags & 1)


@dataclass(slots=True)
class Archive:
    """The members of an archive; everything read from one archive counts towards ``max_total_bytes``."""

    source: Source
    limits: Limits
    warn: Warn
    members: tuple[Member, ...]
    start: int
    """The offset of the archive's first member; a picture may come before it."""
    _total: int = field(default=0, init=False)
    _by_name: dict[str, Member] = field(default_factory=dict[str, Member], init=False, repr=False)

    def __post_init__(self) -> None:
        self._by_name.update((member.name, member) for member in reversed(self.members))

    def find(self, name: str) -> Member | None:
        """Return the first member with exactly this name."""
        return self._by_name.get(name)

    def lookup(self, path: str) -> MemberSource | None:
        """Return the bytes of a member, to be read on demand; None if there is no such member."""
        member = self.find(path)
        return MemberSource(self.source, member, self.limits) if member else None

    def find_ending(self, ending: str) -> Member | None:
        """Return the first member whose name has this ending; folders that macOS adds are skipped."""
        return next((m for m in self.members if m.name.endswith(ending) and not m.name.startswith("__MACOSX")), None)

    def read(self, member: Member, max_bytes: int | None = None, *, limit: str = "max_entry_bytes") -> bytes:
        """Decompress a member, up to a limit that does not depend on its header."""
        most = self.limits.max_entry_bytes if max_bytes is None else max_bytes
        self._check(member, most, limit)
        with self.source.open() as stream:
            data = _inflate(stream, _data_offset(stream, member), member, most, limit)
        self._total += len(data)
        if self._total > self.limits.max_total_bytes:
            raise LimitExceededError(
                f"more than {self.limits.max_total_bytes} bytes were inflated from the archive", limit="max_total_bytes"
            )
        if len(data) != member.size:
            self.warn(f"{member.name}: {len(data)} bytes where the archive's directory says {member.size}")
        elif zlib.crc32(data) != member.crc:
            self.warn(f"{member.name}: the checksum is wrong; it was read anyway")
        return data

    def read_json(self, member: Member) -> Json:
        """Read a member as JSON."""
        data = self.read(member, self.limits.max_json_bytes, limit="max_json_bytes")
        return parse_json(data, what=member.name, warn=self.warn, limits=self.limits)

    def _check(self, member: Member, most: int, limit: str) -> None:
        if member.encrypted:
            raise ZipError(f"{member.name} is encrypted")
        if member.method not in (_STORED, _DEFLATED):
            raise ZipError(f"{member.name} uses compression method {member.method}, which is not supported")
        if member.size > most:
            raise LimitExceededError(f"{member.name} has {member.size} bytes, more than {most}", limit=limit)
        if member.size > self.limits.max_compression_ratio * max(member.compressed_size, 1):
            raise LimitExceededError(
                f"{member.name} inflates to more than {self.limits.max_compression_ratio} times its size",
                limit="max_compression_ratio",
            )


@dataclass(frozen=True, slots=True)
class MemberSource:
    """A member's bytes, read on demand; finds the member again if the file has changed."""

    file: Source
    member: Member
    limits: Limits

    @property
    def size(self) -> int:
        """The size according to the directory."""
        return self.member.size

    def read(self, max_bytes: int) -> bytes:
        """Decompress the member."""
        archive = Archive(self.file, self.limits, _ignore, (self.member,), 0)
        try:
            return archive.read(self.member, max_bytes)
        except LimitExceededError:
            raise
        except ZipError:
            archive = open_archive(self.file, self.limits, _ignore)
            member = archive.find(self.member.name)
            if member is None:
                raise
            return archive.read(member, max_bytes)


def _ignore(message: str) -> None:
    del message


def open_archive(source: Source, limits: Limits, warn: Warn) -> Archive:
    """List the members of an archive that begins anywhere in the file; raises ``ZipError`` if there is none."""
    with source.open() as stream:
        end = find_end(stream)
        if end is None:
            members = tuple(_salvage(stream, limits))
            if not members:
                raise ZipError("the file is not an archive")
            warn("the archive's directory is missing; its members were read one after the other")
        else:
            shift = end.start - end.stated_start
            members = tuple(_directory(stream, end.start, end.count, shift, limits))
    for member in members:
        check_name(member.name, limits)
        if member.encrypted and not limits.allow_encrypted:
            raise ZipError(f"the archive has an encrypted member: {member.name}")
    start = min((member.offset for member in members), default=0)
    return Archive(source, limits, warn, members, start)


@dataclass(frozen=True, slots=True)
class DirectoryEnd:
    """The record at an archive's end."""

    start: int
    """Where the directory is."""
    stated_start: int
    """The offset in the record, relative to the start of the archive."""
    count: int


def find_end(stream: BinaryIO) -> DirectoryEnd | None:
    """Find the end record in the last 64 KiB of a file."""
    size = stream.seek(0, os.SEEK_END)
    base = max(0, size - _TAIL_BYTES)
    stream.seek(base)
    tail = stream.read(_TAIL_BYTES)
    at = tail.rfind(_END)
    while at >= 0:
        found = _end_record(stream, tail, base, at)
        if found is not None:
            return found
        at = tail.rfind(_END, 0, at)
    return None


def _end_record(stream: BinaryIO, tail: bytes, base: int, at: int) -> DirectoryEnd | None:
    if len(tail) - at < 22:
        return None
    count, size, stated = struct.unpack_from("<HII", tail, at + 10)
    position = base + at
    locator = at - 20
    if locator >= 0 and tail[locator : locator + 4] == _LOCATOR64:
        record = tail.rfind(_END64, 0, locator)
        if record >= 0 and locator - record >= 56:
            count, size, stated = struct.unpack_from("<QQQ", tail, record + 32)
            position = base + record
    for start in (position - size, stated):
        if 0 <= start <= position - size:
            stream.seek(start)
            if count == 0 or stream.read(4) == _CENTRAL:
                return DirectoryEnd(start, stated, count)
    return None


def _directory(stream: BinaryIO, start: int, count: int, shift: int, limits: Limits) -> Iterator[Member]:
    if count > limits.max_entries:
        raise LimitExceededError(
            f"the archive has {count} members, more than {limits.max_entries}", limit="max_entries"
        )
    stream.seek(start)
    for _ in range(count):
        member = read_directory_entry(stream, shift)
        if not member.name.endswith("/"):
            yield member


def read_directory_entry(stream: BinaryIO, shift: int) -> Member:
    """Read the directory entry at the current position; ``shift`` is where the archive begins in the file."""
    header = stream.read(46)
    if len(header) < 46 or header[:4] != _CENTRAL:
        raise ZipError("the archive's directory is broken")
    flags, method, crc, compressed, size = struct.unpack_from("<HH4xIII", header, 8)
    name_length, extra_length, comment_length = struct.unpack_from("<HHH", header, 28)
    offset: int = struct.unpack_from("<I", header, 42)[0]
    name = stream.read(name_length)
    extra = stream.read(extra_length)
    stream.seek(comment_length, os.SEEK_CUR)
    if 0xFFFFFFFF in (size, compressed, offset):
        size, compressed, offset = _zip64(extra, size, compressed, offset)
    if not 0 <= offset + shift < _MAX_OFFSET:
        raise ZipError("the archive's directory points outside the file")
    return Member(_decode_name(name, flags), method, flags, crc, compressed, size, offset + shift)


def _zip64(extra: bytes, size: int, compressed: int, offset: int) -> tuple[int, int, int]:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            numbers = iter(struct.unpack_from(f"<{min(length, len(extra) - at - 4) // 8}Q", extra, at + 4))
            values = [next(numbers, value) if value == 0xFFFFFFFF else value for value in (size, compressed, offset)]
            return values[0], values[1], values[2]
        at += 4 + length
    return size, compressed, offset


def _salvage(stream: BinaryIO, limits: Limits) -> Iterator[Member]:
    """Walk the members themselves; stop at one without a size."""
    offset = find_local(stream)
    if offset is None:
        return
    for _ in range(limits.max_entries):
        stream.seek(offset)
        header = stream.read(30)
        if len(header) < 30 or header[:4] != LOCAL:
            return
        flags, method, crc, compressed, size = struct.unpack_from("<HH4xIII", header, 6)
        name_length, extra_length = struct.unpack_from("<HH", header, 26)
        name = _decode_name(stream.read(name_length), flags)
        if flags & 8 and not compressed:
            return
        if name and not name.endswith("/"):
            yield Member(name, method, flags, crc, compressed, size, offset)
        offset += 30 + name_length + extra_length + compressed


def find_local(stream: BinaryIO) -> int | None:
    """Find the first local header in a file."""
    stream.seek(0)
    at, carried = 0, b""
    while block := stream.read(_BLOCK_BYTES):
        window = carried + block
        found = window.find(LOCAL)
        if found >= 0:
            return at - len(carried) + found
        at += len(block)
        carried = window[-3:]
    return None


def _decode_name(raw: bytes, flags: int) -> str:
    if flags & 0x800:
        return raw.decode("utf-8", errors="replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp437")


def check_name(name: str, limits: Limits) -> None:
    """Refuse a name that is too long, absolute, or points outside the archive's folder."""
    if len(name.encode("utf-8", errors="surrogatepass")) > limits.max_name_bytes:
        raise LimitExceededError(
            f"a member's name has more than {limits.max_name_bytes} bytes: {name[:60]!r}…", limit="max_name_bytes"
        )
    problem = unsafe_part(name)
    if problem:
        raise UnsafeNameError(f"the archive has a member with an unsafe name ({problem}): {name!r}")


def unsafe_part(name: str) -> str | None:
    """Return what makes a name unsafe, if anything."""
    if not name:
        return "empty"
    if "\0" in name:
        return "zero byte"
    if "\\" in name:
        return "backslash"
    if name.startswith("/") or (len(name) > 1 and name[1] == ":" and name[0].isalpha()):
        return "absolute"
    return "leads upwards" if ".." in name.split("/") else None


def _data_offset(stream: BinaryIO, member: Member) -> int:
    stream.seek(member.offset)
    header = stream.read(30)
    if len(header) < 30 or header[:4] != LOCAL:
        raise ZipError(f"{member.name} is not where the archive's directory says")
    name_length, extra_length = struct.unpack_from("<HH", header, 26)
    flags: int = struct.unpack_from("<H", header, 6)[0]
    if _decode_name(stream.read(name_length), flags) != member.name:
        raise ZipError(f"another member is where the archive's directory says {member.name} is")
    return member.offset + 30 + name_length + extra_length


def _inflate(stream: BinaryIO, offset: int, member: Member, most: int, limit: str) -> bytes:
    stream.seek(offset)
    if member.method == _STORED:
        data = stream.read(min(member.compressed_size, most + 1))
        if len(data) < min(member.compressed_size, most + 1):
            raise ZipError(f"{member.name} is cut off")
        return _bounded(data, member, most, limit)
    inflater = zlib.decompressobj(-15)
    parts: list[bytes] = []
    room, left = most + 1, member.compressed_size
    try:
        while room > 0 and not inflater.eof:
            block = inflater.unconsumed_tail or stream.read(min(left, _BLOCK_BYTES))
            left -= 0 if inflater.unconsumed_tail else len(block)
            part = inflater.decompress(block, room)
            if not block and not part:
                raise ZipError(f"{member.name} is cut off")
            parts.append(part)
            room -= len(part)
    except zlib.error as error:
        raise ZipError(f"{member.name} cannot be inflated: {error}") from error
    return _bounded(b"".join(parts), member, most, limit)


def _bounded(data: bytes, member: Member, most: int, limit: str) -> bytes:
    if len(data) > most:
        raise LimitExceededError(f"{member.name} inflates to more than {most} bytes", limit=limit)
    return data
