from __future__ import annotations

import base64
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tavernkit.cards import Asset, Bundle, Character, Format, detect_format, load, to_bytes
from tavernkit.cards._archive import open_archive
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._png import placeholder_png, text_chunk
from tavernkit.cards._source import BytesSource
from tavernkit.cards.errors import (
    ByafError,
    CharXError,
    EncryptedCardError,
    JsonError,
    MissingAssetError,
    NotACardError,
    PngError,
    RisumError,
    UnknownFormatError,
    UnsafeNameError,
    YamlError,
    ZipError,
)
from tavernkit.errors import ConfigError, FileFormatError, InvalidCardError, StrictModeError, UnsupportedVersionError
from tests.cards.files import FILES, card, zip_of

CHARACTER = Character.from_card(card("v3_book.json"))


class Counting(io.BytesIO):
    """Counts the bytes that are read."""

    read_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.read_bytes += len(data)
        return data


class Unseekable(io.BytesIO):
    def seekable(self) -> bool:
        return False


def with_picture() -> Bundle:
    picture = Asset.from_bytes(b"\x89PNG\r\n\x1a\n" + b"picture", type="emotion", name="joy")
    return Bundle(card=CHARACTER, assets=(picture,))


@pytest.mark.parametrize("format_", [each for each in Format if each not in (Format.APNG, Format.RISUM)])
def test_the_format_is_told_by_content_not_by_name(format_: Format, tmp_path: Path) -> None:
    file = tmp_path / "card.txt"
    file.write_bytes(to_bytes(CHARACTER, format_))
    bundle = load(file)
    assert bundle.source_format is format_
    assert bundle.character.name == "Vesna"
    assert detect_format(file) is format_


def test_an_apng_is_told_from_a_png() -> None:
    assert load(FILES / "p_apng.png").source_format is Format.APNG
    assert load(FILES / "p_v2.png").source_format is Format.PNG


def test_paths_bytes_and_file_objects_give_the_same() -> None:
    path = FILES / "c_full.charx"
    data = path.read_bytes()
    with path.open("rb") as stream:
        sources: list[Any] = [path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data), stream]
        bundles = [load(source) for source in [*sources, Unseekable(data)]]
        assert all(bundle == bundles[0] for bundle in bundles)
        assert all([asset.read() for asset in bundle.assets if asset.available] for bundle in bundles)


@pytest.mark.parametrize("path", ["", "  ", "no/such/file.png", "\0", "."])
def test_a_path_without_a_file_is_a_mistake_of_the_caller(path: str) -> None:
    with pytest.raises(ConfigError):
        load(path)


def test_what_cannot_be_read_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ConfigError, match="path, bytes or a binary file object"):
        load(7)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("bad.json", JsonError),
        ("null.json", UnknownFormatError),
        ("arr.json", NotACardError),
        ("noid.json", NotACardError),
        ("d.yaml", YamlError),
        ("c.yaml", NotACardError),
        ("p_none.png", PngError),
        ("p_trunc.png", PngError),
        ("p_b64bad.png", JsonError),
        ("p_arr.png", NotACardError),
        ("p_notpng.png", UnknownFormatError),
        ("c_none.charx", ZipError),
        ("c_notzip.charx", UnknownFormatError),
        ("c_badjson.charx", JsonError),
        ("c_enc.charx", ZipError),
        ("c_slip_before.charx", UnsafeNameError),
        ("c_slip_after.charx", UnsafeNameError),
        ("b_nochar.byaf", ByafError),
        ("b_misschar.byaf", ByafError),
        ("b_badchar.byaf", JsonError),
        ("m2.risum", UnknownFormatError),
    ],
)
def test_a_file_without_a_card_gets_the_error_of_its_kind(name: str, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        load(FILES / name)
    assert isinstance(caught.value, (FileFormatError, InvalidCardError))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("p_crc.png", "checksum"),
        ("p_noiend.png", "IEND"),
        ("p_noihdr.png", "IHDR"),
        ("p_badv3.png", "another chunk was used"),
        ("p_two.png", "2 chunks named chara"),
        ("p_plain.png", "plain JSON"),
        ("p_b64ws.png", "base64 has invalid characters"),
        ("p_utf8.png", "U+FFFD"),
        ("c_crc.charx", "checksum"),
        ("c_trunc.charx", "directory is missing"),
        ("c_folder.charx", "not at the archive's root"),
        ("c_miss.charx", "is not in the file"),
        ("c_slip_uri.charx", "cannot be read"),
        ("c_mod.charx", "module.risum could not be read"),
        ("c_v2.charx", "V2"),
        ("b_two.byaf", "2 characters"),
        ("b_alt.byaf", "missing.json"),
        ("bom.json", "byte order mark"),
        ("utf16.json", "UTF-16"),
        ("badutf8.json", "U+FFFD"),
        ("dup.json", "given twice"),
        ("v3_1.json", "newer"),
        ("m4.risum", "unknown mark"),
    ],
)
def test_a_damaged_file_gives_its_content_and_a_warning(name: str, part: str) -> None:
    seen: list[str] = []
    bundle = load(FILES / name, warn=seen.append)
    assert bundle.card is not None or bundle.module is not None
    assert any(part in warning for warning in bundle.warnings)
    assert tuple(seen) == bundle.warnings
    with pytest.raises(StrictModeError) as caught:
        load(FILES / name, strict=True)
    assert isinstance(caught.value, InvalidCardError)


