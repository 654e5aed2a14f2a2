"""Details of single formats that the vectors do not show."""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
from typing import Any

import pytest

from tavernkit.cards import Bundle, Character, Format, load, to_bytes
from tavernkit.cards._byaf import from_backyard, to_backyard
from tavernkit.cards._json_text import decode_base64, parse_json
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits
from tavernkit.cards._pictures import (
    JPEG_PLACEHOLDER,
    Chunk,
    build_exif,
    chunks,
    exif_texts,
    jpeg_without_card,
    write_webp,
)
from tavernkit.cards._pictures import WEBP_PLACEHOLDER as WEBP
from tavernkit.cards._yaml_card import parse_yaml
from tavernkit.cards.errors import ImageError, JsonError, YamlError
from tavernkit.errors import LimitExceededError, WarningLog
from tests.cards.files import FILES, card, zip_of

CARD = card("v3.json")
CHARACTER = Character.from_card(CARD)


def jpeg_with(marker: int, data: bytes) -> bytes:
    return JPEG_PLACEHOLDER[:2] + bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data + JPEG_PLACEHOLDER[2:]


def encoded(source: Any = CARD) -> bytes:
    return base64.b64encode(json.dumps(source).encode())


@pytest.mark.parametrize("text", [encoded(), json.dumps(CARD).encode(), b"  " + encoded() + b"\n"])
def test_a_card_in_the_comment_of_a_jpeg(text: bytes) -> None:
    for data in (jpeg_with(0xFE, text), jpeg_with(0xE1, b"Exif\0\0" + build_exif(text))):
        bundle = load(data)
        assert bundle.source_format is Format.JPEG
        assert bundle.card == CHARACTER
        assert bundle.image is not None
        assert bundle.image.read() == data


def test_a_utf16_comment_is_read() -> None:
    comment = b"UNICODE\0" + json.dumps(CARD).encode("utf-16-le")
    block = build_exif(b"")[:26] + struct.pack("<HHHIII", 1, 0x9286, 7, len(comment), 44, 0) + comment
    assert [json.loads(text.data) for text in exif_texts(block)] == [CARD]
    assert load(jpeg_with(0xE1, b"Exif\0\0" + block)).card == CHARACTER


def test_a_jpeg_saved_again_has_one_card() -> None:
    source = load(jpeg_with(0xE1, b"Exif\0\0" + build_exif(encoded())))
    written = to_bytes(source.replace(character=CHARACTER.replace(name="New")), "jpeg")
    assert load(written).character.name == "New"
    picture = written[: written.index(b"PK\x03\x04")]
    assert encoded() not in picture
    with pytest.raises(ImageError):
        load(picture)


def test_blanking_a_card_leaves_the_picture_in_place() -> None:
    before = jpeg_with(0xE1, b"Exif\0\0" + build_exif(encoded()))
    after = jpeg_without_card(before, DEFAULT_LIMITS)
    assert len(after) == len(before)
    assert after.endswith(JPEG_PLACEHOLDER[2:])
    assert jpeg_without_card(JPEG_PLACEHOLDER, DEFAULT_LIMITS) == JPEG_PLACEHOLDER


def test_pictures_without_a_card_say_so() -> None:
    for data in (JPEG_PLACEHOLDER, jpeg_with(0xFE, b"just a comment"), jpeg_with(0xFE, b"[1]"), WEBP):
        with pytest.raises(ImageError, match="no character card"):
            load(data)


def test_a_webp_keeps_its_other_chunks() -> None:
    extra = WEBP + Chunk(b"XMP ", b"<xmp/>").encode()
    data = extra[:4] + struct.pack("<I", len(extra) - 8) + extra[8:]
    written = to_bytes(load(write_webp(data, CARD, DEFAULT_LIMITS, print)), "webp")
    found = {chunk.kind: chunk.data for chunk in chunks(written, DEFAULT_LIMITS, print)}
    assert list(found) == [b"VP8X", b"VP8L", b"XMP ", b"EXIF"]
    assert found[b"VP8X"][0] & 0x08
    assert found[b"XMP "] == b"<xmp/>"
    assert load(written).card == CHARACTER


