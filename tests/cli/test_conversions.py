"""What conversions say about what they lose, and about targets they cannot write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tavernkit.examples import NAMES, example_path
from tests.cli.terminal import BOOK, CARD, PRESET, Tavernkit


def lore_file(tmp_path: Path, *entries: dict[str, object]) -> str:
    path = tmp_path / "lore.json"
    path.write_text(json.dumps({"type": "risu", "ver": 1, "data": [*entries]}))
    return str(path)


def test_a_book_for_risuai_names_the_settings_it_loses(tavernkit: Tavernkit, tmp_path: Path) -> None:
    entry = {"key": ["lamp"], "keysecondary": ["oil"], "comment": "The lamp", "content": "Old.", "disable": True}
    book = tmp_path / "world.json"
    book.write_text(json.dumps({"entries": {"0": entry, "1": {"key": ["sea"], "content": "Wide.", "position": 0}}}))
    outcome = tavernkit("lore", "convert", str(book), str(tmp_path / "out.json"), "--to", "risu_ai")
    assert outcome.code == 1
    assert outcome.err.splitlines() == ["note: keysecondary is lost: 'The lamp'", "note: disable is lost: 'The lamp'"]
    told = tavernkit("lore", "convert", str(book), str(tmp_path / "out.json"), "--to", "risu_ai", "--force", "--json")
    assert json.loads(told.out)["lost"] == ["keysecondary is lost: 'The lamp'", "disable is lost: 'The lamp'"]


def test_many_entries_that_lose_the_same_are_counted(tavernkit: Tavernkit, tmp_path: Path) -> None:
    outcome = tavernkit("lore", "convert", BOOK, str(tmp_path / "out.json"), "--to", "risu_ai")
    assert outcome.code == 1
    assert outcome.err.splitlines()[0].startswith("note: ")


def test_a_book_for_sillytavern_names_the_settings_it_loses(tavernkit: Tavernkit, tmp_path: Path) -> None:
    source = lore_file(
        tmp_path,
        {"key": "/lamp/", "useRegex": True, "comment": "The lamp", "content": "@@depth 2\nOld.", "mode": "normal"},
        {"key": "", "comment": "Places", "content": "", "mode": "folder"},
    )
    outcome = tavernkit("lore", "convert", source, str(tmp_path / "out.json"), "--to", "silly_tavern")
    assert outcome.code == 1
    assert [line.partition(" is lost")[0] for line in outcome.err.splitlines()] == [
        "note: useRegex",
        "note: the meaning of @@decorators, which stay in the text,",
        "note: mode folder",
    ]


CARD_ENTRY = {"keys": ["lamp"], "content": "Old.", "enabled": True, "insertion_order": 1, "comment": "Lamp"}
WORLD_ENTRY = {"key": ["lamp"], "content": "Old.", "comment": "Lamp"}
NO_SWITCH = "enabled: false (RisuAI cannot switch entries off)"


@pytest.mark.parametrize(
    ("book", "for_risu_ai", "for_silly_tavern", "for_cards"),
    [
        ({"entries": [CARD_ENTRY | {"enabled": False}]}, [NO_SWITCH], [], []),
        ({"entries": [CARD_ENTRY], "scan_depth": 4}, ["the book's scan_depth"], ["the book's scan_depth"], []),
        ({"entries": [CARD_ENTRY | {"priority": 5}]}, ["priority"], ["priority"], []),
        ({"entries": [CARD_ENTRY | {"use_regex": True}]}, ["use_regex"], [], []),
        ({"entries": [CARD_ENTRY | {"case_sensitive": True}]}, [], ["case_sensitive"], []),
        ({"entries": [CARD_ENTRY | {"position": "before_char"}]}, ["position"], [], []),
        ({"entries": [CARD_ENTRY | {"extensions": {"sticky": 3}}]}, ["extensions.sticky"], [], []),
        ({"entries": [CARD_ENTRY | {"extensions": {"position": 4, "depth": 2, "role": 1}}]}, [], [], []),
        ({"entries": [CARD_ENTRY | {"extensions": {"probability": 50, "useProbability": True}}]}, [], [], []),
        (
            {"entries": [CARD_ENTRY | {"content": "@@depth 2\nOld."}]},
            [],
            ["the meaning of @@decorators, which stay in the text,"],
            [],
        ),
        (
            {"entries": {"0": WORLD_ENTRY | {"characterFilter": {"names": ["Bel"]}, "mystery": 1}}},
            ["characterFilter", "mystery"],
            [],
            ["characterFilter"],
        ),
        ({"entries": [WORLD_ENTRY | {"disable": True}]}, ["disable"], [], []),
        ({"entries": {"0": "no entry", "1": WORLD_ENTRY}}, ["entry 0"], [], ["entry 0"]),
        (
            {
                "lorebookVersion": 5,
                "entries": [{"text": "Old.", "displayName": "Lamp", "keys": ["l"], "searchRange": 5}],
            },
            ["searchRange"],
            ["searchRange"],
            ["searchRange"],
        ),
    ],
)
def test_every_loss_of_a_book_is_named(
    book: dict[str, object], for_risu_ai: list[str], for_silly_tavern: list[str], for_cards: list[str],
    tavernkit: Tavernkit, tmp_path: Path,
) -> None:  # fmt: skip
    source, target = tmp_path / "book.json", tmp_path / "out.json"
    source.write_text(json.dumps(book))
    for to, lost in (("risu_ai", for_risu_ai), ("silly_tavern", for_silly_tavern), ("character_book", for_cards)):
        outcome = tavernkit("lore", "convert", str(source), str(target), "--to", to, "--force", "--json")
        told = json.loads(outcome.out)
        assert [line.partition(" is lost")[0] for line in told["lost"]] == lost
        assert (outcome.code, told["entries"]) == (int(bool(lost)), 1)
        assert "Old." in target.read_text()


@pytest.mark.parametrize("to", ["silly_tavern", "character_book"])
def test_a_book_that_loses_nothing_says_nothing(tavernkit: Tavernkit, tmp_path: Path, to: str) -> None:
    outcome = tavernkit("lore", "convert", BOOK, str(tmp_path / "out.json"), "--to", to)
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.parametrize("target", ["card", "card.txt", "card.xyz"])
def test_an_ending_that_names_no_format_is_refused(tavernkit: Tavernkit, tmp_path: Path, target: str) -> None:
    outcome = tavernkit("card", "convert", CARD, str(tmp_path / target))
    assert (outcome.code, ".charx" in outcome.err) == (2, True)
    assert not list(tmp_path.iterdir())


def test_a_card_is_embedded_into_pictures_only(tavernkit: Tavernkit, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    assert tavernkit("card", "convert", CARD, str(picture)).code == 0
    outcome = tavernkit("card", "embed", CARD, str(picture), str(tmp_path / "out.json"))
    assert (outcome.code, ".png" in outcome.err) == (2, True)
    assert tavernkit("card", "embed", CARD, str(picture), str(tmp_path / "out.png")).code == 0


def test_only_presets_are_converted_as_presets(tavernkit: Tavernkit, tmp_path: Path) -> None:
    outcome = tavernkit("preset", "convert", CARD, str(tmp_path / "out.risup"))
    assert (outcome.code, "is a card, not a preset" in outcome.err) == (2, True)
    assert tavernkit("preset", "convert", PRESET, str(tmp_path / "out.txt")).code == 2
    assert tavernkit("preset", "convert", str(tmp_path / "nowhere.json"), str(tmp_path / "out.json")).code == 2
    assert not list(tmp_path.iterdir())


def test_the_example_can_be_copied_but_not_over_other_files(tavernkit: Tavernkit, tmp_path: Path) -> None:
    folder = tmp_path / "example"
    assert tavernkit("demo", "--files", str(folder)).code == 0
    assert {path.name for path in folder.iterdir()} == set(NAMES)
    assert (folder / "aria.json").read_bytes() == example_path("aria.json").read_bytes()
    (folder / "aria.json").write_text("mine")
    assert tavernkit("demo", "--files", str(folder)).code == 2
    assert (folder / "aria.json").read_text() == "mine"
    told = json.loads(tavernkit("demo", "--files", str(tmp_path / "other"), "--json").out)
    assert all(Path(name).is_file() for name in told["files"])


def test_a_folder_with_nothing_to_check_is_told(tavernkit: Tavernkit, tmp_path: Path) -> None:
    (tmp_path / "notes.docx").write_text("nothing")
    outcome = tavernkit("lint", str(tmp_path))
    assert (outcome.code, "nothing to check" in outcome.err) == (2, True)


def test_one_problem_is_counted_as_one(tavernkit: Tavernkit, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("{")
    assert "1 file: 1 error, 0 warnings, 0 notes" in tavernkit("lint", str(path)).out


def test_a_model_without_a_known_tokenizer_is_told(tavernkit: Tavernkit) -> None:
    assert "no tokenizer is known for 'nonsense'" in tavernkit("tokens", "--text", "Hi", "--model", "nonsense").err
    assert tavernkit("tokens", "--text", "Hi", "--model", "gpt-4o").err == ""


def test_a_preset_for_risuai_names_the_settings_it_loses(tavernkit: Tavernkit, tmp_path: Path) -> None:
    outcome = tavernkit("preset", "convert", PRESET, str(tmp_path / "out.risup"))
    assert "warning: scenario_format is lost: RisuAI's import of a preset does not take it" in outcome.err.splitlines()
    assert "names_behavior" not in outcome.err
    assert outcome.code == 1


def test_a_picture_that_is_lost_is_a_loss(tavernkit: Tavernkit, tmp_path: Path) -> None:
    picture = tmp_path / "portrait.png"
    picture.write_text("no picture")
    outcome = tavernkit("card", "embed", CARD, str(picture), str(tmp_path / "aria.png"))
    assert (outcome.code, "a plain one is used instead" in outcome.err) == (1, True)
