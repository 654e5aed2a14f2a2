"""Assets: the pictures and sounds of a card, wherever they are, read on demand."""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Protocol

from tavernkit._dataclass import dataclass
from tavernkit._values import is_mapping, is_sequence
from tavernkit.cards._character import Character
from tavernkit.cards._json_text import decode_base64
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits
from tavernkit.cards._source import Source, read_all
from tavernkit.cards.errors import MissingAssetError
from tavernkit.errors import LimitExceededError, Warn

DEFAULT_ICON = "ccdefault:"
"""The uri of the picture that contains the card."""

_EMBEDDED = re.compile(r"(?:embeded://|embedded://|__asset:)", re.IGNORECASE)
_DATA = re.compile(r"data:([^,]*?),", re.IGNORECASE)
_REMOTE = re.compile(r"https?://", re.IGNORECASE)

_SNIFFED = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpg"),
    (b"GIF8", "gif"),
    (b"OggS", "ogg"),
    (b"ID3", "mp3"),
    (b"BM", "bmp"),
)


class Blob(Protocol):
    """Bytes that are loaded on demand."""

    @property
    def size(self) -> int:
        """How many bytes are expected."""
        ...

    def read(self, max_bytes: int) -> bytes:
        """Read them; more than ``max_bytes`` is an error."""
        ...


@dataclass(frozen=True, slots=True)
class SourceBlob:
    """A whole file."""

    source: Source

    @property
    def size(self) -> int:
        """The file's size."""
        return self.source.size

    def read(self, max_bytes: int) -> bytes:
        """Read the file."""
        return read_all(self.source, max_bytes, limit="max_image_bytes", what="the picture")


@dataclass(frozen=True, slots=True)
class BytesBlob:
    """Bytes in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.data)

    def read(self, max_bytes: int) -> bytes:
        """Return the bytes."""
        return _within(self.data, max_bytes)


@dataclass(frozen=True, slots=True)
class Base64Blob:
    """Base64 text, decoded when read."""

    text: str

    @property
    def size(self) -> int:
        """The maximum number of bytes after decoding."""
        return len(self.text) * 3 // 4

    def read(self, max_bytes: int) -> bytes:
        """Decode the text."""
        if self.size > max_bytes + 2:
            raise LimitExceededError(f"the asset has more than {max_bytes} bytes", limit="max_entry_bytes")
        return _within(decode_base64(self.text.encode("utf-8", errors="replace")), max_bytes)


def _within(data: bytes, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise LimitExceededError(f"the asset has more than {max_bytes} bytes", limit="max_entry_bytes")
    return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One asset of a bundle: what the card calls it, and its bytes if the file has them."""

    type: str
    """What it is for, in the words of the card: ``icon``, ``emotion``, ``background``, ``user_icon``, …"""
    name: str
    """The name by which the card refers to it; ``main`` for the main picture."""
    ext: str = ""
    """The file ending, without the dot."""
    uri: str = ""
    """The uri in the card; empty if the card does not mention the asset."""
    path: str = ""
    """The member of an archive or the key of a chunk."""
    blob: Blob | None = field(default=None, repr=False, compare=False)
    """Reads the bytes on demand; None if the file does not have them."""
    max_bytes: int = field(default=DEFAULT_LIMITS.max_entry_bytes, repr=False, compare=False)
    """The maximum size; larger assets raise ``LimitExceededError``."""

    @classmethod
    def from_bytes(cls, data: bytes, *, type: str, name: str, ext: str = "") -> Asset:  # noqa: A002
        """Make an asset to add to a bundle.

        Args:
            data: The bytes.
            type: What it is for, such as ``icon``.
            name: Its name in the card.
            ext: The file ending; by default found from the bytes.
        """
        return cls(type=type, name=name, ext=ext or sniff(data) or "unknown", blob=BytesBlob(data))

    @property
    def available(self) -> bool:
        """True if the bytes can be read; those of a web address cannot."""
        return self.blob is not None

    def same_as(self, other: Asset) -> bool:
        """Return True if another asset refers to the same bytes of the same file."""
        return self.blob is other.blob or (self.path != "" and self.path == other.path)

    def read(self, max_bytes: int | None = None) -> bytes:
        """Read the bytes, up to a limit (by default that of the load).

        Raises:
            MissingAssetError: The file does not contain the asset.
        """
        if self.blob is None:
            raise MissingAssetError(f"the asset {self.name!r} is not in the file ({self.uri[:80]!r})")
        return self.blob.read(self.max_bytes if max_bytes is None else max_bytes)


