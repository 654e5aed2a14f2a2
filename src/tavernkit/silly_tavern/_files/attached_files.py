"""Files of a data folder by their URLs in chats."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from urllib.parse import unquote

from tavernkit.errors import Warn
from tavernkit.silly_tavern._limits import MAX_ATTACHMENT_BYTES

_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".jfif": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".avif": "image/avif",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".mov": "video/quicktime",
    ".mkv": "video/x-matroska",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".wav": "audio/x-wav",
    ".m4a": "audio/mp4",
    ".flac": "audio/flac",
    ".opus": "audio/ogg",
    ".aac": "audio/aac",
}
"""Types of files by suffix: the table of ``mimetypes`` depends on the machine, and often has no WebP."""


def media_type(name: str) -> str:
    """Return the type of a file by its name."""
    found = _TYPES.get(PurePath(name).suffix.lower())
    return found or mimetypes.guess_type(name)[0] or "application/octet-stream"


class AttachedFiles:
    """Files below a folder by URL (``/user/files/log.txt``), read on demand."""

    def __init__(self, folder: Path, warn: Warn) -> None:
        self._folder = folder
        self._warn = warn

    def content(self, url: str) -> bytes | None:
        """Return the content of a file; None if it does not exist or is too large."""
        path = self._path(url)
        if path is None:
            return None
        try:
            if path.stat().st_size > MAX_ATTACHMENT_BYTES:
                self._warn(f"{url!r} is not read: it is larger than {MAX_ATTACHMENT_BYTES:,} bytes")
                return None
            return path.read_bytes()
        except OSError as error:
            self._warn(f"{url!r} cannot be read: {error}")
            return None

    @staticmethod
    def data_url(name: str, content: bytes) -> str:
        """Return a file as a ``data:`` URL.

        Args:
            name: The file's name, which decides its type.
            content: Its content.
        """
        return f"data:{media_type(name)};base64,{base64.b64encode(content).decode('ascii')}"

    def has(self, url: str) -> bool:
        """Return True if the file exists."""
        return self._path(url) is not None

    def _path(self, url: str) -> Path | None:
        """Return the file of a URL; None if it is outside the folder."""
        parts = unquote(url).partition("?")[0].lstrip("/").replace("\\", "/").split("/")
        if parts[0] != "user" or any(part in ("", ".", "..") or "\0" in part for part in parts):
            return None
        path = self._folder.joinpath(*parts)
        files = (self._folder / parts[0]).resolve()
        return path if path.is_file() and path.resolve().is_relative_to(files) else None


class _FolderFiles(AttachedFiles, Mapping[str, str]):
    """The same as a mapping for builds. Iterating it gives nothing."""

    def __getitem__(self, url: str) -> str:
        path, content = self._path(url), self.content(url)
        if path is None or content is None:
            raise KeyError(url)
        return self._value(path, content)

    def _value(self, path: Path, content: bytes) -> str:
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class FolderTexts(_FolderFiles):
    """The texts of attached files."""

    def _value(self, path: Path, content: bytes) -> str:
        return content.decode("utf-8", "replace").removeprefix("\ufeff")


class FolderMedia(_FolderFiles):
    """Attached pictures, videos and sounds as ``data:`` URLs."""

    def _value(self, path: Path, content: bytes) -> str:
        return self.data_url(path.name, content)
