"""Files that are damaged, changed behind our back or too large in a place that the vectors do not show."""

from __future__ import annotations

import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from tavernkit.cards import Asset, Bundle, Character, Format, Limits, detect_format, load, to_bytes, validate
from tavernkit.cards._conversion import convert_card
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._pictures import JPEG_PLACEHOLDER as JPEG
from tavernkit.cards._pictures import WEBP_PLACEHOLDER as WEBP
from tavernkit.cards._pictures import chunks, exif_texts, segments
from tavernkit.cards._png import encode_chunk, placeholder_png, walk
from tavernkit.cards._risum import MAGIC, read_risum, rpack_encode
from tavernkit.cards._source import BytesSource
from tavernkit.cards._yaml_card import dump_yaml, parse_yaml
from tavernkit.cards.errors import ImageError, PngError, RisumError, ZipError
from tavernkit.errors import ConfigError, LimitExceededError, TavernKitError, UnsupportedVersionError, WarningLog
from tests.cards.files import card, zip_of

CARD = card("v3.json")
CHARACTER = Character.from_card(CARD)
PICTURE = placeholder_png(1, 1)


def jpeg_of(*parts: bytes) -> bytes:
    return JPEG[:2] + b"".join(parts) + JPEG[2:]


def comment(text: bytes) -> bytes:
    return b"\xff\xfe" + struct.pack(">H", len(text) + 2) + text


def module_file(content: Any, *assets: bytes) -> bytes:
    packed = rpack_encode(json.dumps(content).encode())
    blobs = b"".join(b"\x01" + struct.pack("<I", len(data)) + rpack_encode(data) for data in assets)
    return MAGIC + struct.pack("<I", len(packed)) + packed + blobs + b"\0"


MODULE = {"type": "risuModule", "module": {"name": "Tools", "id": "1", "assets": [["a", "", "png"]]}}


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (lambda data: list(segments(io.BytesIO(data), DEFAULT_LIMITS)), b"GIF89a"),
        (lambda data: list(chunks(data, DEFAULT_LIMITS, WarningLog())), b"RIFF....WAVE"),
        (lambda data: list(walk(io.BytesIO(data), DEFAULT_LIMITS, WarningLog())), b"GIF89a.."),
    ],
    ids=["jpeg", "webp", "png"],
)
def test_a_reader_of_pictures_refuses_another_kind(read: Any, data: bytes) -> None:
    with pytest.raises((ImageError, PngError), match="does not start like a"):
        read(data)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (lambda data, limits: list(segments(io.BytesIO(data), limits)), jpeg_of(*[comment(b"x")] * 9)),
        (lambda data, limits: list(chunks(data, limits, WarningLog())), WEBP + b"XMP \0\0\0\0" * 9),
    ],
    ids=["jpeg", "webp"],
)
def test_a_picture_of_endless_parts_is_refused(read: Any, data: bytes) -> None:
    with pytest.raises(LimitExceededError) as caught:
        read(data, Limits(max_chunks=5))
    assert caught.value.limit == "max_chunks"


def test_fill_bytes_between_the_segments_of_a_jpeg_are_skipped() -> None:
    text = json.dumps(CARD).encode()
    assert load(jpeg_of(b"\xff\xff\xff", comment(text))).card == CHARACTER


def test_a_jpeg_that_ends_inside_a_segments_head_ends_the_walk() -> None:
    assert list(segments(io.BytesIO(JPEG[:2] + b"\xff\xfe\x00"), DEFAULT_LIMITS)) == []


def test_a_card_in_a_jpeg_that_risuai_encrypted_is_named_as_such() -> None:
    with pytest.raises(TavernKitError, match="encrypted"):
        load(jpeg_of(comment(b"rcc||rccv1||abc||def")))


def test_an_exif_block_of_no_known_byte_order_holds_nothing() -> None:
    assert list(exif_texts(b"XX*\0\x08\0\0\0\x01\0")) == []


def test_a_text_chunk_of_an_unknown_compression_is_left_out_with_a_warning() -> None:
    odd = encode_chunk(b"zTXt", b"ccv3\0\x07" + zlib.compress(b"x"))
    good = to_bytes(CHARACTER, "png")
    warnings = WarningLog()
    assert load(good[:-12] + odd + good[-12:], warn=warnings).card == CHARACTER
    assert any("unknown compression" in message for message in warnings.messages)