def test_a_lossy_webp_gets_the_extended_header_of_its_size() -> None:
    frame = b"\x30\x01\x00\x9d\x01\x2a" + struct.pack("<HH", 640, 480) + b"rest"
    body = b"WEBP" + Chunk(b"VP8 ", frame).encode()
    written = write_webp(b"RIFF" + struct.pack("<I", len(body)) + body, CARD, DEFAULT_LIMITS, print)
    header = next(chunks(written, DEFAULT_LIMITS, print)).data
    assert header == bytes([8, 0, 0, 0]) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")


def test_a_webp_without_a_picture_cannot_carry_a_card() -> None:
    with pytest.raises(ImageError):
        write_webp(b"RIFF\x04\0\0\0WEBP", CARD, DEFAULT_LIMITS, print)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"YWI=", b"ab"),
        (b"YWI", b"ab"),
        (b"YW-_", b"ao\xbf"),
        (b"!!YW\n!!I=", b"ab"),
        (b"YWIxY", b"ab1"),
        (b"YWI=YWI=", b"ab"),
        (b"", b""),
    ],
)
def test_base64_is_decoded_as_leniently_as_node_does(text: bytes, expected: bytes) -> None:
    assert decode_base64(text) == expected


@pytest.mark.parametrize("text", [b"{", b"", b"[1,]", b"{'a':1}", b'{"a":NaN}', b"[Infinity]", b'{"a":1}x', b"\x80"])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(JsonError):
        parse_json(text, what="test", warn=WarningLog())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":"x\ny"}', {"a": "x\ny"}),
        (b'{"a":1}\0\0', {"a": 1}),
        (b'{"a":1e999}', {"a": None}),
        (b'{"a":' + b"9" * 500 + b"}", {"a": None}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        ('{"a":"ü"}'.encode("utf-16"), {"a": "ü"}),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_small_damage_in_json_is_mended(text: bytes, value: object) -> None:
    log = WarningLog()
    assert parse_json(text, what="test", warn=log) == value
    assert len(log.messages) == 1 or text.endswith(b"\0")


def test_numbers_keep_their_digits() -> None:
    text = b'{"big":12345678901234567890,"small":0.1,"neg":-7}'
    assert parse_json(text, what="test", warn=WarningLog()) == {"big": 12345678901234567890, "small": 0.1, "neg": -7}


def test_yaml_is_read_by_the_core_rules_of_1_2() -> None:
    lines = "a: yes|b: 0o17|c: 0x1F|d: 1e3|e: ~|f: !!str 12|g: 12:30|h: 2001-01-01|1: one|i: .5|j: 'true'|k: True"
    text = lines.replace("|", "\n").encode()
    assert parse_yaml(text, DEFAULT_LIMITS, WarningLog()) == {
        "a": "yes",
        "b": 15,
        "c": 31,
        "d": 1000.0,
        "e": None,
        "f": "12",
        "g": "12:30",
        "h": "2001-01-01",
        "1": "one",
        "i": 0.5,
        "j": "true",
        "k": True,
    }


@pytest.mark.parametrize("text", [b"a: &a [*a]", b"a: *b", b"? [a]\n: b", b"a: [", b'"\\', b"\0", b"%YAML 9\n---\na"])
def test_what_is_no_yaml_for_a_card_is_refused(text: bytes) -> None:
    with pytest.raises(YamlError):
        parse_yaml(text, DEFAULT_LIMITS, WarningLog())


def test_yaml_objects_of_python_are_plain_text() -> None:
    assert parse_yaml(b"!!python/object/apply:os.system [x]", DEFAULT_LIMITS, WarningLog()) == ["x"]


def test_a_yaml_card_of_a_whole_card() -> None:
    text = b"spec: chara_card_v2\nspec_version: '2.0'\ndata:\n  name: Ida\n  description: |\n    One\n    Two\n"
    assert load(text).character.description == "One\nTwo\n"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("{{char}} and {{user}}", "{character} and {user}"),
        ("{{User}} {{{user}}}", "{{User}} {{{user}}}"),
        ("plain", "plain"),
    ],
)
def test_backyards_macros_are_rewritten_both_ways(text: str, written: str) -> None:
    log = WarningLog()
    assert to_backyard(text, "test", log) == written
    assert from_backyard(written) == text
    assert not log.messages


