"""Files of strangers: cards by format, and what both programs save."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from fuzz.target import Target, as_text
from tavernkit import risu_ai, silly_tavern
from tavernkit.cards import Character, load, to_bytes
from tavernkit.cards._png import SIGNATURE, encode_chunk, text_chunk
from tavernkit.cards._risu_ai.importing import import_file as risu_import
from tavernkit.cards._risum import MAGIC, rpack_encode
from tavernkit.cards._silly_tavern.importing import import_file as silly_tavern_import
from tavernkit.conversation._formats import NO_HOST
from tavernkit.errors import TavernKitError, WarningLog
from tavernkit.risu_ai._files.backup_file import write_backup
from tavernkit.risu_ai._files.chat_file import read_silly_tavern_chat
from tavernkit.risu_ai._files.database_codec import BLOCKS, COMPRESSED, MARK, RAW, STREAM, encode_database
from tavernkit.risu_ai._files.message_pack import pack
from tavernkit.risu_ai._files.module_file import read_module
from tavernkit.risu_ai._files.persona_file import read_persona
from tavernkit.risu_ai._files.preset_file import read_preset

FILES = Path(__file__).parents[1] / "tests" / "conformance" / "vectors" / "cards" / "files"
LARGEST = 2000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CARD = {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Bel", "description": "A bell."}}


def _card(data: bytes, ending: str) -> None:
    with contextlib.suppress(TavernKitError):
        to_bytes(load(data, warn=WarningLog()), "json")
    with contextlib.suppress(TavernKitError):
        silly_tavern_import(data, ending, now=NOW)
    with contextlib.suppress(TavernKitError):
        risu_import(f"card.{ending}", data, new_id=lambda: "id")


def _recorded(*endings: str) -> tuple[bytes, ...]:
    found = (path.read_bytes() for path in sorted(FILES.iterdir()) if path.suffix[1:] in endings)
    return tuple(data for data in found if len(data) <= LARGEST)


def _json_card(data: bytes) -> None:
    _card(data, "json")


def _yaml_card(data: bytes) -> None:
    _card(data, "yaml")


def _any_card(data: bytes) -> None:
    """Load a file as it is, whatever it is: mostly pictures and archives that are damaged."""
    for ending in ("png", "charx", "byaf"):
        _card(data, ending)


def _png_card(data: bytes) -> None:
    """Put a text where cards are in pictures; the checksums are right, so that it is read."""
    header = encode_chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    picture = encode_chunk(b"IDAT", zlib.compress(b"\0\0")) + encode_chunk(b"IEND", b"")
    for name in ("chara", "ccv3"):
        _card(SIGNATURE + header + text_chunk(name, base64.b64encode(data)) + picture, "png")


def _archive_card(data: bytes) -> None:
    """Read an archive. Its members stand one after the other: a name, a line feed, the content, a byte 255."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive, warnings.catch_warnings(action="ignore"):  # names that are there
        for member in data.split(b"\xff")[:20]:
            name, _, content = member.partition(b"\n")
            with contextlib.suppress(ValueError):  # names that zipfile itself does not write
                archive.writestr(zipfile.ZipInfo(as_text(name).replace("\0", "") or "card.json"), content)
    for ending in ("charx", "byaf"):
        _card(packed.getvalue(), ending)


def _archive_seeds() -> Iterator[bytes]:
    for data in _recorded("charx", "byaf"):
        with contextlib.suppress(zipfile.BadZipFile, RuntimeError, zlib.error):
            archive = zipfile.ZipFile(io.BytesIO(data))
            members = [each.encode() + b"\n" + archive.read(each) for each in archive.namelist()]
            yield b"\xff".join(members)[:LARGEST]


def _module_card(data: bytes) -> None:
    packed = rpack_encode(data)
    _card(MAGIC + struct.pack("<I", len(packed)) + packed + b"\0", "risum")


def _picture_seeds() -> Iterator[bytes]:
    for kind in ("png", "jpeg", "webp"):
        with contextlib.suppress(TavernKitError):
            yield to_bytes(Character(name="Bel"), kind)
    yield b"\xff\xd8\xff\xe1\0\x10Exif\0\0II*\0\x08\0\0\0\0\0\xff\xd9"
    yield b"RIFF\x1e\0\0\0WEBPEXIF\x0a\0\0\0II*\0\x08\0\0\0\0\0"


def _risu_files(data: bytes) -> None:
    for read in (read_preset, lambda given, warn: read_module(given, name="m", new_id=None, warn=warn)):
        with contextlib.suppress(TavernKitError):
            read(data, warn=WarningLog())
    with contextlib.suppress(TavernKitError):
        read_persona(data, warn=WarningLog())


def _packed(data: bytes) -> bytes:
    """JSON becomes MessagePack, so that texts of the fuzzer's making are read; the rest is taken for it."""
    with contextlib.suppress(ValueError, RecursionError, TypeError, OverflowError):
        return pack(json.loads(as_text(data)))
    return data