def bundle_with(*assets: Asset) -> Bundle:
    return Bundle(card=CHARACTER, assets=assets)


@pytest.mark.parametrize(("format_", "error"), [("png", PngError), ("charx", ZipError)])
def test_an_asset_that_another_program_took_out_of_the_file_is_missed_by_name(
    format_: str, error: type[Exception], tmp_path: Path
) -> None:
    path = tmp_path / "card"
    path.write_bytes(
        to_bytes(bundle_with(Asset.from_bytes(b"smile" * 9, type="emotion", name="s", ext="png")), format_)
    )
    asset = next(each for each in load(path).assets if each.name == "s")
    path.write_bytes(to_bytes(CHARACTER.replace(name="Another"), format_))
    with pytest.raises(error):
        asset.read()


def test_the_size_of_an_asset_is_known_before_it_is_read() -> None:
    data = b"0123456789" * 30
    given = Asset.from_bytes(data, type="emotion", name="s", ext="png")
    assert given.blob is not None
    assert given.blob.size == 300
    for format_, slack in (("charx", 0), ("png", 20), ("json", 2)):
        found = next(each for each in load(to_bytes(bundle_with(given), format_)).assets if each.name == "s")
        assert found.blob is not None
        assert 300 <= found.blob.size <= 300 + slack, format_


def test_an_archive_in_a_folder_is_told_by_its_manifest() -> None:
    assert detect_format(zip_of({"export/manifest.json": "{}"})) is Format.BYAF


def test_a_module_file_is_detected_and_its_assets_have_limits() -> None:
    data = module_file(MODULE, b"x" * 50)
    assert detect_format(data) is Format.RISUM
    module = read_risum(BytesSource(data), DEFAULT_LIMITS, WarningLog())
    assert module.assets[0].read() == b"x" * 50
    with pytest.raises(LimitExceededError, match="50 bytes, more than 20"):
        module.assets[0].read(20)
    with pytest.raises(LimitExceededError) as caught:
        read_risum(BytesSource(module_file(MODULE, *[b"x"] * 4)), Limits(max_entries=3), WarningLog())
    assert caught.value.limit == "max_entries"
    with pytest.raises(LimitExceededError) as caught:
        read_risum(BytesSource(data), Limits(max_entry_bytes=30), WarningLog())
    assert caught.value.limit == "max_entry_bytes"
    with pytest.raises(UnsupportedVersionError, match="version 01"):
        load(b"o\x01" + data[2:])
    with pytest.raises(RisumError, match="version 01"):
        read_risum(BytesSource(b"o\x01" + data[2:]), DEFAULT_LIMITS, WarningLog())


def test_a_list_of_a_module_that_is_none_is_left_out_with_a_warning() -> None:
    warnings = WarningLog()
    content = {"type": "risuModule", "module": {"name": "Tools", "id": "1", "regex": "all", "lorebook": 4}}
    module = read_risum(BytesSource(module_file(content)), DEFAULT_LIMITS, warnings)
    assert (module.regex, module.lorebook) == ((), ())
    assert sum("is not a list; it was left out" in message for message in warnings.messages) == 2


def byaf(character: object, scenario: object, **members: bytes) -> bytes:
    manifest = {"characters": ["characters/a/character.json"], "scenarios": ["scenarios/s.json"]}
    files = {"manifest.json": manifest, "characters/a/character.json": character, "scenarios/s.json": scenario}
    return zip_of({**{name: json.dumps(value) for name, value in files.items()}, **members})


def test_the_background_of_a_backyard_scenario_is_an_asset() -> None:
    scenario = {"title": "Harbour", "backgroundImage": "../images/sea.png"}
    bundle = load(byaf({"name": "a", "displayName": "Ada"}, scenario, **{"images/sea.png": PICTURE}))
    asset = next(each for each in bundle.assets if each.type == "background")
    assert (asset.name, asset.ext, asset.read()) == ("Harbour", "png", PICTURE)


@pytest.mark.parametrize(
    ("path", "part"), [("../../../etc/passwd", "has no usable path"), ("gone.png", "is not in the archive")]
)
def test_a_backyard_picture_that_cannot_be_had_is_named(path: str, part: str) -> None:
    warnings = WarningLog()
    bundle = load(byaf({"displayName": "Ada", "images": [{"path": path}]}, {}), warn=warnings)
    assert bundle.character.name == "Ada"
    assert any(part in message for message in warnings.messages)


