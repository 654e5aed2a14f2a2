from __future__ import annotations

import base64
import io
import json
import struct
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tavernkit.cards import Asset, Bundle, Character, Limits, load, to_bytes
from tavernkit.cards._archive import open_archive
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._png import SIGNATURE, encode_chunk, placeholder_png, text_chunk
from tavernkit.cards._silly_tavern import import_file
from tavernkit.cards._source import BytesSource
from tavernkit.cards.errors import UnsafeNameError, ZipError
from tavernkit.errors import ConfigError, LimitExceededError
from tests.cards.files import FILES, card, zip_of

CARD = json.dumps(card("v3.json"))
PICTURE = placeholder_png(1, 1)


def png_with(*chunks: bytes) -> bytes:
    return PICTURE[:-12] + b"".join(chunks) + PICTURE[-12:]


def charx_with(**members: bytes) -> bytes:
    return zip_of({"card.json": CARD, **members})


def yaml_bomb() -> bytes:
    lines = ["name: x", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    return "\n".join(lines).encode()


def module_of(length: int) -> bytes:
    return b"o\0" + struct.pack("<I", length) + b"x" * length


class Unseekable(io.BytesIO):
    def seekable(self) -> bool:
        return False


HOSTILE: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
    "max_file_bytes": (lambda: Unseekable(CARD.encode()), {"max_file_bytes": 100}),
    "max_json_file_bytes": (lambda: CARD.encode(), {"max_json_file_bytes": 100}),
    "max_yaml_bytes": (lambda: b"name: " + b"x" * 200, {"max_yaml_bytes": 100}),
    "max_yaml_nodes": (yaml_bomb, {}),
    "max_json_depth": (lambda: b'{"name":' + b"[" * 300 + b"]" * 300 + b"}", {}),
    "max_entries": (lambda: zip_of({"card.json": CARD, **{f"{i}.png": b"" for i in range(2001)}}), {}),
    "max_json_bytes": (lambda: zip_of({"card.json": CARD + " " * 3_000_000}, method=zipfile.ZIP_STORED), {}),
    "max_compression_ratio": (lambda: zip_of({"card.json": CARD + " " * 1_900_000}), {}),
    "max_total_bytes": (lambda: charx_with(), {"max_total_bytes": 100}),
    "max_name_bytes": (lambda: zip_of({"card.json": CARD, "n" * 1100: b""}), {}),
    "max_text_chunk_bytes": (lambda: png_with(text_chunk("chara", b"A" * 6_000_000)), {}),
    "max_inflated_text_bytes": (
        lambda: png_with(encode_chunk(b"zTXt", b"chara\0\0" + zlib.compress(b"A" * 40_000_000))),
        {},
    ),
    "max_chunks": (lambda: png_with(*[encode_chunk(b"tIME", b"")] * 70_000), {}),
    "max_image_bytes": (lambda: to_bytes(Character(name="Ida"), "webp"), {"max_image_bytes": 50}),
}
"""One file for each limit that it breaks."""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_breaks_a_limit_is_refused_and_the_limit_named(name: str) -> None:
    make, changed = HOSTILE[name]
    with pytest.raises(LimitExceededError) as caught:
        load(make(), limits=Limits(**changed))  # pyright: ignore[reportArgumentType]
    assert caught.value.limit == name


def test_every_limit_has_its_hostile_file() -> None:
    limits = {
        name for name in DEFAULT_LIMITS.__slots__ if name.startswith("max_") and not name.startswith("max_build_")
    }
    assert limits - set(HOSTILE) == {"max_entry_bytes"}  # assets are read later: the next test


@pytest.mark.parametrize("format_", ["charx", "png", "json", "byaf"])
def test_an_asset_is_read_up_to_its_limit(format_: str) -> None:
    big = Asset.from_bytes(b"x" * 5000, type="emotion", name="big", ext="png")
    data = to_bytes(Bundle(card=Character.from_card(card("v3.json")), assets=(big,)), format_)
    asset = next(each for each in load(data, limits=Limits(max_entry_bytes=4000)).assets if each.name == "big")
    with pytest.raises(LimitExceededError) as caught:
        asset.read()
    assert caught.value.limit == "max_entry_bytes"
    assert asset.read(6000) == b"x" * 5000
    with pytest.raises(LimitExceededError):
        next(each for each in load(data).assets if each.name == "big").read(100)