@pytest.mark.parametrize("changes", [{"spec": "chara_card_v9"}, {"spec_version": "4.0"}])
def test_a_card_of_a_newer_version_is_refused_in_strict_mode_only(changes: dict[str, str]) -> None:
    card = Character(name="Ada").to_card() | changes
    data = json.dumps(card).encode()
    assert load(data).warnings
    with pytest.raises(UnsupportedVersionError) as caught:
        load(data, strict=True)
    assert isinstance(caught.value, InvalidCardError)


def test_compressed_and_international_text_chunks_hold_cards_too() -> None:
    assert load(FILES / "p_ztxt.png").character.name == "Vesna"
    assert load(FILES / "p_itxt.png").character.name == "Vesna"


def test_ccv3_counts_before_chara() -> None:
    assert load(FILES / "p_both.png").character.description == "from ccv3"


@pytest.mark.parametrize("name", ["c_jpeg.charx", "c_jpeg_adj.charx", "c_jpeg_decoy.charx"])
def test_an_archive_behind_a_picture_is_found_however_its_offsets_count(name: str) -> None:
    bundle = load(FILES / name)
    assert bundle.character.name == "Vesna"
    assert bundle.image is not None
    assert bundle.image.read().startswith(b"\xff\xd8")


def test_an_archive_behind_a_png_is_found() -> None:
    bundle = load(placeholder_png(2, 2) + to_bytes(with_picture(), "charx"))
    assert bundle.character.name == "Vesna"
    assert bundle.source_format is Format.CHARX


def test_loading_an_archive_reads_no_asset() -> None:
    bulk = os.urandom(4_000_000)
    bundle = Bundle(card=CHARACTER, assets=(Asset.from_bytes(bulk, type="background", name="big", ext="png"),))
    stream = Counting(to_bytes(bundle, "charx"))
    loaded = load(stream)
    assert stream.read_bytes < 200_000
    background = next(asset for asset in loaded.assets if asset.type == "background")
    assert background.read() == bulk


def test_loading_a_png_reads_no_picture_and_no_asset() -> None:
    bulk = os.urandom(3_000_000)
    bundle = Bundle(card=CHARACTER, assets=(Asset.from_bytes(bulk, type="background", name="big", ext="png"),))
    stream = Counting(to_bytes(bundle, "png"))
    loaded = load(stream)
    assert stream.read_bytes < 100_000
    assert next(asset for asset in loaded.assets if asset.type == "background").read() == bulk


def test_assets_can_still_be_read_after_the_file_was_saved_again(tmp_path: Path) -> None:
    from tavernkit.cards import save

    for format_ in ("charx", "png"):
        path = tmp_path / f"card.{format_}"
        save(with_picture(), path)
        bundle = load(path)
        save(bundle.replace(character=CHARACTER.replace(description="longer " * 500)), path)
        joy = next(asset for asset in bundle.assets if asset.name == "joy")
        assert joy.read().endswith(b"picture")


def test_web_addresses_are_never_fetched() -> None:
    web = next(asset for asset in load(FILES / "c_full.charx").assets if asset.name == "web")
    assert not web.available
    with pytest.raises(MissingAssetError):
        web.read()


