"""Imports a card file into RisuAI's character object, as RisuAI's own importer does."""

from __future__ import annotations

import hashlib
import io
import posixpath
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import JSSyntaxError, json_parse, number_to_string, truthy
from tavernkit._values import Json, JsonObject, is_object, thaw
from tavernkit.cards._archive import Archive, open_archive
from tavernkit.cards._charx import CARD, MODULE
from tavernkit.cards._fields import ignore
from tavernkit.cards._json_text import check_depth, decode_base64
from tavernkit.cards._limits import MIB, Limits
from tavernkit.cards._png import ASSET_PREFIX, SIGNATURE, walk
from tavernkit.cards._risu_ai.character import ImportRefusedError, ImportThrewError, from_card, from_off_spec
from tavernkit.cards._risum import Module, read_risum
from tavernkit.cards._source import BytesSource
from tavernkit.cards.errors import EncryptedCardError, JsonError
from tavernkit.errors import FileFormatError, LimitExceededError

MAX_KEYWORD_BYTES = 70


def read_texts(data: bytes, limits: Limits) -> Iterator[tuple[str, bytes]]:
    """Yield keyword and text of each plain text chunk."""
    if not data.startswith(SIGNATURE):
        raise ImportRefusedError("the file is not a PNG")
    for chunk in walk(io.BytesIO(data), limits, ignore):
        if chunk.kind == b"tEXt":
            keyword, _, text = data[chunk.offset + 8 : chunk.end - 4].partition(b"\0")
            if len(keyword) <= MAX_KEYWORD_BYTES:
                yield keyword.decode("latin-1"), text


def without_texts(data: bytes, limits: Limits) -> bytes:
    """The picture without its plain text chunks."""
    kept = (chunk for chunk in walk(io.BytesIO(data), limits, ignore) if chunk.kind != b"tEXt")
    return SIGNATURE + b"".join(data[chunk.offset : chunk.end] for chunk in kept)


MAX_ASSET_BYTES = 50 * MIB
"""RisuAI skips larger members and refuses larger data uris."""
MAX_CARD_TEXT_BYTES = 5 * MIB
"""A later card chunk of a PNG replaces an earlier one of at most this size."""
RISU_LIMITS = Limits(max_entry_bytes=MAX_ASSET_BYTES, max_total_bytes=256 * MIB, max_json_bytes=MAX_ASSET_BYTES)
"""Limits for imports, close to RisuAI's own."""

_SPECS = ("chara_card_v2", "chara_card_v3")
_ENCRYPTED = b"rcc||"


def asset_path(data: bytes, ext: str = "png") -> str:
    """Return where RisuAI stores an asset: the path is a hash of its content."""
    return f"assets/{hashlib.sha256(data).hexdigest()}.{ext}"


