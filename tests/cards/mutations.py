"""A mutation fuzzer for card files: bytes are damaged at random and by what hurts most, reproducibly by seed."""

from __future__ import annotations

import contextlib
import json
import random
import struct
import time
import tracemalloc
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache

from tavernkit.cards import Asset, Bundle, Character, Limits, Module, load, to_bytes, validate
from tavernkit.cards import _risu_ai as risu_ai
from tavernkit.cards import _silly_tavern as silly_tavern
from tavernkit.cards._png import SIGNATURE
from tavernkit.errors import ConfigError, FileFormatError, InvalidCardError, TavernKitError
from tests.cards.files import FILES, card

LIMITS = Limits(
    max_json_file_bytes=1 << 20,
    max_entry_bytes=1 << 20,
    max_total_bytes=2 << 20,
    max_json_bytes=1 << 18,
    max_text_chunk_bytes=1 << 18,
    max_inflated_text_bytes=1 << 18,
    max_image_bytes=1 << 20,
    max_yaml_nodes=20_000,
    max_entries=200,
    max_chunks=1000,
)
MAX_SECONDS = 5.0
"""For one input; honest ones take about a millisecond. Generous, as the machine may be busy."""
MAX_MEMORY = 32 << 20
"""For one input: a few times the largest limit above."""

_ENDINGS = {
    "png": (".png",),
    "zip": (".charx", ".byaf"),
    "json": (".json",),
    "yaml": (".yaml", ".yml"),
    "risum": (".risum",),
}
FAMILIES = (*_ENDINGS, "jpeg", "webp")

_NUMBERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
_TOKENS = (
    b"PK\x03\x04",
    b"PK\x01\x02",
    b"PK\x05\x06",
    b"PK\x06\x06",
    b"PK\x06\x07",
    b"IEND",
    b"tEXt",
    b"zTXt",
    b"iTXt",
    b"chara\0",
    b"ccv3\0",
    b"chara-ext-asset_:1\0",
    b"\xff\xd8\xff\xe1",
    b"Exif\0\0II*\0",
    b"card.json",
    b"../",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\u",
    b"\\ud800",
    b"null",
    b"1e999",
    b"NaN",
    b"-",
    b"&a ",
    b"*a",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\0",
    b'"spec":',
    b'"data":',
    b'"assets":[{"uri":"embeded://',
    b'"extensions":',
    b"__asset:",
    b"data:;base64,",
)


@cache
def seeds(family: str) -> tuple[bytes, ...]:
    """Whole files to start from."""
    if family in _ENDINGS:
        found = [path.read_bytes() for path in sorted(FILES.iterdir()) if path.suffix in _ENDINGS[family]]
        made = {"png": "png", "zip": "charx", "risum": "risum"}.get(family)
        extra = [to_bytes(_bundle(), made)] if made else []
        return tuple(data for data in (*found, *extra) if len(data) < 20_000)
    return (to_bytes(_bundle(), family),)


def _bundle() -> Bundle:
    assets = (
        Asset.from_bytes(b"\x89PNG picture", type="emotion", name="joy", ext="png"),
        Asset.from_bytes(b"sound" * 20, type="x_sound", name="bell", ext="mp3"),
    )
    module = Module.from_json({"name": "M", "id": "1", "lorebook": [{"key": "a"}]}).replace(assets=assets[1:])
    return Bundle(card=Character.from_card(card("v3_book.json")), assets=assets, module=module)


def mutate(family: str, seed: int) -> bytes:
    """Make one damaged file."""
    rng = random.Random(f"{family}:{seed}")
    data = bytearray(rng.choice(seeds(family)))
    for _ in range(rng.choice((1, 1, 2, 3, 6, 12))):
        _damage(data, rng, family)
    return _with_checksums(bytes(data)) if family == "png" and rng.random() < 0.5 else bytes(data)


def _damage(data: bytearray, rng: random.Random, family: str) -> None:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((1, 2, 4, 8, 40, 400)))
    choice = rng.randrange(9)
    if choice == 0 and data:
        data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
    elif choice == 1:
        data[at : at + 4] = struct.pack(rng.choice("<>") + "I", rng.choice(_NUMBERS))
    elif choice == 2:
        data[at : at + 2] = struct.pack(rng.choice("<>") + "H", rng.choice(_NUMBERS) & 0xFFFF)
    elif choice == 3:
        del data[at:end]
    elif choice == 4:
        data[at:at] = data[at:end] * rng.choice((1, 2, 50))
    elif choice == 5:
        data[at:end] = rng.randbytes(end - at)
    elif choice == 6:
        data[at:at] = rng.choice(_TOKENS) * rng.choice((1, 1, 1, 300))
    elif choice == 7:
        del data[at:]
    else:
        other = rng.choice(seeds(family))
        start = rng.randrange(len(other) + 1)
        data[at:end] = other[start : start + 400]


def _with_checksums(data: bytes) -> bytes:
    """Mend the checksums of a PNG, so that the damage gets further."""
    out, offset = bytearray(data), len(SIGNATURE)
    while offset + 12 <= len(data):
        length = struct.unpack_from(">I", data, offset)[0]
        end = offset + 8 + length
        if end + 4 > len(data):
            break
        struct.pack_into(">I", out, end, zlib.crc32(data[offset + 4 : end]))
        offset = end + 4
    return bytes(out)


def try_mutants(family: str, numbers: Iterable[int]) -> int:
    """Load, read, check and write damaged files; tells how many had a card left."""
    usable = 0
    tracemalloc.start()
    try:
        for number in numbers:
            data = mutate(family, number)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            start = time.process_time()
            usable += _try_one(data, number)
            took = time.process_time() - start
            peak = tracemalloc.get_traced_memory()[1] - before
            assert took < MAX_SECONDS, f"{family} {number} took {took:.1f} s"
            assert peak < MAX_MEMORY, f"{family} {number} took {peak} bytes"
    finally:
        tracemalloc.stop()
    return usable


def _try_one(data: bytes, number: int) -> bool:
    try:
        bundle = load(data, limits=LIMITS)
    except ConfigError:
        raise
    except (FileFormatError, InvalidCardError):
        return False
    for asset in (*bundle.assets, *bundle.files, *(bundle.module.assets if bundle.module else ())):
        try:
            if asset.available:
                asset.read()
        except (FileFormatError, InvalidCardError):
            continue
    validate(bundle)
    if bundle.card is not None:
        _write_again(bundle, number)
    return True


def _write_again(bundle: Bundle, number: int) -> None:
    format_ = ("json", "png", "charx", "byaf", "yaml", "webp", "jpeg")[number % 7]
    assert bundle.card is not None
    json.dumps(bundle.card.to_card())
    try:
        written = to_bytes(bundle, format_)
    except (FileFormatError, InvalidCardError):
        return
    again = load(written).character
    assert again.name == bundle.card.name or format_ == "yaml"  # which has no lone surrogates


IMPORTED_AS = {"png": ("png",), "zip": ("charx", "byaf"), "json": ("json",), "yaml": ("yaml",), "jpeg": ("charx",)}
"""How the importers of other programs are told to read a family."""


def try_importers(family: str, numbers: Iterable[int]) -> None:
    """Give damaged files to the importers of SillyTavern and RisuAI; they raise nothing but our own errors."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    for number in numbers:
        data = mutate(family, number)
        for file_type in IMPORTED_AS[family]:
            with contextlib.suppress(TavernKitError):
                silly_tavern.import_file(data, file_type, now=now, limits=LIMITS)
            with contextlib.suppress(TavernKitError):
                risu_ai.import_file(f"a.{file_type}", data, limits=LIMITS)
