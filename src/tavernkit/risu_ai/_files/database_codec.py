"""RisuAI's database in each of its encodings: packed, compressed, in blocks, and what old versions wrote."""

from __future__ import annotations

import gzip
import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import json_stringify, truthy
from tavernkit._values import is_mapping, is_sequence
from tavernkit.cards._json_text import check_depth
from tavernkit.errors import FileFormatError, LimitExceededError, Warn, log_warning
from tavernkit.risu_ai._files.compression import CompressionError, decompress, find_block, gunzip, salvage, whole_parts
from tavernkit.risu_ai._files.message_pack import MessagePackError, Packed, as_double, pack, read_packed
from tavernkit.risu_ai._limits import (
    MAX_BLOCK_SEARCHES,
    MAX_DATABASE_BLOCKS,
    MAX_DATABASE_DEPTH,
    MAX_UNPACKED_DATABASE,
)

Database: TypeAlias = dict[str, Packed]
"""RisuAI's decoded database: JSON, with some bytes and dates."""

Remote: TypeAlias = Callable[[str], bytes | None]
"""Finds the file of a block that is stored elsewhere, by the name of the block."""

MARK = b"\0RISUSAVE\0"
RAW, COMPRESSED, STREAM = 7, 8, 9
BLOCKS = b"RISUSAVE\0"
OLD_PREFIX = b"\0\0RISU"

CONFIG, ROOT, CHARACTER, CHAT, PRESETS, MODULES, REMOTE = range(7)
PARSED = frozenset({ROOT, CHARACTER, PRESETS, MODULES, REMOTE})
_NAMES = {ROOT: "root", CHARACTER: "character", PRESETS: "preset", MODULES: "modules", REMOTE: "remote"}

BUILT_IN_PRESET: Mapping[str, Packed] = {"name": "Default"}
"""Replaces RisuAI's built-in preset, which it uses if a file has none. Its texts are not ours to copy."""


class DatabaseError(FileFormatError):
    """The bytes are not a RisuAI database, or too damaged to be read."""


_SIGNS = ("characters", "formatversion", "username", "mainPrompt", "botPresets")
"""Keys of which every database has one; a file without RisuAI's mark must have the first."""

_Problem = (MessagePackError, CompressionError, ValueError)


