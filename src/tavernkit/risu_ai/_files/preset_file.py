"""Preset files: ``.json``, ``.risupreset`` and ``.risup``."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Mapping

from tavernkit._text.js_values import json_stringify
from tavernkit._values import Json, is_mapping, shown, thaw
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._kinds import FileKind, warn_if_mistaken
from tavernkit.cards._risum import rpack_decode, rpack_encode
from tavernkit.errors import ConfigError, FileFormatError, InvalidPresetError, LimitExceededError, Warn, log_warning
from tavernkit.risu_ai._files.aes_gcm import SealBrokenError, seal, unseal
from tavernkit.risu_ai._files.file_kinds import refuse_foreign
from tavernkit.risu_ai._files.message_pack import MessagePackError, pack, unpack
from tavernkit.risu_ai._files.preset import SECRET_KEYS, Preset
from tavernkit.risu_ai._files.silly_tavern_preset import is_chat_preset, preset_from_chat_preset
from tavernkit.risu_ai._limits import MAX_PRESET_BYTES, MAX_SEALED_BYTES

KEY = hashlib.sha256(b"risupreset").digest()
NONCE = bytes(12)
PRESET_VERSIONS = (0, 2)
WRITTEN_VERSION = 2
NOVELAI_VERSION = 3
"""From this ``presetVersion`` on, a JSON file holds NovelAI's parameters."""

_SMALL_MAPS = frozenset([bytes([0x80 + size]) for size in range(1, 16)])
_COMPRESSED = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


def read_preset(data: bytes, *, name: str = "", warn: Warn = log_warning) -> Preset:
    """Read a preset file of any kind; raises ``InvalidPresetError`` if it is not one."""
    what = name or "preset"
    if len(data) > MAX_PRESET_BYTES:
        raise LimitExceededError(
            f"{what} has {len(data)} bytes, more than {MAX_PRESET_BYTES}", limit="MAX_PRESET_BYTES"
        )
    for packed in (data, rpack_decode(data)):
        if packed[:2] in _COMPRESSED or _is_deflated(packed):
            return Preset.from_json(_unsealed(packed, what, warn), warn=warn)
    return _from_json_file(data, what, warn)


def write_preset(preset: Preset, suffix: str) -> bytes:
    """Write a preset in the format of a file extension; keys and addresses of the user's connections are removed."""
    content = preset.to_json()
    content.update((key, "") for key in SECRET_KEYS if key in content)
    if suffix == ".json":
        return json_stringify(content).encode()
    if suffix not in {".risup", ".risupreset"}:
        raise ConfigError(f"a preset is written as .json, .risupreset or .risup, not {suffix!r}")
    sealed = seal(pack(content), KEY, NONCE)
    packed = pack({"presetVersion": WRITTEN_VERSION, "type": "preset", "preset": sealed})
    data = gzip.compress(packed, mtime=0)
    return rpack_encode(data) if suffix == ".risup" else data


def _from_json_file(data: bytes, what: str, warn: Warn) -> Preset:
    refuse_foreign(data, what, "a preset", InvalidPresetError)
    try:
        value = parse_json(data, what=what, warn=warn)
    except LimitExceededError:
        raise
    except FileFormatError as error:
        raise InvalidPresetError(f"{error}, nor is it a packed preset") from error
    if not is_mapping(value):
        raise InvalidPresetError(f"{what} contains no preset: it is {type(value).__name__}, not an object")
    version = value.get("presetVersion")
    if isinstance(version, (int, float)) and version >= NOVELAI_VERSION:
        warn(f"{what} holds NovelAI's parameters, which have no prompts: only settings with RisuAI's names are read")
    if is_chat_preset(value):
        return preset_from_chat_preset(value, warn=warn)
    warn_if_mistaken(value, "a preset", FileKind.RISU_PRESET, what=what, warn=warn)
    return Preset.from_json(value, warn=warn)


def _unsealed(data: bytes, what: str, warn: Warn) -> Mapping[str, object]:
    try:
        outer = unpack(_inflate(data, what))
        if not isinstance(outer, dict) or outer.get("type") != "preset":
            raise InvalidPresetError(f"{what} contains no preset")
        if outer.get("presetVersion") not in PRESET_VERSIONS:
            warn(f"{what}: presetVersion {shown(outer.get('presetVersion'))} is not known; it is read like version 2")
        sealed = outer.get("preset", outer.get("pres"))
        if not isinstance(sealed, bytes):
            raise InvalidPresetError(f"{what} contains no preset")
        if len(sealed) > MAX_SEALED_BYTES:
            raise LimitExceededError(
                f"{what} has {len(sealed)} sealed bytes, more than {MAX_SEALED_BYTES}", limit="MAX_SEALED_BYTES"
            )
        inner = unpack(unseal(sealed, KEY, NONCE))
    except (MessagePackError, SealBrokenError) as error:
        raise InvalidPresetError(f"{what} is broken: {error}") from error
    if not isinstance(inner, dict):
        raise InvalidPresetError(f"{what} contains no preset")
    return {key: _json(item) for key, item in inner.items()}


def _json(value: object) -> Json:
    return None if isinstance(value, bytes) else thaw(value)


def _is_deflated(data: bytes) -> bool:
    """Return True if bytes without any header are deflated and hold a MessagePack map of a few keys."""
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, 1) in _SMALL_MAPS
    except zlib.error:
        return False


def _inflate(data: bytes, what: str) -> bytes:
    try:
        if data[:2] == _COMPRESSED[0]:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                inflated = stream.read(MAX_PRESET_BYTES + 1)
        else:
            window = zlib.MAX_WBITS if data[:2] in _COMPRESSED else -zlib.MAX_WBITS
            inflated = zlib.decompressobj(window).decompress(data, MAX_PRESET_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidPresetError(f"{what} cannot be decompressed: {error}") from error
    if len(inflated) > MAX_PRESET_BYTES:
        raise LimitExceededError(f"{what} inflates to more than {MAX_PRESET_BYTES} bytes", limit="MAX_PRESET_BYTES")
    return inflated