def test_limits_can_be_raised_for_a_call() -> None:
    path = FILES / "c_bomb.charx"
    with pytest.raises(LimitExceededError):
        load(path)
    limits = Limits(max_json_bytes=8 << 20, max_compression_ratio=1000)
    assert load(path, limits=limits).character.name == "Vesna"


@pytest.mark.parametrize("value", [0, -1, "10", 1.5, None])
def test_limits_must_be_positive_whole_numbers(value: Any) -> None:
    with pytest.raises(ConfigError, match="max_entries must be a positive whole number"):
        Limits(max_entries=value)


@pytest.mark.parametrize(
    "name", ["../up.png", "/absolute.png", "C:/drive.png", "a/../../up.png", "back\\slash.png", "a/.."]
)
def test_a_name_that_leaves_the_archive_is_refused(name: str) -> None:
    with pytest.raises(UnsafeNameError):
        load(zip_of({"card.json": CARD, name: b""}))


@pytest.mark.parametrize("name", ["a..b.png", "..a/b.png", "ab:c.png", "assets/ä 日本.png", "a/./b.png"])
def test_an_odd_name_that_stays_inside_is_no_harm(name: str) -> None:
    assert load(zip_of({"card.json": CARD, name: b"x"})).files[0].path == name


def test_a_header_that_lies_about_its_size_does_not_help() -> None:
    data = bytearray(zip_of({"card.json": CARD + " " * 1_000_000}))
    at = data.rfind(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 500)
    with pytest.raises(LimitExceededError) as caught:
        load(bytes(data), limits=Limits(max_json_bytes=100_000))
    assert caught.value.limit == "max_json_bytes"