def _risu_save(data: bytes) -> None:
    """Read a database. Its first byte decides how it is stored."""
    kind, body = data[:1], data[1:]
    if kind == b"r":
        data = MARK + bytes([RAW]) + _packed(body)
    elif kind == b"c":
        data = MARK + bytes([COMPRESSED]) + gzip.compress(_packed(body), 1, mtime=0)
    elif kind == b"s":
        data = MARK + bytes([STREAM]) + gzip.compress(_packed(body), 1, mtime=0)
    elif kind == b"b":
        data = BLOCKS + body
    elif kind == b"l":
        out = io.BytesIO()
        write_backup(out, [("a.png", b"x")], MARK + bytes([RAW]) + _packed(body))
        data = out.getvalue()
    with contextlib.suppress(TavernKitError):
        save = risu_ai.Save.load(data, warn=WarningLog(), now=NOW)
        _ = save.settings, save.presets, save.personas
        for character in save.characters[:2]:
            save.builder(character.id)


def _risu_chat(data: bytes) -> None:
    for read in (risu_ai.ChatFile.load, read_silly_tavern_chat):
        with contextlib.suppress(TavernKitError):
            read(data, warn=WarningLog())


def _silly_tavern_chat(data: bytes) -> None:
    with contextlib.suppress(TavernKitError):
        chat = silly_tavern.ChatFile.load(data, warn=WarningLog())
        again = silly_tavern.ChatFile.loads(chat.dumps(), warn=WarningLog())
        assert again.dumps() == chat.dumps()


def _silly_tavern_file(data: bytes) -> None:
    """Read one of SillyTavern's files: settings, a world, a preset, templates."""
    warn = WarningLog()
    for kind in (silly_tavern.Settings, silly_tavern.Preset, silly_tavern.Group, silly_tavern.TemplateBundle):
        with contextlib.suppress(TavernKitError):
            kind.load(data, warn=warn)
    with contextlib.suppress(TavernKitError):
        silly_tavern.WorldBook.load(data, warn=warn).to_character_book()


@cache
def _builder() -> silly_tavern.Builder:
    return silly_tavern.Builder(character=Character(name="Bel"), warn=None)


def _saved_chat(data: bytes) -> None:
    """Open a chat of a store: a chat file, a byte 255, and the state that was saved with it."""
    file, _, state = data.partition(b"\xff")
    try:
        found = json.loads(as_text(state))
    except (ValueError, RecursionError):
        found = {}
    with contextlib.suppress(TavernKitError):
        chat = silly_tavern.Chat(NO_HOST, chat=silly_tavern.ChatFile.load(file, warn=WarningLog()), builder=_builder())
        chat.restore({**chat.snapshot(), **(found if isinstance(found, dict) else {})})
        chat.snapshot()


_DATABASE = {"characters": [{"type": "character", "name": "Bel", "chaId": "b", "chats": [{"message": []}]}]}
_LINES = (
    b'{"user_name": "Ann", "character_name": "Bel", "chat_metadata": {"variables": {"a": 1}}}\n'
    b'{"name": "Bel", "is_user": false, "mes": "Hi", "swipes": ["Hi", "Ho"], "swipe_id": 0, "extra": {}}'
)

TARGETS = (
    Target("cards_json", _json_card, ("cards/cards",), (json.dumps(CARD).encode(), *_recorded("json"))),
    Target("cards_yaml", _yaml_card, (), (b"name: Bel\ncontext: &a [b]\ngreeting: *a\n", *_recorded("yaml", "yml"))),
    Target("cards_png", _png_card, (), (json.dumps(CARD).encode(), *_recorded("json"))),
    Target("cards_archives", _archive_card, (), tuple(_archive_seeds())),
    Target("cards_modules", _module_card, (), (b'{"type": "risuModule", "module": {"name": "m", "lorebook": []}}',)),
    Target("cards_files", _any_card, (), (*_recorded("png", "charx", "byaf", "risum"), *_picture_seeds())),
    Target("risu_files", _risu_files, ("risu_ai/preset_files",), (b"", b"{}", b"\x6f\x00\x04\x00\x00\x00{}[]")),
    Target(
        "risu_saves",
        _risu_save,
        (),
        (
            *(kind + json.dumps(_DATABASE).encode() for kind in (b"r", b"c", b"s", b"l")),
            b"b" + encode_database(_DATABASE, blocks=True)[len(BLOCKS) :],
            encode_database(_DATABASE),
        ),
    ),
    Target(
        "risu_chats",
        _risu_chat,
        (),
        (b'{"type": "risuChat", "ver": 2, "data": {"message": [{"role": "user", "data": "hi"}], "name": "c"}}', _LINES),
    ),
    Target("silly_tavern_chats", _silly_tavern_chat, (), (_LINES,)),
    Target(
        "silly_tavern_files",
        _silly_tavern_file,
        (),
        (
            b'{"entries": {"0": {"uid": 0, "key": ["a"], "content": "b", "order": 100, "position": 0}}}',
            b'{"power_user": {"personas": {"a.png": "Ann"}}, "extension_settings": {}, "username": "Ann"}',
            b'{"prompts": [{"identifier": "main", "content": "x"}], "prompt_order": [{"character_id": 100001}]}',
            b'{"input_sequence": "<|user|>", "output_sequence": "<|bot|>", "wrap": true, "name": "x"}',
            b'{"id": "g", "name": "Group", "members": ["a.png"], "chat_id": "c", "chats": ["c"]}',
        ),
    ),
    Target(
        "saved_chats", _saved_chat, (), (_LINES + b'\xff{"global_variables": {"a": 1}, "author_note": {}}', b"\xff{}")
    ),
)
