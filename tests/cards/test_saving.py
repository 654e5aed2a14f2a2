from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tavernkit.cards import Asset, Bundle, Character, Format, load, save, to_bytes
from tavernkit.cards import _pictures as pictures
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits
from tavernkit.cards._pictures import convert_picture
from tavernkit.cards._png import placeholder_png, text_chunk, walk
from tavernkit.cards.errors import ImageError, NotACardError
from tavernkit.errors import ConfigError, LimitExceededError
from tests.cards.files import FILES, card

CHARACTER = Character.from_card(card("v3_book.json"))
V2 = Character.from_card(card("v2_book.json"))


def chunks(data: bytes) -> list[bytes]:
    return [data[chunk.offset : chunk.end] for chunk in walk(io.BytesIO(data), DEFAULT_LIMITS, print)]


def kinds(data: bytes) -> list[str]:
    return [chunk.kind.decode() for chunk in walk(io.BytesIO(data), DEFAULT_LIMITS, print)]


def test_the_file_name_chooses_the_format(tmp_path: Path) -> None:
    for name, format_ in (("a.png", Format.PNG), ("a.CHARX", Format.CHARX), ("a.yml", Format.YAML), ("a.jpg", "jpeg")):
        assert save(CHARACTER, tmp_path / name).format == format_
        assert load(tmp_path / name).source_format == format_


def test_without_a_known_name_it_is_the_format_it_came_from(tmp_path: Path) -> None:
    assert save(load(FILES / "b_full.byaf"), tmp_path / "copy.bin").format is Format.BYAF
    with pytest.raises(ConfigError, match="say which format"):
        save(CHARACTER, tmp_path / "copy.bin")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match="one of json, yaml, png"):
        save(CHARACTER, io.BytesIO(), format="docx")


def test_a_failed_save_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "card.png"
    path.write_bytes(b"precious")
    with pytest.raises(NotACardError):
        save(load(FILES / "m1.risum"), path)
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no folder"):
        save(CHARACTER, tmp_path / "no" / "card.png")


