"""RISUM: RisuAI's modules of lore, regex scripts and triggers, with their assets."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, Json, JsonObject, is_mapping, is_sequence, thaw
from tavernkit.cards._assets import Asset
from tavernkit.cards._fields import (
    Field,
    Fields,
    empty_object,
    frozen,
    ignore,
    read_text,
)
from tavernkit.cards._json_text import dump_json, parse_json
from tavernkit.cards._limits import Limits
from tavernkit.cards._source import Source
from tavernkit.cards.errors import RisumError, RisumVersionError
from tavernkit.errors import LimitExceededError, Warn, log_warning

MAGIC = b"\x6f\x00"
"""The format's byte and its version."""
MODULE_TYPE = "risuModule"
_ENCODE = bytes.fromhex(
    "c40d1e0bbd2b3f55fc456ef566534f1ae0bb309486ba6bbf41506f9befdeb710"
    "611720df3289a89d6dabc990000c5dafd2c156e516649182657497ca23d652d1"
    "ffb4a0e82f8a58385a60199649dbd7c83b3e434ba56347aa6a2992f415cf6234"
    "78d31d3ce2058e2a570e1bcd4c2df2402c2579480fb27ab5a76c37e69c7b547e"
    "fe87dc9a02e433a2ebb12e03dd99a6b0e7d58818837cf6bee15c9fc321461f08"
    "4ed076125feefd8f44eaa35e8b2809359e69cc0ac78507ad4af377e967d4da84"
    "8093b64d73fa27267f04c6fbf1723951c236a968acf8edc5b9cbce75a43d81d9"
    "42701c9511bcd88c98f959a113f7147db3ec71c0e38df001ae5b310624223ab8"
)
_DECODE = bytes(_ENCODE.index(value) for value in range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A RisuAI module. Its lore, scripts and triggers are RisuAI's own JSON, unchanged."""

    name: str = ""
    """What the module is called."""
    description: str = ""
    """What the module does, for people."""
    id: str = ""
    """RisuAI's id of the module."""
    namespace: str = ""
    """The name by which other modules and presets refer to it."""
    lorebook: tuple[FrozenObject, ...] | None = None
    """Entries of its lorebook; None if the module has none."""
    regex: tuple[FrozenObject, ...] = ()
    """Its regex scripts."""
    trigger: tuple[FrozenObject, ...] = ()
    """Its triggers."""
    assets: tuple[Asset, ...] = ()
    """The assets in the module file; the module's JSON lists them in the same order."""
    raw: FrozenObject = dataclasses.field(default_factory=empty_object)
    """The JSON that it was read from; unknown keys survive."""

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, warn: Warn = log_warning) -> Module:
        """Read the JSON of a module.

        Args:
            data: The module.
            warn: Called with each warning.
        """
        raw = frozen(data)
        return cls(**MODULE_FIELDS.read(raw, "", warn), raw=raw)

    def to_json(self) -> JsonObject:
        """Write the module; unchanged fields stay as they were read."""
        return MODULE_FIELDS.write(self, Module.from_json(self.raw, warn=ignore), self.raw)

    def replace(self, **changes: Any) -> Module:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def _read_objects(value: object, where: str, warn: Warn) -> tuple[FrozenObject, ...]:
    if not is_sequence(value):
        if value is not None:
            warn(f"module: {where} is not a list; it was left out")
        return ()
    return tuple(frozen(item) for item in value if is_mapping(item))


def _read_lorebook(value: object, where: str, warn: Warn) -> tuple[FrozenObject, ...] | None:
    return None if value is None else _read_objects(value, where, warn)


MODULE_FIELDS = Fields(
    Field("name", "", read_text),
    Field("description", "", read_text),
    Field("id", "", read_text),
    Field("namespace", "", read_text),
    Field("lorebook", None, _read_lorebook),
    Field("regex", (), _read_objects),
    Field("trigger", (), _read_objects),
)


@dataclass(frozen=True, slots=True)
class PackedBlob:
    """An asset's bytes inside a module file."""

    source: Source
    offset: int
    size: int

    def read(self, max_bytes: int) -> bytes:
        """Read and unpack them."""
        if self.size > max_bytes:
            raise LimitExceededError(f"the asset has {self.size} bytes, more than {max_bytes}", limit="max_entry_bytes")
        with self.source.open() as stream:
            stream.seek(self.offset)
            return rpack_decode(stream.read(self.size))


def is_module(head: bytes) -> bool:
    """Return True if a file starts like a module of any version: texts have no zero bytes."""
    return head.startswith(MAGIC) or (head.startswith(MAGIC[:1]) and b"\0" in head)