def test_a_backyard_scenario_that_is_no_object_is_left_out_with_a_warning() -> None:
    warnings = WarningLog()
    assert load(byaf({"displayName": "Ada"}, [1]), warn=warnings).character.name == "Ada"
    assert any("is not a JSON object" in message for message in warnings.messages)


def test_a_backyard_scenario_too_large_to_read_stops_the_load() -> None:
    with pytest.raises(LimitExceededError) as caught:
        load(byaf({"displayName": "Ada"}, {"title": "x" * 500}), limits=Limits(max_json_bytes=300))
    assert caught.value.limit == "max_json_bytes"


def test_an_archive_member_with_other_extra_fields_before_its_zip64_one_is_read() -> None:
    text = json.dumps(CARD).encode()
    name = b"card.json"
    crc = zlib.crc32(text)
    local = (
        struct.pack("<4s5H3I2H", b"PK\x03\x04", 45, 0, 0, 0, 0, crc, len(text), len(text), len(name), 0) + name + text
    )
    extra = struct.pack("<HHI", 0x7075, 4, 0) + struct.pack("<HHQQ", 1, 16, len(text), len(text))
    head = struct.pack(
        "<4s6H3I5H2I", b"PK\x01\x02", 45, 45, 0, 0, 0, 0, crc, 2**32 - 1, 2**32 - 1, 9, len(extra), 0, 0, 0, 0, 0
    )
    directory = head + name + extra
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), len(local), 0)
    assert load(local + directory + end).card == CHARACTER


@pytest.mark.parametrize(
    "text", ["name: " + "[" * 12 + "]" * 12, "a: &a [[[[[[x]]]]]]\nname: [[[[[*a]]]]]"], ids=["nested", "alias"]
)
def test_yaml_is_no_deeper_than_json_may_be(text: str) -> None:
    with pytest.raises(LimitExceededError) as caught:
        parse_yaml(text.encode(), Limits(max_json_depth=10), WarningLog())
    assert caught.value.limit == "max_json_depth"


def test_what_yaml_can_say_and_a_card_cannot_is_warned_about() -> None:
    warnings = WarningLog()
    assert parse_yaml(b"name: Ada\nage: .nan\nheight: -.inf\n---\nname: Other\n", DEFAULT_LIMITS, warnings) == {
        "name": "Ada",
        "age": None,
        "height": None,
    }
    assert [part for part in (".nan", "-.inf", "first document") if part in " ".join(warnings.messages)] == [
        ".nan",
        "-.inf",
        "first document",
    ]


def test_half_a_character_is_replaced_in_yaml() -> None:
    warnings = WarningLog()
    assert parse_yaml(dump_yaml({"name": "A\ud800"}, warnings).encode(), DEFAULT_LIMITS, warnings) == {
        "name": "A\ufffd"
    }
    assert len(warnings.messages) == 1


def test_what_cannot_be_a_path_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ConfigError, match="cannot be a path"):
        load("x" * 5000)


def test_validation_names_extensions_and_assets_of_a_wrong_type() -> None:
    source = card("v3.json")
    source["data"]["extensions"] = {"depth_prompt": "be kind"}
    source["data"]["assets"] = ["icon.png"]
    found = {(problem.pointer, problem.code) for problem in validate(source)}
    assert ("/data/extensions/depth_prompt", "WRONG_TYPE") in found
    assert ("/data/assets/0", "WRONG_TYPE") in found


def test_a_v2_card_with_its_fields_at_the_top_is_converted_with_them() -> None:
    source = {"spec": "chara_card_v2", "spec_version": "2.0", "name": "Ada", "description": "Engineer", "mine": 1}
    converted, _ = convert_card(source, "v2", "v3")
    data = converted["data"]
    assert isinstance(data, dict)
    assert (data["name"], data["description"]) == ("Ada", "Engineer")
    assert converted["mine"] == 1


def test_a_missing_file_is_only_taken_for_content_when_it_looks_like_it() -> None:
    with pytest.raises(ConfigError) as missing:
        load("no such card.png")
    assert str(missing.value) == "there is no file 'no such card.png'"
    with pytest.raises(ConfigError, match="pass content as bytes"):
        load('{"name": "Aria"}')