Lookup = Callable[[str], "Blob | None"]
"""Finds the bytes for a path or key inside the file."""


def sniff(data: bytes) -> str:
    """Return a picture's or sound's extension, by its first bytes; empty if unknown."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((ext for start, ext in _SNIFFED if data.startswith(start)), "")


def embedded_path(uri: str) -> str | None:
    """Return the normalised path of an embedded asset; None for other uris and unsafe paths."""
    scheme = _EMBEDDED.match(uri)
    if scheme is None:
        return None
    path = uri[scheme.end() :].replace("\\", "/").strip()
    path = posixpath.normpath(path) if path else ""
    return None if path in ("", ".") or path.startswith(("..", "/")) else path


def is_embedded(uri: str) -> bool:
    """Return True if a uri points into the file."""
    return _EMBEDDED.match(uri) is not None


def collect_assets(
    character: Character, lookup: Lookup, picture: Blob | None, limits: Limits, warn: Warn
) -> tuple[Asset, ...]:
    """List a card's assets with their bytes: V3's, then those that RisuAI stores in V2's extensions."""
    found: list[Asset] = []
    for type_, name, ext, uri in _references(character):
        blob = _blob(uri, lookup, picture)
        path = embedded_path(uri) or ""
        if blob is None and not _REMOTE.match(uri) and uri != DEFAULT_ICON:
            why = "is not in the file" if path else f"has a uri that cannot be read: {uri[:80]!r}"
            warn(f"asset {name!r} ({type_}) {why}")
        found.append(
            Asset(type=type_, name=name, ext=ext, uri=uri, path=path, blob=blob, max_bytes=limits.max_entry_bytes)
        )
    return tuple(found)


def _blob(uri: str, lookup: Lookup, picture: Blob | None) -> Blob | None:
    if uri == DEFAULT_ICON:
        return picture
    if is_embedded(uri):
        path = embedded_path(uri)
        return lookup(path) if path else None
    data = _DATA.match(uri)
    if data is not None:
        body = uri[data.end() :]
        return Base64Blob(body) if data[1].lower().endswith("base64") else BytesBlob(body.encode("utf-8", "replace"))
    if ":" in uri[:40] or not uri:
        return None
    return Base64Blob(uri)


RISU_LISTS = (("emotions", "emotion"), ("additionalAssets", "x-risu-asset"))
"""RisuAI's lists of assets in a V2 card: the key in ``extensions.risuai`` and the type in V3."""


def _references(character: Character) -> Iterator[tuple[str, str, str, str]]:
    for asset in character.assets or ():
        yield asset.type, asset.name, asset.ext.lower().removeprefix("."), asset.uri
    risuai = character.extensions.get("risuai")
    for key, type_ in RISU_LISTS:
        items: object = risuai.get(key) if is_mapping(risuai) else None
        for item in items if is_sequence(items) else ():
            if is_sequence(item) and len(item) >= 2 and isinstance(item[1], str):
                file = item[2] if len(item) > 2 and isinstance(item[2], str) else ""
                yield type_, str(item[0]), posixpath.splitext(file)[1].removeprefix(".").lower(), item[1]


def data_uri(data: bytes, ext: str) -> str:
    """Write bytes as a data uri."""
    kind = _MEDIA_TYPES.get(ext or sniff(data), "application/octet-stream")
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


_MEDIA_TYPES = {
    "png": "image/png",
    "apng": "image/apng",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "avif": "image/avif",
    "bmp": "image/bmp",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "wav": "audio/wav",
    "mp4": "video/mp4",
    "webm": "video/webm",
}