@dataclass(slots=True)
class ImportedCard:
    """What RisuAI stores of an imported card."""

    character: JsonObject
    """The character, as it is in a save."""
    assets: dict[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """The content of its assets, by their path in a save."""
    _stems: dict[bytes, str] = field(default_factory=dict[bytes, str], init=False, repr=False, compare=False)

    def store(self, data: bytes, file_name: str = "") -> str:
        """Store an asset and return its path, which is a hash of its content.

        Args:
            data: The content.
            file_name: The name that it had; only the ending counts.
        """
        ext = posixpath.splitext(file_name)[1].removeprefix(".") or "png"
        stem = self._stems.get(data)  # a card may refer to one asset many thousand times
        if stem is None:
            stem = self._stems[data] = asset_path(data, "")
        path = stem + ext
        self.assets[path] = data
        return path


def import_file(
    file_name: str, data: bytes, *, new_id: Callable[[], str] = lambda: str(uuid.uuid4()), limits: Limits = RISU_LIMITS
) -> ImportedCard:
    """Import a file as RisuAI 2026.1 does; its file extension selects the reader.

    Raises ``ImportRefusedError`` where RisuAI shows a message, ``ImportThrewError`` where it throws.
    """
    ending = posixpath.splitext(file_name.lower())[1]
    read = _READERS.get(ending)
    if read is None:
        raise ImportRefusedError(f"RisuAI does not import {ending or 'files without an ending'}")
    imported = ImportedCard({"chaId": new_id()})
    read(data, imported, limits)
    return imported


def _parse(data: bytes, limits: Limits, *, in_progress: bool = False) -> Json:
    text = data.decode("utf-8", errors="replace")
    check_depth(text, limits.max_json_depth, what="card")
    try:
        return json_parse(text)
    except JSSyntaxError as error:
        raise ImportThrewError(str(error), error="SyntaxError", in_progress=in_progress) from error


def _read_json(data: bytes, imported: ImportedCard, limits: Limits) -> None:
    card = _parse(data, limits)
    if not is_object(card):
        raise ImportRefusedError("the JSON is not a character card")
    if card.get("spec") in _SPECS:
        imported.character |= from_card(card, {}, imported.store)
    elif all(truthy(card.get(old)) or truthy(card.get(key)) for old, key in _OFF_SPEC):
        imported.character |= from_off_spec(card)
    else:
        raise ImportRefusedError("the JSON is not a character card")


# RisuAI accepts the older names on the left, and then reads none of them.
_OFF_SPEC = (("char_name", "name"), ("char_persona", "description"), ("char_greeting", "first_mes"))


def _read_png(data: bytes, imported: ImportedCard, limits: Limits) -> None:
    cards: dict[str, bytes] = {}
    assets: dict[str, bytes] = {}
    for keyword, text in read_texts(data, limits):
        if keyword in ("chara", "ccv3"):
            if len(cards.get(keyword, b"")) < MAX_CARD_TEXT_BYTES:
                cards[keyword] = text
        elif keyword.startswith(ASSET_PREFIX):
            assets[keyword.removeprefix(ASSET_PREFIX).removeprefix(":")] = decode_base64(text)
    text = cards.get("ccv3") or cards.get("chara")
    if not text:
        raise ImportRefusedError("the PNG has no character card")
    if text.startswith(_ENCRYPTED):
        raise EncryptedCardError("the card is encrypted by RisuAI and needs its password there")
    card = _parse(decode_base64(text), limits, in_progress=True)
    if not is_object(card):
        raise ImportRefusedError("the card is not a JSON object")
    imported.character["image"] = imported.store(without_texts(data, limits))
    if card.get("spec") not in _SPECS:
        imported.character |= from_off_spec(card)
        return
    fields = card.get("data")
    if is_object(fields) and isinstance(version := fields.get("character_version"), (int, float)):
        fields["character_version"] = number_to_string(version)
    imported.character |= from_card(card, assets, imported.store)


def _read_charx(data: bytes, imported: ImportedCard, limits: Limits) -> None:
    try:
        archive = open_archive(BytesSource(data), limits, ignore)
        member = archive.find(CARD)
        if member is None or not member.size:
            raise ImportRefusedError("the archive has no card.json")
        text = archive.read(member)
    except LimitExceededError:
        raise
    except FileFormatError as error:
        raise ImportRefusedError(f"the file has no card.json: {error}") from error
    card = _parse(text, limits)
    if not is_object(card) or card.get("spec") != "chara_card_v3":
        raise ImportRefusedError("the archive's card is not V3")
    module = _module(archive, limits)
    if module is not None:
        _put_scripts(card, module)
    imported.character |= from_card(card, _Members(archive), imported.store)
    if module is not None and module.lorebook is not None:
        imported.character["globalLore"] = thaw(module.lorebook)


def _module(archive: Archive, limits: Limits) -> Module | None:
    member = archive.find(MODULE)
    if member is None or not member.size:
        return None
    try:
        return read_risum(BytesSource(archive.read(member)), limits, ignore)
    except LimitExceededError:
        raise
    except (FileFormatError, JsonError):
        return None


def _put_scripts(card: JsonObject, module: Module) -> None:
    """The module's scripts and triggers replace the card's."""
    data = card.get("data")
    extensions = data.get("extensions") if is_object(data) else None
    if is_object(extensions):
        old = extensions.get("risuai")
        risuai: JsonObject = old if is_object(old) else {}
        risuai |= {"triggerscript": thaw(module.trigger), "customScripts": thaw(module.regex)}
        extensions["risuai"] = risuai


class _Members(Mapping[str, bytes]):
    """An archive's members by path, read on demand; without JSON and members that are too large or broken."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._members = {
            member.name: member
            for member in archive.members
            if member.size and member.size <= MAX_ASSET_BYTES and not member.name.endswith(".json")
        }

    def __getitem__(self, path: str) -> bytes:
        try:
            return self._archive.read(self._members[path])
        except LimitExceededError:
            raise
        except FileFormatError as error:
            raise KeyError(path) from error

    def __iter__(self):
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


_READERS: Mapping[str, Callable[[bytes, ImportedCard, Limits], None]] = {
    ".json": _read_json,
    ".png": _read_png,
    ".charx": _read_charx,
    ".jpg": _read_charx,
    ".jpeg": _read_charx,
}