def no_remote(name: str) -> bytes | None:
    """Find nothing."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """Decodes databases.

    ``salvage`` returns the readable part of a damaged file, with warnings; RisuAI refuses such files.
    ``remote`` finds blocks that are stored elsewhere. ``undefined`` is what undefined list items become.
    """

    salvage: bool = False
    remote: Remote = no_remote
    undefined: Packed = None
    warn: Warn = log_warning

    def decode(self, data: bytes) -> Database:
        """Decode a database.

        Raises:
            DatabaseError: RisuAI would not load it either; with ``salvage``, it is completely unreadable.
            LimitExceededError: It is too large or nests too deeply.
        """
        version = data[len(MARK)] if len(data) > len(MARK) and data.startswith(MARK) else 0
        body = data[len(MARK) + 1 :] if version in (RAW, COMPRESSED, STREAM) else data
        try:
            return self._decode(data, body, version)
        except _Problem as error:
            first = error
        if isinstance(first, LimitExceededError):
            raise first
        try:
            found = self._fallback(body)
        except _Problem as error:
            if isinstance(error, LimitExceededError):
                raise
            rescued = self._rescue(body, version, first) if self.salvage else None
            if rescued is None:
                raise DatabaseError(f"the database cannot be decoded: {first}") from error
            return rescued
        self.warn(f"the database is not stored as this version of RisuAI stores it ({first}); it was read all the same")
        return found

    def _decode(self, data: bytes, body: bytes, version: int) -> Database:
        if version == COMPRESSED:
            return self._packed(decompress(body, MAX_UNPACKED_DATABASE), big_integers=True)
        if version == STREAM:
            return self._packed(gunzip(body, MAX_UNPACKED_DATABASE))
        if data.startswith(BLOCKS) and len(data) >= len(MARK) + 1:
            return _Blocks(self).read(data)
        return self._packed(body)

    def _fallback(self, body: bytes) -> Database:
        """Try what RisuAI tries next: an old prefix of six bytes, then compressed JSON or MessagePack."""
        try:
            return self._packed(body[len(OLD_PREFIX) :])
        except MessagePackError:
            unpacked = decompress(body, MAX_UNPACKED_DATABASE)
        try:
            return _as_database(parse(unpacked))
        except ValueError:
            return self._packed(unpacked)

    def _packed(self, data: bytes, *, big_integers: bool = False) -> Database:
        found = read_packed(data, big_integers=big_integers, max_depth=MAX_DATABASE_DEPTH, undefined=self.undefined)
        if found.end < len(data):
            raise MessagePackError(f"{len(data) - found.end} bytes are left over")
        return _as_database(found.value)

    def _rescue(self, body: bytes, version: int, first: ValueError) -> Database | None:
        """Read a damaged database up to the damage; ``first`` is the error of reading all of it."""
        candidates = [body] if version in (RAW, 0) else []
        if version:
            candidates.append(salvage(body, MAX_UNPACKED_DATABASE))
        for data in candidates:
            try:
                found = read_packed(data, salvage=True, max_depth=MAX_DATABASE_DEPTH, undefined=self.undefined)
            except MessagePackError:
                continue
            value = found.value
            if not isinstance(value, dict) or not any(key in value for key in (_SIGNS if version else _SIGNS[:1])):
                continue
            self.warn(f"the database is damaged ({found.problem or first}): everything up to byte {found.end} was read")
            if "characters" not in value:
                self.warn("the characters come after the damage and are missing")
            return value
        return None


def _as_database(value: object) -> Database:
    if not isinstance(value, dict):
        raise MessagePackError(f"the data holds a {type(value).__name__}, not a database")
    return value  # pyright: ignore[reportUnknownVariableType]  # keys of decoded maps are texts


def parse(data: bytes) -> Packed:
    """Read JSON as JavaScript does; bytes that are not UTF-8 become U+FFFD, a byte order mark is dropped."""
    text = _text(data)
    check_depth(text, MAX_DATABASE_DEPTH, what="the database")
    try:
        return _JSON.decode(text)
    except RecursionError as error:
        raise LimitExceededError(
            "the database nests too deeply for this process", limit="MAX_DATABASE_DEPTH"
        ) from error


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> float:
    # JavaScript has only doubles; Python refuses to read very long integers.
    return as_double(int(digits)) if len(digits) < 300 else float(digits)


_JSON = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


@dataclass(slots=True)
class _Block:
    kind: int
    name: str
    body: bytes
    offset: int
    start: int = 0
    """Where the body begins in the file."""
    compressed: bool = False
    cut: bool = False

    @property
    def is_remote(self) -> bool:
        return self.start == 0

    def __str__(self) -> str:
        return f"the {_NAMES.get(self.kind, str(self.kind))} block {self.name[:80]!r} at byte {self.offset}"


class _Blocks:
    """A database in blocks, joined in order."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._database: Database = {}
        self._directory: list[str] = []
        self._remotes = deque[_Block]()
        self._searches = 0

    def read(self, data: bytes) -> Database:
        at, count, names = len(BLOCKS), 0, set[str]()
        while at < len(data) or self._remotes:
            block = _block(data, at) if at < len(data) else self._remotes.popleft()
            if not block.is_remote:
                at = block.start + len(block.body)
            count += 1
            if count > MAX_DATABASE_BLOCKS:
                raise LimitExceededError(
                    f"the database has more than {MAX_DATABASE_BLOCKS} blocks", limit="MAX_DATABASE_BLOCKS"
                )
            names.add(block.name)
            if block.kind not in PARSED:
                if block.kind > REMOTE:
                    self._decoder.warn(f"{block} is left out: there is no such kind of block")
                continue
            try:
                self._add(block.kind, parse(_unpacked(block)))
            except LimitExceededError:
                raise
            except ValueError as error:
                if self._decoder.salvage:
                    at = self._rescue(data, block, at, error)
                elif isinstance(error, CompressionError):
                    self._decoder.warn(f"{block} is left out: {error}")
                else:
                    raise MessagePackError(f"{block} is damaged: {error}") from error
        for name in self._directory:
            if name not in names:
                self._decoder.warn(f"the file has no block {name[:80]!r}, which its directory names")
        presets = self._database.get("botPresets")
        if not is_sequence(presets) or not presets:
            self._database |= {"botPresets": [dict(BUILT_IN_PRESET)], "botPresetsId": 0}
        return self._database

    def _rescue(self, data: bytes, block: _Block, end: int, error: ValueError) -> int:
        """Add what can be read of a damaged block, and return where the next begins."""
        found = end if block.is_remote else self._next(data, block, end)
        if found != end:
            block.body, block.cut = data[block.start : found], False
            behind = f"the next block was found at byte {found}" if found < len(data) else "no block was found after it"
            self._decoder.warn(f"the length of {block} seems wrong: {behind}")
        body = salvage(block.body, MAX_UNPACKED_DATABASE) if block.compressed else block.body
        try:
            self._add(block.kind, parse(body))
        except LimitExceededError:
            raise
        except ValueError as damage:
            self._add_part(block, body, error if found == end else damage)
        else:
            if found == end:
                self._decoder.warn(f"{block} is damaged ({error}), but all of its text was read")
        return found

    def _next(self, data: bytes, block: _Block, end: int) -> int:
        """Find the block after one whose length may be wrong."""
        found = find_block(data, block.offset + 1)
        if found < end:  # what follows is read again, which may not go on without end
            self._searches += 1
            if self._searches > MAX_BLOCK_SEARCHES:
                return end
        return found

    def _add_part(self, block: _Block, body: bytes, error: ValueError) -> None:
        """Add the settings, presets or modules before the damage; a part of a character would be another character."""
        found, last = whole_parts(_text(body), _JSON)
        problem = f"it is {'cut off' if block.cut else 'damaged'} ({error})"
        if block.kind in (CHARACTER, REMOTE) or not found or is_mapping(found) != (block.kind == ROOT):
            self._decoder.warn(f"{block} is left out: {problem}")
        else:
            self._add(block.kind, found)  # pyright: ignore[reportArgumentType]  # parsed JSON
            what = f"settings, up to {last[:80]!r}" if block.kind == ROOT else "items"
            self._decoder.warn(f"{block} is read in part: {problem} after its first {len(found)} {what}")
        if block.cut:
            self._decoder.warn(f"nothing follows {block}: if there were characters, presets or modules, they are lost")

    def _add_remote(self, value: Packed) -> None:
        """Add a block that is stored in a separate file, after all others."""
        name, kind = (value.get("name"), value.get("type")) if isinstance(value, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(kind, int):
            return
        found = self._decoder.remote(name)
        if found is None:
            self._decoder.warn(f"remotes/{name[:80]}.local.bin is missing, and so is its content")
            return
        self._remotes.append(_Block(int(kind), name, found, 0))

    def _add(self, kind: int, value: Packed) -> None:
        database = self._database
        if kind == REMOTE:
            self._add_remote(value)
        elif kind == CHARACTER:
            characters = database.get("characters")
            if not isinstance(characters, list):
                characters = database["characters"] = []
            characters.append(value)
        elif kind == PRESETS:
            database["botPresets"] = value
        elif kind == MODULES:
            database["modules"] = value
        elif is_mapping(value):
            listed = value.get("__directory")
            self._directory += [each for each in listed if isinstance(each, str)] if is_sequence(listed) else []
            # In RisuAI an earlier block wins, unless its value is falsy: 0, "" and false are overwritten.
            for key, item in value.items():
                if not key.startswith("__") and not truthy(database.get(key)):
                    database[key] = item  # pyright: ignore[reportArgumentType]  # parsed JSON


def _block(data: bytes, at: int) -> _Block:
    # Bytes that are missing count as zero.
    kind, compressed, size = data[at], data[at + 1 : at + 2] == b"\1", (data[at + 2 : at + 3] or b"\0")[0]
    name = at + 3
    start = name + size + 4
    length = int.from_bytes(data[name + size : start], "little")
    body = data[start : start + length]
    return _Block(
        kind,
        data[name : name + size].decode("utf-8", "replace"),
        body,
        at,
        start=start,
        compressed=compressed,
        cut=len(body) < length or start > len(data),
    )


def _unpacked(block: _Block) -> bytes:
    return gunzip(block.body, MAX_UNPACKED_DATABASE) if block.compressed else block.body


def encode_database(database: Mapping[str, object], *, blocks: bool = False) -> bytes:
    """Encode a database as RisuAI does.

    Args:
        database: The database; keys that RisuAI does not know are kept.
        blocks: Write blocks, as in ``database.bin``, instead of the format of backups.
    """
    if not blocks:
        return MARK + bytes([COMPRESSED]) + gzip.compress(pack(database), mtime=0)
    root = {
        key: item
        for key, item in database.items()
        if key not in ("characters", "botPresets", "modules") and not key.startswith("__")
    }
    out = bytearray(BLOCKS)
    _write_block(out, ROOT, "root", root)
    _write_block(out, PRESETS, "preset", database.get("botPresets", []))
    _write_block(out, MODULES, "modules", database.get("modules", []))
    characters = database.get("characters")
    for character in characters if is_sequence(characters) else ():
        name = character.get("chaId") if is_mapping(character) else None
        _write_block(out, CHARACTER, name if isinstance(name, str) else "", character)
    _write_block(out, CONFIG, "config", {"version": 1})
    return bytes(out)


def _write_block(out: bytearray, kind: int, name: str, value: object) -> None:
    encoded, body = name.encode("utf-8", "replace")[:255], json_stringify(value).encode("utf-8", "replace")
    out += bytes([kind, 0, len(encoded)]) + encoded + len(body).to_bytes(4, "little") + body
