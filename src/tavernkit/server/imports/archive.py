"""Uploaded archives, unpacked within limits."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tavernkit.server.errors import ServiceError
from tavernkit.server.limits import MAX_IMPORT_BYTES, MAX_IMPORT_FILES, MAX_IMPORT_RATIO

MAX_DEPTH = 12
COPY_BYTES = 1 << 16


def unpack(archive: Path, target: Path) -> None:
    """Unpack a ZIP file into a folder; names cannot escape it, and sizes are limited."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [info for info in opened.infolist() if not info.is_dir()]
            _check(members)
            left = MAX_IMPORT_BYTES
            for info in members:
                left -= _extract(opened, info, target, left)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise ServiceError(422, f"the archive cannot be read: {error}", code="invalid_archive") from error


def files_below(folder: Path) -> Iterator[Path]:
    """Return all files of a folder, in order."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _check(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_IMPORT_FILES:
        raise ServiceError(422, f"the archive has more than {MAX_IMPORT_FILES} files", code="archive_too_large")
    if sum(info.file_size for info in members) > MAX_IMPORT_BYTES:
        raise ServiceError(422, f"the archive unpacks to over {MAX_IMPORT_BYTES} bytes", code="archive_too_large")
    for info in members:
        if info.file_size > MAX_IMPORT_RATIO * max(info.compress_size, 1024):
            raise ServiceError(422, "the archive's compression ratio is suspiciously high", code="archive_too_large")


def _extract(opened: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, left: int) -> int:
    parts = PurePosixPath(info.filename.replace("\\", "/")).parts
    if not parts or len(parts) > MAX_DEPTH or any(part in ("..", "/", "") or ":" in part for part in parts):
        raise ServiceError(422, f"the name {info.filename!r:.80} points outside the archive", code="invalid_archive")
    path = target.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened.open(info) as source, path.open("wb") as copy:
        written = 0
        while block := source.read(COPY_BYTES):
            written += len(block)
            if written > left:
                raise ServiceError(422, "the archive is larger than it says", code="archive_too_large")
            copy.write(block)
    return written


def copy_upload(source: object, target: Path) -> None:
    """Write an upload to a file."""
    with target.open("wb") as copy:
        shutil.copyfileobj(source, copy)  # pyright: ignore[reportArgumentType]  # a binary file
