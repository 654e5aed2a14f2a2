"""Where bytes come from: a path, bytes in memory, a file object. All can be read again later, in parts."""

from __future__ import annotations

import io
import os
import stat
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit.cards._limits import Limits
from tavernkit.errors import ConfigError, FileFormatError, LimitExceededError

Readable: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO
"""Types that ``load()`` accepts."""


FileContent: TypeAlias = str | os.PathLike[str] | bytes
"""The path of a file, or its bytes."""

_HEAD_BYTES = 512


class _Stream(Protocol):
    def read(self) -> object: ...


class Source(Protocol):
    """Bytes of a known size that can be opened any number of times."""

    @property
    def size(self) -> int:
        """How many bytes there are."""
        ...

    def open(self) -> AbstractContextManager[BinaryIO]:
        """Return a seekable stream at its start."""
        ...


@dataclass(frozen=True, slots=True)
class BytesSource:
    """Bytes in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.data)

    @contextmanager
    def open(self) -> Generator[BinaryIO, None, None]:
        """Return a stream over the bytes."""
        yield io.BytesIO(self.data)


@dataclass(frozen=True, slots=True)
class PathSource:
    """A file on disk, opened again for each use."""

    path: Path

    @property
    def size(self) -> int:
        """The size the file has now."""
        with _readable(self.path):
            return self.path.stat().st_size

    @contextmanager
    def open(self) -> Generator[BinaryIO, None, None]:
        """Open the file."""
        with _readable(self.path):
            stream = self.path.open("rb")
        with stream:
            yield stream


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A seekable file object that its owner keeps open; one reader at a time."""

    stream: BinaryIO
    size: int
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)

    @contextmanager
    def open(self) -> Generator[BinaryIO, None, None]:
        """Yield the stream at its start; other threads wait."""
        with self._lock:
            self.stream.seek(0)
            yield self.stream


@dataclass(frozen=True, slots=True)
class SliceSource:
    """A part of another source, such as the picture before an appended archive; read as a whole when opened."""

    source: Source
    start: int
    size: int

    @contextmanager
    def open(self) -> Generator[BinaryIO, None, None]:
        """Read the part."""
        with self.source.open() as stream:
            stream.seek(self.start)
            data = stream.read(self.size)
        yield io.BytesIO(data)


def as_source(readable: Readable, limits: Limits) -> Source:
    """Make a source from a readable; refuse anything else."""
    if isinstance(readable, (bytes, bytearray, memoryview)):
        return BytesSource(bytes(readable))
    if isinstance(readable, (str, os.PathLike)):
        return _path_source(readable)
    require("source", readable, _Stream, "a path, bytes or a binary file object")
    if readable.seekable():
        return StreamSource(readable, readable.seek(0, os.SEEK_END))
    data = readable.read(limits.max_file_bytes + 1)
    if len(data) > limits.max_file_bytes:
        raise LimitExceededError(f"the stream has more than {limits.max_file_bytes} bytes", limit="max_file_bytes")
    return BytesSource(data)


def _path_source(path: str | os.PathLike[str]) -> PathSource:
    text = os.fspath(path)
    if not text.strip():
        raise ConfigError("the path is blank: pass the path of a file", code="FILE_NOT_FOUND")
    file = Path(text)
    hint = " (pass content as bytes)" if "{" in text or "\n" in text else ""
    try:
        mode = file.stat().st_mode  # from Python 3.14 on, `is_file()` has no errors
    except (FileNotFoundError, NotADirectoryError):
        mode = 0
    except (OSError, ValueError) as error:
        raise ConfigError(f"{text[:100]!r} cannot be a path{hint}", code="FILE_NOT_FOUND") from error
    if stat.S_ISDIR(mode):
        raise ConfigError(f"{text[:200]!r} is a folder, not a file", code="FILE_NOT_FOUND")
    if not stat.S_ISREG(mode):
        raise ConfigError(f"there is no file {text[:200]!r}{hint}", code="FILE_NOT_FOUND")
    return PathSource(file)


@contextmanager
def _readable(path: Path) -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        raise FileFormatError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error


def read_file(source: FileContent, max_bytes: int, *, limit: str) -> bytes:
    """Return the bytes of a file, given its path or its bytes.

    Raises ``ConfigError`` if the file does not exist, ``FileFormatError`` if it cannot be read or is too large.
    """
    with file_source(source, max_bytes, limit=limit).open() as stream:
        return stream.read(max_bytes)


def file_source(source: FileContent, max_bytes: int, *, limit: str) -> Source:
    """Return a file to read in parts; see ``read_file()``."""
    require("source", source, FileContent, "a path or bytes")
    opened = BytesSource(source) if isinstance(source, bytes) else _path_source(source)
    _check_size(opened, max_bytes, limit=limit, what=called(source))
    return opened


def called(source: FileContent) -> str:
    """Return the name of a file for messages."""
    return "the file" if isinstance(source, bytes) else os.fspath(source)


def stem(source: FileContent) -> str:
    """Return the name of a file without its extension; empty for bytes."""
    return "" if isinstance(source, bytes) else Path(source).stem


def file_type_of(source: FileContent, file_type: str) -> str:
    """Return the type of a file in lower case: the one that is given, or the ending of its path.

    Raises ``ConfigError`` if neither says it.
    """
    found = file_type or ("" if isinstance(source, bytes) else Path(source).suffix)
    if not found:
        raise ConfigError("file_type is missing: say which kind of file this is, for example 'png' or 'json'")
    return found.removeprefix(".").lower()


def read_head(source: Source) -> bytes:
    """Return the first bytes of a file, which show its format."""
    with source.open() as stream:
        return stream.read(_HEAD_BYTES)


def read_all(source: Source, max_bytes: int, *, limit: str, what: str) -> bytes:
    """Read a whole source, if it is not larger than a limit."""
    _check_size(source, max_bytes, limit=limit, what=what)
    with source.open() as stream:
        return stream.read(max_bytes)


def _check_size(source: Source, max_bytes: int, *, limit: str, what: str) -> None:
    if source.size > max_bytes:
        raise LimitExceededError(f"{what} has {source.size} bytes, more than {max_bytes}", limit=limit)