def test_encrypted_members_are_refused_unless_allowed() -> None:
    data = bytearray(zip_of({"card.json": CARD, "secret.png": b"x"}))
    data[data.rfind(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(ZipError, match="encrypted"):
        load(bytes(data))
    bundle = load(bytes(data), limits=Limits(allow_encrypted=True))
    with pytest.raises(ZipError, match="encrypted"):
        bundle.files[0].read()


def test_unknown_compression_is_named() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("card.json", CARD)
    with pytest.raises(ZipError, match="method 12"):
        load(buffer.getvalue())


def test_zip64_archives_are_read() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, archive.open("card.json", "w", force_zip64=True) as member:
        member.write(CARD.encode())
    assert load(buffer.getvalue()).character.name == "Vesna"


@pytest.mark.parametrize("front", [b"", b"a picture in front of it"])
def test_sizes_and_places_are_read_from_zip64_records(front: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("readme.txt", "made by hand, with nothing in it")
        archive.writestr("card.json", CARD)
    data = buffer.getvalue()
    assert b"PK\x06\x06" in data
    archive = open_archive(BytesSource(front + data), DEFAULT_LIMITS, print)
    assert archive.read(archive.members[1]).decode() == CARD


def test_a_comment_behind_the_archive_does_not_hide_it() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("card.json", CARD)
        archive.comment = b"PK\x05\x06 is only a comment"
    assert load(buffer.getvalue()).character.name == "Vesna"


def test_a_directory_that_points_anywhere_is_refused() -> None:
    data = bytearray(charx_with())
    at = data.rfind(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 42, 0xFFFFFFF0)
    with pytest.raises(ZipError):
        load(bytes(data))


def test_the_first_of_two_members_of_one_name_counts() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("card.json", CARD)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("card.json", CARD.replace("Vesna", "Other"))
    bundle = load(buffer.getvalue())
    assert bundle.character.name == "Vesna"
    assert any("several members of one name" in warning for warning in bundle.warnings)


@pytest.mark.parametrize(
    "make",
    [
        lambda: png_with(encode_chunk(b"zTXt", b"chara\0\0" + zlib.compress(b"\0" * 400_000_000, 9))),
        lambda: zip_of({"card.json": CARD, "module.risum": b"\0" * 300_000_000}),
        lambda: SIGNATURE + b"\xff\xff\xff\xfftEXtchara\0",
        lambda: b"o\0\xff\xff\xff\xff",
        yaml_bomb,
    ],
)
def test_a_bomb_takes_no_memory(make: Callable[[], bytes]) -> None:
    data = make()
    tracemalloc.start()
    try:
        with pytest.raises(Exception, match=r"."):
            load(data)
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


def test_a_data_uri_is_decoded_only_when_read() -> None:
    source = card("v3.json")
    body = base64.b64encode(b"x" * 1000).decode()
    source["data"]["assets"] = [{"type": "emotion", "name": "a", "uri": f"data:image/png;base64,{body}", "ext": "png"}]
    bundle = load(json.dumps(source).encode(), limits=Limits(max_entry_bytes=500))
    with pytest.raises(LimitExceededError):
        bundle.assets[0].read()
    assert bundle.assets[0].read(1000) == b"x" * 1000


def test_what_is_read_in_one_call_counts_together() -> None:
    data = zip_of({"a.bin": b"a" * 600, "b.bin": b"b" * 600}, method=zipfile.ZIP_STORED)
    archive = open_archive(BytesSource(data), Limits(max_total_bytes=1000), print)
    archive.read(archive.members[0])
    with pytest.raises(LimitExceededError, match="1000 bytes"):
        archive.read(archive.members[1])


def test_the_text_chunks_of_a_picture_count_together() -> None:
    """Each may inflate to two megabytes, and a picture may have 65,536 of them."""
    chunk = encode_chunk(b"zTXt", b"chara\0\0" + zlib.compress(base64.b64encode(CARD.encode()) + b" " * 5_000))
    assert load(png_with(*[chunk] * 5)).character.name
    with pytest.raises(LimitExceededError, match="inflate to more than 20000 bytes") as refused:
        load(png_with(*[chunk] * 5), limits=Limits(max_total_bytes=20_000))
    assert refused.value.limit == "max_total_bytes"


def test_backyard_lists_of_more_files_than_an_archive_may_have_are_read_up_to_that():
    manifest = {"characters": ["c.json"], "scenarios": ["s.json", "gone.json"] * 50_000}
    character = {"name": "Mira", "images": [{"path": "gone.png"}, {"path": "a.png"}] * 25_000}
    members: dict[str, bytes | str] = {f"{number}.txt": b"" for number in range(1900)}
    data = zip_of(
        members
        | {"manifest.json": json.dumps(manifest), "c.json": json.dumps(character), "s.json": "{}", "a.png": PICTURE},
        method=zipfile.ZIP_STORED,
    )
    started = time.monotonic()
    bundle = load(data)
    imported = import_file(data, "byaf", now=datetime(2026, 1, 2, tzinfo=UTC))
    assert time.monotonic() - started < 10
    assert len(bundle.scenarios) == DEFAULT_LIMITS.max_entries // 2
    assert "the archive lists 100000 files at once; the first 2000 were read" in bundle.warnings
    assert len(imported.files) == DEFAULT_LIMITS.max_entries // 2 - 1


def test_thousands_of_assets_with_one_name_are_written_soon():
    assets = [{"type": "emotion", "name": "n", "ext": "png", "uri": f"embeded://q{i}/../a.png"} for i in range(6000)]
    data = {"spec": "chara_card_v3", "spec_version": "3.0", "data": {"name": "Mira", "assets": assets}}
    bundle = load(zip_of({"card.json": json.dumps(data), "a.png": b"picture"}, method=zipfile.ZIP_STORED))
    started = time.monotonic()
    written = to_bytes(bundle, "charx")
    to_bytes(bundle, "byaf")
    assert time.monotonic() - started < 10
    paths = [asset.path for asset in load(written, limits=Limits(max_entries=10_000)).assets]
    assert (paths[0], paths[1], paths[-1]) == ("a.png", "assets/emotion/image/n.png", "assets/emotion/image/n_5998.png")