def test_links_are_followed(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "aria.json"
    real.write_bytes(b"{}")
    link.symlink_to(real)
    save(Character(name="Aria"), link)
    assert link.is_symlink()
    assert load(real).character.name == "Aria"


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_bytes(b"")
    path.chmod(0o600)
    save(CHARACTER, path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_picture_that_is_too_large_is_not_cut_off() -> None:
    source = load(to_bytes(CHARACTER, "webp"))
    with pytest.raises(LimitExceededError):
        save(source, io.BytesIO(), format="webp", limits=Limits(max_image_bytes=100))


def test_the_same_content_gives_the_same_bytes() -> None:
    bundle = load(FILES / "c_full.charx")
    for format_ in Format:
        if format_ is not Format.RISUM:
            assert to_bytes(bundle, format_) == to_bytes(bundle, format_)


def test_foreign_chunks_stay_byte_for_byte() -> None:
    for name in ("p_other.png", "p_apng.png", "p_pre.png", "p_crc2.png"):
        before = (FILES / name).read_bytes()
        after = to_bytes(load(FILES / name).replace(character=CHARACTER), "png")
        foreign = [chunk for chunk in chunks(before) if b"chara\0" not in chunk]
        assert [chunk for chunk in chunks(after) if b"chara\0" not in chunk and b"ccv3\0" not in chunk] == foreign


def test_what_follows_the_picture_stays() -> None:
    before = (FILES / "p_v2.png").read_bytes() + b"trailing notes"
    assert to_bytes(load(before), "png").endswith(b"trailing notes")


def test_an_animation_stays_one() -> None:
    assert load(to_bytes(load(FILES / "p_apng.png"), "png")).source_format is Format.APNG


def test_old_cards_of_every_kind_are_replaced() -> None:
    for name in ("p_ztxt.png", "p_itxt.png", "p_two.png", "p_both.png", "p_case.png"):
        written = to_bytes(load(FILES / name).replace(character=V2), "png")
        assert [kind for kind in kinds(written) if kind.endswith("Xt")] == ["tEXt"]
        assert load(written).character == V2


def test_a_v3_card_in_a_png_gets_a_v2_copy_for_older_programs() -> None:
    written = to_bytes(CHARACTER, "png")
    texts = [chunk[8:12] + chunk[12:16] for chunk in chunks(written) if chunk[4:8] == b"tEXt"]
    assert len(texts) == 2
    out = io.BytesIO()
    save(CHARACTER, out, format="png", with_v2=False)
    assert kinds(out.getvalue()).count("tEXt") == 1
    assert load(out.getvalue()).character == CHARACTER


def test_a_version_can_be_asked_for() -> None:
    out = io.BytesIO()
    report = save(CHARACTER, out, format="png", version="v2")
    assert report.version == "v2"
    assert report.conversion is not None
    assert "/data/nickname" in {note.pointer for note in report.conversion.kept}
    assert load(out.getvalue()).character.version == "v2"


def test_charx_is_v3_unless_another_version_is_asked_for() -> None:
    assert load(to_bytes(V2, "charx")).character.version == "v3"
    assert load(to_bytes(V2, "charx", version="v2")).character.version == "v2"


def test_a_png_becomes_a_charx_with_its_picture_and_back() -> None:
    source = load(FILES / "p_v3.png")
    charx = load(to_bytes(source, "charx"))
    assert charx.image is not None
    picture = charx.image.read()
    assert kinds(picture) == ["IHDR", "IDAT", "IEND"]
    back = load(to_bytes(charx, "png"))
    assert back.card == source.card
    assert kinds(to_bytes(back, "png"))[:2] == ["IHDR", "IDAT"]


def test_an_archive_keeps_files_that_the_card_does_not_mention() -> None:
    with zipfile.ZipFile(io.BytesIO(to_bytes(load(FILES / "c_mod.charx"), "charx"))) as archive:
        assert {"card.json", "module.risum", "x_meta/1.json"} == set(archive.namelist())
        assert archive.read("module.risum") == b"o\0junk"


def test_a_module_beside_the_card_is_kept() -> None:
    module = load(FILES / "m1.risum").module
    written = load(to_bytes(Bundle(card=CHARACTER, module=module), "charx"))
    assert written.module == module
    assert written.module is not None
    assert [asset.read() for asset in written.module.assets] == [b"PNGDATA"]


def test_a_jpeg_is_a_picture_and_an_archive_that_others_can_open() -> None:
    data = to_bytes(CHARACTER, "jpeg")
    assert data.startswith(b"\xff\xd8\xff")
    start = data.index(b"PK\x03\x04")
    with zipfile.ZipFile(io.BytesIO(data[start:])) as archive:
        assert archive.testzip() is None
        assert json.loads(archive.read("card.json")) == CHARACTER.to_card()


def test_a_format_without_room_says_what_is_missing() -> None:
    bundle = load(FILES / "p_v2.png").replace(module=load(FILES / "m1.risum").module)
    report = save(bundle, io.BytesIO(), format="json")
    assert any("picture" in warning for warning in report.warnings)
    assert any("module" in warning for warning in report.warnings)
    assert save(load(FILES / "v2.json"), io.BytesIO(), format="json").warnings == ()


def test_a_picture_of_another_kind_is_not_dropped_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "PIL.Image", raising=False)
    report = save(load(FILES / "p_v2.png"), io.BytesIO(), format="webp")
    told = "cannot be turned into a WEBP: the extra 'images' is not installed"
    assert any(told in warning for warning in report.warnings)


@pytest.mark.parametrize("source", ["png", "jpg", "webp"])
@pytest.mark.parametrize("target", ["png", "jpeg", "webp"])
def test_pictures_survive_conversion(source: str, target: str) -> None:
    image = pytest.importorskip("PIL.Image")
    drawn = io.BytesIO()
    picture = image.new("RGB", (32, 16), (200, 30, 40))
    picture.save(drawn, {"jpg": "JPEG"}.get(source, source.upper()))
    bundle = Bundle(card=CHARACTER, image=Asset.from_bytes(drawn.getvalue(), type="icon", name="main"))
    target_bytes = io.BytesIO()
    report = save(bundle, target_bytes, format=target)
    assert not any("picture" in warning for warning in report.warnings)
    target_bytes.seek(0)
    with image.open(target_bytes) as kept:
        assert kept.format == target.upper()
        assert kept.size == (32, 16)
        assert all(abs(a - b) < 8 for a, b in zip(kept.convert("RGB").getpixel((5, 5)), (200, 30, 40), strict=True))
    target_bytes.seek(0)
    assert load(target_bytes.getvalue()).character.name == CHARACTER.name


def test_what_a_picture_loses_is_told() -> None:
    image = pytest.importorskip("PIL.Image")
    clear, moving = io.BytesIO(), io.BytesIO()
    image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(clear, "PNG")
    frames = [image.new("RGB", (4, 4), (shade, 0, 0)) for shade in (0, 255)]
    frames[0].save(moving, "WEBP", save_all=True, append_images=frames[1:])
    told: list[str] = []
    with image.open(io.BytesIO(convert_picture("jpg", clear.getvalue(), told.append))) as white:
        assert white.getpixel((1, 1)) == (255, 255, 255)
    convert_picture("png", moving.getvalue(), told.append)
    assert "put on white" in told[0]
    assert "first frame" in told[1]
    with pytest.raises(ImageError, match="cannot be read"):
        convert_picture("png", b"\x89PNG\r\n\x1a\nbroken", told.append)


def test_a_photo_is_as_upright_as_before() -> None:
    image = pytest.importorskip("PIL.Image")
    photo, on_its_side = io.BytesIO(), image.Exif()
    on_its_side[0x0112] = 6  # the camera was turned by a quarter
    image.new("RGB", (3, 2)).save(photo, "JPEG", exif=on_its_side)
    with image.open(io.BytesIO(convert_picture("png", photo.getvalue(), lambda _: None))) as turned:
        assert turned.size == (2, 3)


def test_a_picture_that_is_too_large_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(pictures, "MAX_PIXELS", 15)
    drawn = io.BytesIO()
    image.new("RGB", (4, 4)).save(drawn, "PNG")
    with pytest.raises(ImageError, match="4 x 4 pixels"):
        convert_picture("webp", drawn.getvalue(), lambda _: None)


def test_new_assets_are_listed_in_a_v3_card_and_reported_for_v2() -> None:
    asset = Asset.from_bytes(placeholder_png(1, 1), type="emotion", name="joy")
    written = load(to_bytes(Bundle(card=CHARACTER, assets=(asset,)), "charx"))
    assert written.character.assets is not None
    assert written.character.assets[-1].uri == "embeded://assets/emotion/image/joy.png"
    report = save(Bundle(card=V2, assets=(asset,)), io.BytesIO(), format="json")
    assert any("only V3 cards" in warning for warning in report.warnings)


def test_assets_with_hostile_names_get_harmless_paths() -> None:
    names = ("../../etc/passwd", "a/b\\c:*?", "", "CON", "x" * 500, "same", "same", "\ud800")
    assets = tuple(Asset.from_bytes(name.encode("utf-8", "replace"), type="x", name=name, ext="png") for name in names)
    with zipfile.ZipFile(io.BytesIO(to_bytes(Bundle(card=CHARACTER, assets=assets), "charx"))) as archive:
        paths = [name for name in archive.namelist() if name != "card.json"]
    assert len(set(paths)) == len(names)
    assert all(path.startswith("assets/other/image/") and path.count("/") == 3 and len(path) < 200 for path in paths)


def test_a_character_becomes_a_module_of_its_lore() -> None:
    out = io.BytesIO()
    report = save(CHARACTER, out, format="risum")
    module = load(out.getvalue()).module
    assert module is not None
    assert module.name == "Vesna Module"
    assert module.lorebook is not None
    assert len(module.lorebook) == len(CHARACTER.character_book.entries)  # pyright: ignore[reportOptionalMemberAccess]
    assert any("the character is not in the file" in warning for warning in report.warnings)


def test_a_lone_lore_book_becomes_a_module() -> None:
    book = load(b'{"spec": "lorebook_v3", "data": {"name": "W", "entries": [{"keys": ["a"], "content": "c"}]}}')
    out = io.BytesIO()
    assert save(book, out, format="risum").warnings == ()
    module = load(out.getvalue()).module
    assert module is not None
    assert module.name == "W Module"
    assert [entry["key"] for entry in module.lorebook or ()] == ["a"]


def test_lore_books_beside_a_card_are_not_dropped_in_silence() -> None:
    book = CHARACTER.character_book
    assert book is not None
    report = save(Bundle(card=V2, lore_books=(book,)), io.BytesIO(), format="json")
    assert any("lore books next to the card" in warning for warning in report.warnings)


def test_a_webp_that_carries_its_own_picture_warns_of_nothing() -> None:
    assert save(load(to_bytes(CHARACTER, "webp")), io.BytesIO(), format="webp").warnings == ()


def test_a_module_becomes_json_and_back() -> None:
    bundle = load(FILES / "m4.risum")
    data = json.loads(to_bytes(bundle, "json"))
    assert data["type"] == "risuModule"
    assert load(json.dumps(data).encode()).module is not None


def test_yaml_can_be_read_by_programs_that_know_only_the_short_form() -> None:
    import yaml

    written: Any = yaml.safe_load(to_bytes(CHARACTER, "yaml"))
    assert (written["name"], written["context"], written["greeting"]) == (
        CHARACTER.name,
        CHARACTER.description,
        CHARACTER.first_mes,
    )
    assert load(to_bytes(CHARACTER, "yaml")).card == CHARACTER


def test_a_short_yaml_stays_short() -> None:
    bundle = load(FILES / "a.yaml")
    written = to_bytes(bundle.replace(character=bundle.character.replace(first_mes="New")), "yaml").decode()
    assert written.splitlines()[-2:] == ["greeting: New", "extra: ignored"]


def test_text_chunks_of_assets_fit_what_risuai_reads() -> None:
    name = "assets/" + "deep/" * 30 + "ü.png"
    asset = Asset(type="emotion", name="a", ext="png", uri=f"embeded://{name}", path=name, blob=None)
    data = Asset.from_bytes(b"bytes", type="emotion", name="a", ext="png")
    source = card("v3.json")
    source["data"]["assets"] = [{"type": "emotion", "name": "a", "uri": asset.uri, "ext": "png"}]
    from dataclasses import replace

    bundle = Bundle(card=Character.from_card(source), assets=(replace(asset, blob=data.blob),))
    written = to_bytes(bundle, "png")
    keys = [chunk[8 : chunk.index(b"\0", 8)] for chunk in chunks(written) if chunk[8:].startswith(b"chara-ext")]
    assert keys == [b"chara-ext-asset_:0"]
    assert load(written).assets[0].read() == b"bytes"
    assert len(text_chunk("a", b"")) == 14


def test_numbers_that_json_cannot_write_are_saved_as_null(tmp_path: Path) -> None:
    character = Character(name="Ann", extensions={"acme": [float("nan"), float("inf"), 1]})
    save(character, tmp_path / "ann.json")
    assert load(tmp_path / "ann.json").character.extensions["acme"] == (None, None, 1)