def read_risum(source: Source, limits: Limits, warn: Warn) -> Module:
    """Read a module file; its assets stay in the file until they are read."""
    with source.open() as stream:
        head = stream.read(2)
        if head[:1] != MAGIC[:1]:
            raise RisumError("the file is not a RisuAI module")
        if head != MAGIC:
            raise RisumVersionError(f"the RisuAI module is of version {head[1:].hex() or 'none'}; only 00 is known")
        length = _length(stream)
        if length > source.size:
            raise RisumError("the module is cut off")
        if length > limits.max_entry_bytes:
            raise LimitExceededError(
                f"the module's JSON has {length} bytes, more than {limits.max_entry_bytes}", limit="max_entry_bytes"
            )
        content = parse_json(rpack_decode(stream.read(length)), what="module", warn=warn, limits=limits)
        module = _module(content, warn)
        blobs = _walk_assets(stream, source, limits, warn)
    return module.replace(assets=_assets(module, blobs, limits, warn))


def _module(content: Json, warn: Warn) -> Module:
    if not isinstance(content, dict) or content.get("type") != MODULE_TYPE or not is_mapping(content.get("module")):
        raise RisumError("the file contains no RisuAI module")
    inner = content["module"]
    assert is_mapping(inner)
    return Module.from_json(inner, warn=warn)


def _length(stream: BinaryIO) -> int:
    data = stream.read(4)
    if len(data) < 4:
        raise RisumError("the module is cut off")
    return struct.unpack("<I", data)[0]


def _walk_assets(stream: BinaryIO, source: Source, limits: Limits, warn: Warn) -> list[PackedBlob]:
    blobs: list[PackedBlob] = []
    while (mark := stream.read(1)) == b"\x01":
        if len(blobs) >= limits.max_entries:
            raise LimitExceededError(f"the module has more than {limits.max_entries} assets", limit="max_entries")
        head = stream.read(4)
        size = struct.unpack("<I", head)[0] if len(head) == 4 else source.size
        offset = stream.tell()
        if offset + size > source.size:
            warn(f"module: asset {len(blobs)} is cut off")
            return blobs
        blobs.append(PackedBlob(source, offset, size))
        stream.seek(offset + size)
    if mark != b"\x00":
        warn(f"module: {'unknown mark' if mark else 'the end is missing'} after {len(blobs)} assets")
    return blobs


def _assets(module: Module, blobs: list[PackedBlob], limits: Limits, warn: Warn) -> tuple[Asset, ...]:
    listed: object = module.raw.get("assets")
    names = list(listed) if is_sequence(listed) else []
    if len(names) != len(blobs):
        warn(f"module: {len(names)} assets are named and {len(blobs)} are in the file")
    assets: list[Asset] = []
    for index, blob in enumerate(blobs):
        entry = names[index] if index < len(names) else ()
        texts = [str(part) for part in entry] if is_sequence(entry) else []
        name, _, ext = (*texts, "", "", "")[:3]
        assets.append(
            Asset(type="x-risu-asset", name=name, ext=ext, path=str(index), blob=blob, max_bytes=limits.max_entry_bytes)
        )
    return tuple(assets)


def write_risum(out: BinaryIO, module: Module) -> None:
    """Write a module file, its assets one at a time."""
    content = module.to_json()
    if module.assets or content.get("assets"):
        names: list[Json] = [[asset.name, "", asset.ext] for asset in module.assets]
        content["assets"] = _same_entries(content.get("assets"), names)
    packed = rpack_encode(dump_json({"module": content, "type": MODULE_TYPE}).encode())
    out.write(MAGIC + struct.pack("<I", len(packed)) + packed)
    for asset in module.assets:
        data = asset.read()
        out.write(b"\x01" + struct.pack("<I", len(data)) + rpack_encode(data))
    out.write(b"\x00")


def _same_entries(old: Json, listed: list[Json]) -> Json:
    """Keep unchanged entries as they were read, because they may have more than three parts."""
    if not isinstance(old, list):
        return listed
    kept: list[Json] = []
    for index, entry in enumerate(listed):
        before = old[index] if index < len(old) else None
        same = isinstance(before, list) and isinstance(entry, list) and before[:3:2] == entry[::2]
        kept.append(thaw(before) if same else entry)
    return kept


def rpack_encode(data: bytes) -> bytes:
    """Write bytes as RisuAI packs them."""
    return data.translate(_ENCODE)


def rpack_decode(data: bytes) -> bytes:
    """Read bytes that RisuAI packed."""
    return data.translate(_DECODE)
