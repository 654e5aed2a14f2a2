"""What the vectors of the two importers do not show."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from datetime import UTC, datetime
from typing import Any

import pytest

from tavernkit.cards import Character, load, to_bytes
from tavernkit.cards import _risu_ai as risu
from tavernkit.cards import _silly_tavern as st
from tavernkit.cards._png import placeholder_png, text_chunk
from tavernkit.cards._silly_tavern.stored import ImportFailedError, sanitize
from tavernkit.cards.errors import EncryptedCardError
from tavernkit.errors import LimitExceededError
from tests.cards import mutations
from tests.cards.files import FILES, card, zip_of
from tests.conformance import runner
from tests.quickness import linear_time

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def imported(name: str, **options: Any) -> st.ImportedCard:
    return st.import_file((FILES / name).read_bytes(), name.rpartition(".")[2], now=NOW, **options)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b:c*", "abc"),
        ("..", ""),
        ("...", ""),
        ("nul", ""),
        ("COM1.txt", ""),
        ("console", "console"),
        ("end. ", "end"),
        ("\x00\x1f\x80\x9fok", "ok"),
        ("ä" * 200, "ä" * 127),
        ("half \ud83d", "half \ufffd"),
        ("\ud83d\ude00", "😀"),
        ("x" * 253 + "\ud83d", "x" * 253),
    ],
)
def test_names_are_made_safe_for_files(name: str, expected: str) -> None:
    assert sanitize(name) == expected


def test_a_taken_name_gets_a_number() -> None:
    assert imported("v2.json", taken={"Vesna", "Vesna1"}).file_name == "Vesna2"
    assert imported("v2.json", preserved_name="Mine.png", taken={"Mine"}).file_name == "Mine"


def test_what_sillytavern_stores_opens_here_too() -> None:
    for name in ("v2_unknown.json", "p_apng.png", "c_full.charx", "b_full.byaf", "a.yaml"):
        stored = imported(name)
        bundle = load(stored.png)
        assert all(warning.startswith("asset ") for warning in bundle.warnings)
        assert bundle.character.to_card()["data"] == stored.card["data"]


def test_sillytavern_imports_what_we_write() -> None:
    character = Character.from_card(card("v3_book.json"))
    for format_ in ("json", "png", "charx", "byaf", "yaml"):
        stored = st.import_file(to_bytes(character, format_), format_, now=NOW)
        assert stored.file_name == "Vesna"
        data: Any = stored.card["data"]
        assert data["description"] == character.description
        assert data["first_mes"] == character.first_mes


def test_risuai_imports_what_we_write() -> None:
    character = Character.from_card(card("v3_book.json"))
    for format_, name in (("json", "a.json"), ("png", "a.png"), ("charx", "a.charx"), ("jpeg", "a.jpeg")):
        result = risu.import_file(name, to_bytes(character, format_))
        assert result.character["name"] == "Vesna"
        assert result.character["desc"] == character.description


def test_limits_hold_for_the_importers_too() -> None:
    with pytest.raises(LimitExceededError):
        imported("nest100k.json")
    with pytest.raises(LimitExceededError):
        risu.import_file("a.json", (FILES / "nest100k.json").read_bytes())
    with pytest.raises(LimitExceededError):
        imported("c_bomb.charx")


def test_backgrounds_sprites_and_other_pictures_get_their_places() -> None:
    assert {file.path: len(file.data) for file in imported("c_full.charx").files} == {
        "characters/Vesna/happy-face.png": 72,
        "characters/Vesna/backgrounds/hall.jpg": 72,
        "user/images/Vesna/map.webp": 72,
    }


def test_the_messages_of_a_backyard_scenario_become_its_chat() -> None:
    messages = [
        {"type": "human", "text": "Hello", "createdAt": "2025-05-01T10:00:00.000Z"},
        {"type": "ai", "outputs": [{"text": "Hi", "createdAt": "2025-05-01T10:01:00.000Z"}, 3, {"text": "Hey"}]},
        {"type": "ai", "outputs": []},
        "no message",
        {"type": "human", "text": "Bye"},
    ]
    data = zip_of(
        {
            "manifest.json": json.dumps({"characters": ["c.json"], "scenarios": ["s.json"]}),
            "c.json": json.dumps({"name": "Vesna"}),
            "s.json": json.dumps({"title": "S", "messages": messages}),
        }
    )
    [(_, lines)] = st.import_file(data, "byaf", now=NOW).chats
    assert [(line["name"], line["is_user"], line["mes"], line["send_date"]) for line in lines[1:]] == [
        ("User", True, "Hello", "2025-05-01T10:00:00.000Z"),
        ("Vesna", False, "Hi", "2025-05-01T10:01:00.000Z"),
        ("User", True, "Bye", "2026-01-02T03:04:05.678Z"),
    ]
    assert (lines[2]["swipes"], lines[2]["swipe_id"]) == (["Hi", "Hey"], 0)


def test_a_pygmalion_card_is_converted() -> None:
    source = {
        "char_name": "Vesna",
        "char_persona": "A baker.",
        "char_greeting": "Rye?",
        "example_dialogue": "<START>",
        "world_scenario": "A storm.",
    }
    stored: Any = st.import_file(json.dumps(source).encode(), "json", now=NOW).card
    assert stored["data"]["name"] == "Vesna"
    names = ("description", "personality", "scenario", "first_mes", "mes_example")
    assert [stored["data"][name] for name in names] == ["A baker.", "", "A storm.", "Rye?", "<START>"]
    assert stored["chat"].startswith("undefined - ")


def test_a_world_that_the_form_names_goes_into_the_card() -> None:
    book: Any = {"entries": [], "extensions": {}}
    stored: Any = st.create({"ch_name": "Ida", "world": "W"}, NOW, {"W": book})
    assert stored["data"]["character_book"] == book
    assert "character_book" not in st.create({"ch_name": "Ida", "world": "Other"}, NOW, {"W": book})["data"]  # pyright: ignore[reportOperatorIssue]


def test_endless_depth_is_no_number_in_json() -> None:
    stored: Any = st.create({"ch_name": "Ida", "depth_prompt_depth": "Infinity"}, NOW)
    assert stored["data"]["extensions"]["depth_prompt"]["depth"] is None


CHARBOOKS = [case for case in runner.cases("risu_ai/lorebook_import") if case.input.get("op") == "convert_charbook"]


@pytest.mark.parametrize("case", CHARBOOKS, ids=lambda case: case.id)
def test_character_books_become_risuais_lore(case: runner.Case) -> None:
    lore = risu.convert_character_book(case.input["character_book"])
    actual = {"lorebook": lore.lorebook, "loresettings": lore.settings, "loreExt": lore.extensions}
    assert list(runner.differences(case.expected, actual)) == []


def test_risuais_export_and_import_fit_together() -> None:
    character = {
        "name": "Ida",
        "desc": "D",
        "firstMessage": "F",
        "globalLore": [{"key": "a, b", "secondkey": "", "insertorder": 3, "comment": "c", "content": "x"}],
        "customscript": [{"in": "a", "out": "b"}],
        "triggerscript": [{"comment": "t"}],
        "additionalAssets": [["pic", "@1", "png"], ["pic", "@2", "png"]],
        "emotionImages": [["joy", "@3"]],
        "ccAssets": [{"type": "background", "uri": "@4", "name": "hall", "ext": "webp"}],
        "extentions": {"acme": {"k": 1}},
        "nickname": "I",
    }
    data = risu.export_charx(character, str.encode, now=5, new_id=lambda: "id")
    result = risu.import_file("a.charx", data)
    back: Any = result.character
    for key in (
        "name",
        "desc",
        "firstMessage",
        "globalLore",
        "customscript",
        "triggerscript",
        "extentions",
        "nickname",
    ):
        assert back[key] == character[key]
    assert [(name, result.assets[path]) for name, path, _ in back["additionalAssets"]] == [
        ("pic", b"@1"),
        ("pic", b"@2"),
    ]
    assert [(name, result.assets[path]) for name, path in back["emotionImages"]] == [("joy", b"@3")]
    assert result.assets[back["ccAssets"][0]["uri"]] == b"@4"
    assert result.assets[back["image"]] == placeholder_png()
    assert load(data).character.name == "Ida"


def test_odd_member_names_are_made_usable() -> None:
    character = {
        "name": "I",
        "additionalAssets": [
            ["con?", "@1", "png"],
            ["a\x01b", "@2", "mp3"],
            ["x" * 300, "@3", "ttf"],
            ["x" + "🫖" * 50, "@4", "png"],
        ],
    }
    data = risu.export_charx(character, str.encode, now=0, new_id=lambda: "id")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if name.startswith("assets/other")]
    assert names == [
        "assets/other/image/con_.png",
        "assets/other/audio/a_b.mp3",
        f"assets/other/fonts/{'x' * 100}.ttf",
        f"assets/other/image/x{'🫖' * 49}\ufffd.png",
    ]


def test_risuai_keeps_assets_of_a_v2_card_with_the_endings_of_their_file_names() -> None:
    risuai = {
        "emotions": [["joy", "QQ=="], "x"],
        "additionalAssets": [["pic", "QQ==", "pic.webp"], ["song", "QQ=="], ["short"], ["odd", 5]],
        "prebuiltAssetExclude": ["p"],
        "prebuiltAssetStyle": "s",
    }
    data = {"name": "I", "extensions": {"risuai": risuai, "depth_prompt": {"depth": 1}, "acme": 2}}
    file = json.dumps({"spec": "chara_card_v2", "data": data}).encode()
    result = risu.import_file("m.json", file)
    path = f"assets/{hashlib.sha256(b'A').hexdigest()}"
    found: Any = result.character
    assert found["emotionImages"] == [["joy", f"{path}.png"]]
    assert found["additionalAssets"] == [["pic", f"{path}.webp", "pic.webp"], ["song", f"{path}.png", ""]]
    assert (found["prebuiltAssetExclude"], found["prebuiltAssetStyle"]) == (["p"], "s")
    assert (found["extentions"], found["characterVersion"]) == ({"acme": 2}, "undefined")
    assert "loreSettings" not in found


@pytest.mark.parametrize("spec", ["chara_card_v2", "chara_card_v3"])
def test_an_asset_that_a_card_names_many_times_is_hashed_once(spec: str) -> None:
    times = 15_000
    data = {
        "name": "I",
        "extensions": {"risuai": {"emotions": [["joy", "__asset:0"]] * times}},
        "assets": [{"type": "emotion", "name": "joy", "uri": "__asset:0"}] * times,
    }
    content = bytes(3_000_000)
    picture = placeholder_png(1, 1)
    chunks = text_chunk("chara-ext-asset_:0", base64.b64encode(content)) + text_chunk(
        "ccv3", base64.b64encode(json.dumps({"spec": spec, "data": data}).encode())
    )
    with linear_time():
        result = risu.import_file("a.png", picture[:-12] + chunks + picture[-12:])
    path = f"assets/{hashlib.sha256(content).hexdigest()}.png"
    assert result.character["emotionImages"] == [["joy", path]] * times
    assert result.assets[path] == content


def test_assets_with_one_name_are_numbered() -> None:
    images = [["joy", "@"], ["joy_1", "@"], ["joy", "@"], ["joy", "@"], ["joy_1", "@"]]
    data = risu.export_charx({"name": "I", "emotionImages": images}, str.encode, now=0, new_id=lambda: "id")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if name.startswith("assets/emotion")]
    stems = ("joy", "joy_1", "joy_2", "joy_3", "joy_1_1")
    assert names == [f"assets/emotion/image/{stem}.png" for stem in stems]


def test_numbers_that_json_cannot_write_are_exported_as_null() -> None:
    character = {
        "name": "I",
        "extentions": {"acme": [float("inf"), 1]},
        "globalLore": [{"key": "a", "content": "NaN", "insertorder": float("nan")}],
    }
    data = risu.export_charx(character, str.encode, now=0, new_id=lambda: "id")
    back: Any = risu.import_file("a.charx", data).character
    assert back["extentions"] == {"acme": [None, 1]}
    assert back["globalLore"] == [{"key": "a", "content": "NaN", "insertorder": None}]


def test_many_assets_with_one_name_are_exported_in_linear_time() -> None:
    images = [["joy", "@"]] * 20_000
    with linear_time():
        risu.export_charx({"name": "I", "emotionImages": images}, str.encode, now=0, new_id=lambda: "id")


def test_an_infinite_number_does_not_cost_an_old_card_its_other_fields() -> None:
    data = b'{"name": "I", "creator": "C", "talkativeness": 1e999}'
    stored = st.import_file(data, "json", now=NOW).card
    assert stored["creator"] == "C"


def test_an_encrypted_card_needs_risuai() -> None:
    picture = placeholder_png(1, 1)
    data = picture[:-12] + text_chunk("chara", b"rcc||rccv1||a||b||c") + picture[-12:]
    with pytest.raises(EncryptedCardError):
        risu.import_file("a.png", data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.json", b"[]"),
        ("a.json", b"null"),
        ("a.png", b"no png"),
        ("a.png", placeholder_png(1, 1)),
        ("a.charx", b"no zip"),
        ("a.charx", zip_of({"card.json": ""})),
        ("a.charx", zip_of({"card.json": "[1]"})),
        ("a", b"{}"),
    ],
)
def test_risuai_refuses_what_has_no_card(name: str, data: bytes) -> None:
    with pytest.raises(risu.ImportRefusedError):
        risu.import_file(name, data)


def test_a_broken_module_does_not_keep_the_card_out() -> None:
    source = card("v3.json")
    data = zip_of({"card.json": json.dumps(source), "module.risum": b"o\0junk"})
    assert risu.import_file("a.charx", data).character["name"] == "Vesna"


def test_off_spec_cards_in_a_png_get_their_picture() -> None:
    picture = placeholder_png(1, 1)
    text = base64.b64encode(b'{"name":"Old","spec":"other"}')
    result = risu.import_file("a.png", picture[:-12] + text_chunk("chara", text) + picture[-12:])
    assert result.character["name"] == "Old"
    assert result.assets[str(result.character["image"])] == picture


@pytest.mark.parametrize("family", mutations.IMPORTED_AS)
def test_importers_raise_only_our_errors_on_damaged_files(family: str) -> None:
    mutations.try_importers(family, range(150))


def test_a_charx_that_is_cut_off_has_no_card_or_no_asset_for_risuai() -> None:
    source = card("v3.json")
    source["data"]["assets"] = [{"type": "emotion", "uri": "embeded://a.png", "name": "a", "ext": "png"}]
    first = zip_of({"card.json": json.dumps(source)}, method=zipfile.ZIP_STORED)
    with pytest.raises(risu.ImportRefusedError):
        risu.import_file("a.charx", first[:200])
    both = bytearray(zip_of({"card.json": json.dumps(source), "a.png": b"picture" * 99}))
    both[both.index(b"a.png") + len(b"a.png")] ^= 0xFF
    with pytest.raises(risu.ImportThrewError) as caught:
        risu.import_file("a.charx", bytes(both))
    assert caught.value.error == "Error"


def test_silly_tavern_cannot_import_creator_notes_that_are_no_text() -> None:
    for notes in (5, ["x"], {}):
        with pytest.raises(ImportFailedError):
            st.import_file(json.dumps({"name": "A", "creator_notes": notes}).encode(), "json", now=NOW)
    empty = st.import_file(json.dumps({"name": "A", "creator_notes": 0}).encode(), "json", now=NOW)
    assert empty.card["creatorcomment"] == ""


def test_a_card_whose_extensions_are_a_list_is_no_favourite() -> None:
    source = {"spec": "chara_card_v2", "fav": True, "data": {"name": "A", "extensions": []}}
    result = st.import_file(json.dumps(source).encode(), "json", now=NOW).card
    assert result["fav"] is False
    assert "talkativeness" not in result
