"""Imports a card file as SillyTavern does: the PNG it stores, its name, and accompanying files.

SillyTavern reads and writes PNG in its own way: every checksum must be right, only plain text chunks count.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Callable, Container, Mapping
from dataclasses import field
from datetime import datetime

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, JSSyntaxError, join_surrogates, json_parse, json_stringify, truthy
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.cards._fields import ignore
from tavernkit.cards._json_text import check_depth, decode_base64
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits
from tavernkit.cards._png import SIGNATURE, encode_chunk, placeholder_png
from tavernkit.cards._silly_tavern.archives import ImportedFile, import_byaf_parts, import_charx_parts
from tavernkit.cards._silly_tavern.stored import (
    ImportFailedError,
    ImportRefusedError,
    chat_name,
    free_name,
    from_v1,
    iso_time,
    read_v2,
    reset_private,
    sanitize,
)
from tavernkit.cards._yaml_card import parse_yaml
from tavernkit.cards.errors import JsonError, PngError
from tavernkit.errors import LimitExceededError, TavernKitError


@dataclass(frozen=True, slots=True)
class ImportedCard:
    """What SillyTavern stores of an imported card."""

    file_name: str
    """The name of the character's file, without ``.png``."""
    card: JsonObject
    """The card, as it is in the picture."""
    png: bytes = field(repr=False)
    """The picture with the card, for the folder ``characters``."""
    files: tuple[ImportedFile, ...] = ()
    """Sprites, backgrounds and other pictures, by their path in the user's directory."""
    chats: tuple[tuple[str, tuple[JsonObject, ...]], ...] = ()
    """Chats that come with a Backyard archive: their file names and lines."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A card that is ready to be stored."""

    card: JsonObject
    name: str
    picture: bytes | None = None
    files: tuple[ImportedFile, ...] = ()
    chats: tuple[tuple[str, tuple[JsonObject, ...]], ...] = ()