def test_single_braces_cannot_be_said_in_backyard() -> None:
    log = WarningLog()
    assert to_backyard("{user}", "description", log) == "{user}"
    assert log.messages


def test_a_backyard_archive_keeps_what_others_do_not_know() -> None:
    source = load(FILES / "b_full.byaf")
    written = to_bytes(source.replace(character=source.character.replace(first_mes="New {{user}}")), "byaf")
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        character = json.loads(archive.read("characters/v/character.json"))
        scenario = json.loads(archive.read("scenarios/s1.json"))
        assert archive.read("characters/v/images/a.png").startswith(b"\x89PNG")
    with zipfile.ZipFile(FILES / "b_full.byaf") as archive:
        assert manifest == json.loads(archive.read("manifest.json"))
        before = json.loads(archive.read("characters/v/character.json"))
        assert {key: character[key] for key in before} == before
        old = json.loads(archive.read("scenarios/s1.json"))
    assert scenario == old | {"firstMessages": [{"characterID": "", "text": "New {user}"}]}
    assert load(written).character.first_mes == "New {{user}}"


def test_a_card_that_backyard_changed_is_read_from_backyards_fields() -> None:
    written = to_bytes(CHARACTER, "byaf")
    assert load(written).card == CHARACTER
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        members: dict[str, bytes | str] = {name: archive.read(name) for name in archive.namelist()}
    path = next(name for name in members if name.endswith("character.json"))
    changed = json.loads(members[path]) | {"persona": "Edited for {user}."}
    bundle = load(zip_of(members | {path: json.dumps(changed)}))
    assert bundle.character.description == "Edited for {{user}}."
    assert any("changed in Backyard" in warning for warning in bundle.warnings)


def test_alternate_greetings_become_scenarios() -> None:
    written = to_bytes(CHARACTER, "byaf")
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        scenarios = [json.loads(archive.read(name)) for name in sorted(archive.namelist()) if "scenarios/" in name]
    assert [scenario["firstMessages"][0]["text"] for scenario in scenarios] == ["The bell rings.", "alt one", "alt two"]
    assert load(written).scenarios[0]["narrative"] == "A storm."


def test_scenarios_come_with_a_backyard_bundle() -> None:
    bundle = load(FILES / "b_alt.byaf")
    assert [scenario.get("narrative") for scenario in bundle.scenarios] == ["n1", None, None]
    assert bundle.character.alternate_greetings == ("B {{user}}",)
    assert bundle.image is not None
    assert bundle.image.name == "main"


def test_an_empty_bundle_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="empty"):
        to_bytes(Bundle(), "json")


@pytest.mark.parametrize("text", ['"[{"', '["\\"[[["]', '["\\\\","[["]', '[{"a[":"b{"},"\\u005b"]', '["","[","",""]'])
def test_brackets_inside_texts_are_not_depth(text: str) -> None:
    for shallow in (2, 3):
        assert parse_json(text, what="test", warn=WarningLog(), limits=Limits(max_json_depth=shallow)) == json.loads(
            text
        )
    with pytest.raises(LimitExceededError):
        parse_json(f"[[{text}, [[1]]]]", what="test", warn=WarningLog(), limits=Limits(max_json_depth=3))