def test_the_main_icon_is_the_picture() -> None:
    bundle = load(FILES / "c_full.charx")
    assert bundle.image is not None
    assert bundle.image.path == "assets/icon/image/main.png"
    assert bundle.image.read().startswith(b"\x89PNG")


def test_a_module_has_no_character_and_says_so() -> None:
    bundle = load(FILES / "m1.risum")
    assert bundle.module is not None
    assert (bundle.module.name, bundle.assets[0].name, bundle.assets[0].read()) == ("Mod", "pic", b"PNGDATA")
    with pytest.raises(NotACardError, match="RisuAI module"):
        _ = bundle.character


def test_a_stand_alone_lore_book_opens() -> None:
    data = {"spec": "lorebook_v3", "data": {"name": "World", "extensions": {}, "entries": [{"keys": ["a"]}]}}
    bundle = load(json.dumps(data).encode())
    assert bundle.book is not None
    assert (bundle.book.name, len(bundle.book.entries)) == ("World", 1)
    assert json.loads(to_bytes(bundle, "json")) == data
    with pytest.raises(NotACardError, match="lore book"):
        _ = bundle.character


def test_an_encrypted_risuai_card_is_named_as_such() -> None:
    picture = placeholder_png(1, 1)
    data = picture[:-12] + text_chunk("chara", b"rcc||rccv1||abc||def||ghi") + picture[-12:]
    with pytest.raises(EncryptedCardError):
        load(data)


def test_risuais_pictures_in_a_v2_card_are_assets() -> None:
    found = {asset.name: (asset.type, asset.read()) for asset in load(FILES / "v2_risu.json").assets}
    assert found == {"happy": ("emotion", b"HAPPY"), "door": ("x-risu-asset", b"PNGDATA")}


def test_asset_chunks_of_both_spellings_are_found() -> None:
    source = card("v3.json")
    source["data"]["assets"] = [
        {"type": "emotion", "name": name, "uri": f"__asset:{name}", "ext": "png"} for name in ("1", "2")
    ]
    picture = placeholder_png(1, 1)
    chunks = [
        text_chunk("chara-ext-asset_:1", base64.b64encode(b"one")),
        text_chunk("chara-ext-asset_2", base64.b64encode(b"two")),
        text_chunk("ccv3", base64.b64encode(json.dumps(source).encode())),
    ]
    bundle = load(picture[:-12] + b"".join(chunks) + picture[-12:])
    assert [asset.read() for asset in bundle.assets] == [b"one", b"two"]


def test_the_manifest_decides_between_the_two_archives() -> None:
    assert load(FILES / "b_min.byaf").source_format is Format.BYAF
    both = zip_of({"manifest.json": "{}", "card.json": json.dumps(card("v3.json"))})
    assert load(both).source_format is Format.CHARX


def test_an_empty_file_says_so() -> None:
    with pytest.raises(UnknownFormatError, match="empty"):
        load(b"")


def test_broken_modules_say_what_is_wrong() -> None:
    for data in (b"o\0", b"o\0\xff\xff\xff\xff", b"o\0\x02\0\0\0\xe6\x7b\0"):
        with pytest.raises((RisumError, JsonError, NotACardError, UnknownFormatError)):
            load(data)


def test_the_card_of_an_archive_must_be_there() -> None:
    from tavernkit.cards._charx import read_charx

    with pytest.raises(CharXError):
        read_charx(open_archive(BytesSource(zip_of({"manifest.json": "{}"})), DEFAULT_LIMITS, print))


@pytest.mark.parametrize("entries", [{}, {"0": {"key": ["lamp"], "content": "Old."}}, [{"keys": ["lamp"]}]])
def test_a_lore_book_with_a_name_is_no_card(entries: object) -> None:
    book = json.dumps({"name": "Tidewatch", "description": "A world.", "entries": entries}).encode()
    with pytest.raises(NotACardError, match=r"looks like a (world|character) book"):
        load(book)
    card = json.dumps({"name": "Aria", "first_mes": "Come in.", "entries": entries}).encode()
    assert load(card).character.name == "Aria"


def test_a_text_that_is_not_a_card_gets_the_list_of_formats() -> None:
    with pytest.raises(UnknownFormatError, match=r"not a card in a known format \(JSON, YAML, PNG, "):
        load(b"Once upon a time")