def import_file(
    data: bytes,
    file_type: str,
    *,
    now: datetime,
    preserved_name: str | None = None,
    taken: Container[str] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> ImportedCard:
    """Import a file as SillyTavern 1.19 does.

    Raises ``ImportRefusedError`` where it answers HTTP 400, and any other error of this library where it answers
    with ``{error: true}``. SillyTavern itself has no limits; ``limits`` are ours.
    """
    read = _READERS.get(file_type)
    if read is None:
        raise ImportFailedError(f"SillyTavern does not import files of type {file_type!r}")
    draft = read(data, now, limits)
    wanted = _stem(preserved_name) if preserved_name else draft.name
    file_name = wanted if preserved_name else free_name(wanted, taken)
    chunks = _picture(draft.picture, limits)
    png = write_card_text(chunks, json_stringify(draft.card), limits)
    return ImportedCard(file_name, draft.card, png, draft.files, draft.chats)


def export_card(png: bytes, limits: Limits = DEFAULT_LIMITS) -> JsonObject:
    """Return the card that SillyTavern exports for a stored PNG; as JSON, it is indented by four spaces."""
    # The chunk `ccv3` wins, so SillyTavern exports every card as V3.
    card = parse_like_javascript(read_card_text(read_chunks(png, limits)), limits)
    if not is_object(card):
        raise ImportFailedError("the stored card is not a JSON object")
    reset_private(card)
    return card


def parse_like_javascript(text: str, limits: Limits) -> Json:
    """Parse JSON exactly as strictly as SillyTavern's JavaScript runtime."""
    check_depth(text, limits.max_json_depth, what="JSON")
    try:
        return json_parse(text)
    except JSSyntaxError as error:
        raise JsonError(str(error)) from error


def _stem(name: str) -> str:
    stem, dot, _ = name.rpartition(".")
    return sanitize(stem if dot and stem else name)


def _picture(picture: bytes | None, limits: Limits) -> list[PngChunk]:
    if picture is not None and picture.startswith(b"\x89PNG"):
        return stored_picture(read_chunks(picture, limits))
    return read_chunks(placeholder_png(), limits)


def _read_json(data: bytes, now: datetime, limits: Limits) -> _Draft:
    value = parse_like_javascript(data.decode("utf-8", errors="replace"), limits)
    if value is None:
        raise ImportFailedError("the file is null")
    card = value if is_object(value) else {}
    if "spec" in card:
        return _read_spec(card, now)
    if "name" in card:
        return _v1(card, now)
    if "char_name" in card:
        name = sanitize(card["char_name"])
        fields: dict[str, object] = dict(card)
        fields |= {key: card.get(source) if source else None for key, source in _PYGMALION.items()}
        # SillyTavern names the chat after `name`, which this format lacks: "undefined - …".
        return _Draft(from_v1(fields, name, now, chat=chat_name(card.get("name", UNDEFINED), now)), name)
    raise ImportRefusedError("the JSON is not a character card")


_PYGMALION: Mapping[str, str | None] = {
    "description": "char_persona",
    "first_mes": "char_greeting",
    "mes_example": "example_dialogue",
    "scenario": "world_scenario",
    "personality": None,
}


def _read_spec(card: JsonObject, now: datetime, picture: bytes | None = None) -> _Draft:
    files = _take_sprites(card)
    reset_private(card)
    name = _clean_name(card)
    read_v2(card, now)
    card["create_date"] = iso_time(now)
    return _Draft(card, name, picture, files)


def _v1(card: JsonObject, now: datetime, picture: bytes | None = None) -> _Draft:
    name = sanitize(card["name"])
    return _Draft(from_v1(card, name, now), name, picture)


def _clean_name(card: JsonObject) -> str:
    data = card.get("data")
    name: Json = data.get("name") if is_object(data) else None
    if is_object(data) and truthy(name):
        name = data["name"] = sanitize(name)  # may become empty: then the name next to `data` counts
    return sanitize(name if truthy(name) else card.get("name"))


def _read_png(data: bytes, now: datetime, limits: Limits) -> _Draft:
    card = parse_like_javascript(read_card_text(read_chunks(data, limits)), limits)
    if not is_object(card):
        raise ImportFailedError("the card is not a JSON object")
    if "spec" in card:
        return _read_spec(card, now, data)
    if "name" in card:
        return _v1(card, now, data)
    raise ImportFailedError("the card has no name")


def _read_yaml(data: bytes, now: datetime, limits: Limits) -> _Draft:
    card = parse_yaml(data, limits, ignore)
    if not is_object(card) or not truthy(card.get("name")):
        raise ImportFailedError("the YAML has no name")
    name = sanitize(card["name"])
    fields = {"description": card.get("context"), "first_mes": card.get("greeting")}
    return _Draft(from_v1(fields, name, now), name)


def _read_charx(data: bytes, now: datetime, limits: Limits) -> _Draft:
    parts = import_charx_parts(data, limits, parse_like_javascript)
    card = parts.card
    name = _clean_name(card)
    read_v2(card, now)
    reset_private(card)  # only after the copies are made, unlike for other files: so there is no chat
    card["create_date"] = iso_time(now)
    return _Draft(card, name, parts.picture, parts.files(name))


def _read_byaf(data: bytes, now: datetime, limits: Limits) -> _Draft:
    parts = import_byaf_parts(data, now, limits)
    card = parts.card
    card["create_date"] = iso_time(now)
    card["chat"] = parts.chats[0][0]
    read_v2(card, now)
    chats = tuple((f"{name}.jsonl", lines) for name, lines in dict(parts.chats).items())
    return _Draft(card, parts.file_name, parts.picture, parts.files, chats)


def _take_sprites(card: JsonObject) -> tuple[ImportedFile, ...]:
    """Remove RisuAI's pictures from a card; they become the character's sprites."""
    data = card.get("data")
    extensions = data.get("extensions") if is_object(data) else None
    risuai = extensions.get("risuai") if is_object(extensions) else None
    if not is_object(data) or not truthy(data.get("name")) or not is_object(risuai):
        return ()
    folder = f"characters/{sanitize(data['name'])}"
    sprites: dict[str, ImportedFile] = {}
    for key in ("additionalAssets", "emotions"):
        items = risuai.pop(key, None)
        for item in items if isinstance(items, list) else ():
            if isinstance(item, list) and len(item) > 1 and isinstance(item[0], str) and isinstance(item[1], str):
                path = f"{folder}/{sanitize(item[0])}.png"
                # The first picture of a label stays, as in SillyTavern.
                sprites.setdefault(path, ImportedFile(path, decode_base64(item[1].encode("utf-8", errors="replace"))))
    return tuple(sprites.values())


_READERS: Mapping[str, Callable[[bytes, datetime, Limits], _Draft]] = {
    "json": _read_json,
    "png": _read_png,
    "yaml": _read_yaml,
    "yml": _read_yaml,
    "charx": _read_charx,
    "byaf": _read_byaf,
}


CARD_KEYWORDS = ("ccv3", "chara")
_SHOWN = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_BITS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_PIXEL_BYTES = 256 * 1024 * 1024
"""Pictures that are larger when decompressed are kept as they are."""


@dataclass(frozen=True, slots=True)
class PngChunk:
    """A chunk with its data."""

    kind: bytes
    data: bytes

    @property
    def keyword(self) -> str:
        """The keyword of a text chunk."""
        return self.data.partition(b"\0")[0].decode("latin-1")

    @property
    def text(self) -> str:
        """The text of a ``tEXt`` chunk: a card's JSON, which is base64 of UTF-8, or Latin-1 in any other chunk."""
        text = self.data.partition(b"\0")[2]
        if self.keyword.lower() in CARD_KEYWORDS:
            return decode_base64(text).decode("utf-8", errors="replace")
        return text.decode("latin-1")


def read_chunks(data: bytes, limits: Limits) -> list[PngChunk]:
    """Read all chunks up to IEND; raises ``PngError`` at the first fault."""
    if not data.startswith(SIGNATURE):
        raise PngError("the file does not start like a PNG")
    chunks: list[PngChunk] = []
    offset = len(SIGNATURE)
    while not chunks or chunks[-1].kind != b"IEND":
        if len(chunks) >= limits.max_chunks:
            raise LimitExceededError(f"PNG: more than {limits.max_chunks} chunks", limit="max_chunks")
        if offset + 12 > len(data):
            raise PngError("the PNG ends without an IEND chunk")
        length, kind = struct.unpack_from(">I4s", data, offset)
        end = offset + 8 + length
        if end + 4 > len(data):
            raise PngError("a chunk is longer than the file")
        if not chunks and kind != b"IHDR":
            raise PngError("the first chunk is not IHDR")
        body = data[offset + 8 : end]
        if struct.unpack_from(">I", data, end)[0] != zlib.crc32(body, zlib.crc32(kind)):
            raise PngError(f"the checksum of the {kind.decode('latin-1')} chunk is wrong")
        chunks.append(PngChunk(kind, body))
        offset = end + 4
    return chunks


def read_card_text(chunks: list[PngChunk]) -> str:
    """Return the JSON text of the first ``ccv3`` chunk, else of the first ``chara`` chunk.

    As in SillyTavern, a broken ``ccv3`` chunk is not replaced by ``chara``.
    """
    texts = [chunk for chunk in chunks if chunk.kind == b"tEXt"]
    # SillyTavern refuses the file whichever text chunk this is.
    if any(chunk.data.count(b"\0") > 1 for chunk in texts):
        raise PngError("a text chunk has a zero byte in its text")
    for keyword in CARD_KEYWORDS:
        for chunk in texts:
            if chunk.keyword.lower() == keyword:
                return chunk.text
    raise PngError("the PNG has no character card")


def write_card_text(chunks: list[PngChunk], text: str, limits: Limits) -> bytes:
    """Write a PNG with a card: ``chara`` as given and ``ccv3`` with V3's spec, before IEND."""
    kept = [chunk for chunk in chunks if chunk.kind != b"tEXt" or chunk.keyword.lower() not in CARD_KEYWORDS]
    cards = [_text_chunk("chara", text)]
    try:
        check_depth(text, limits.max_json_depth, what="card")
        card = json_parse(text)
    except TavernKitError:
        card = None
    if is_object(card):
        cards.append(_text_chunk("ccv3", json_stringify({**card, "spec": "chara_card_v3", "spec_version": "3.0"})))
    elif isinstance(card, list):
        cards.append(_text_chunk("ccv3", json_stringify(card)))
    kept[-1:-1] = cards
    return encode_png(kept)


def encode_png(chunks: list[PngChunk]) -> bytes:
    """Return the bytes of a PNG."""
    return SIGNATURE + b"".join(encode_chunk(chunk.kind, chunk.data) for chunk in chunks)


def _text_chunk(keyword: str, text: str) -> PngChunk:
    whole = _LONE_SURROGATE.sub("\ufffd", join_surrogates(text))
    return PngChunk(b"tEXt", keyword.encode() + b"\0" + base64.b64encode(whole.encode()))


def stored_picture(chunks: list[PngChunk]) -> list[PngChunk]:
    """Return a picture as SillyTavern stores it.

    SillyTavern decodes and rewrites pictures, which removes other data; animations and pictures that cannot be decoded
    stay as they are. We keep the compressed pixels unchanged.
    """
    if any(chunk.kind == b"acTL" for chunk in chunks) or not _decodable(chunks):
        return chunks
    return [chunk for chunk in chunks if chunk.kind in _SHOWN]


def _decodable(chunks: list[PngChunk]) -> bool:
    if len(chunks[0].data) != 13:
        return False
    width, height, depth, colour = struct.unpack_from(">IIBB", chunks[0].data)
    needed = height * (1 + (width * depth * _BITS.get(colour, 4) + 7) // 8)
    if not 0 < needed <= MAX_PIXEL_BYTES:
        return False
    packed = b"".join(chunk.data for chunk in chunks if chunk.kind == b"IDAT")
    try:
        return len(zlib.decompressobj().decompress(packed, needed)) == needed or chunks[0].data[12] == 1
    except zlib.error:
        return False
