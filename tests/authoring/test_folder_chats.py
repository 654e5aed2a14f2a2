"""What ``examine()`` finds in the chats of a SillyTavern folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tavernkit.authoring import Examination, _installations, examine
from tests.silly_tavern import generated_folder as made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    user = tmp_path / "default-user"
    settings = {"username": "Ann", "main_api": "openai", "power_user": {"personas": {"ann.png": "Ann"}}}
    made.write_json(user / "settings.json", settings)
    made.write_character(user, 0)
    made.write_json(user / "worlds" / "Tide.json", {"entries": {}})
    for name in ("User Avatars/ann.png", "user/files/a.txt", "user/images/a.png"):
        made.write_bytes(user / name, b"A.")
    return user


def write_chat(folder: Path, name: str, metadata: Any = None, *lines: dict[str, Any] | str) -> None:
    written = [line if isinstance(line, str) else json.dumps({"name": "Ann", "mes": "Hi"} | line) for line in lines]
    header = json.dumps({"chat_metadata": metadata if metadata is not None else {}})
    made.write_bytes(folder / f"{name}.jsonl", "\n".join([header, *written]).encode())


def found_in(folder: Path) -> Examination:
    [found] = examine(folder)
    return found


def test_a_chat_whose_parts_are_all_there_gives_no_findings(folder: Path) -> None:
    metadata = {"persona": "ann.png", "world_info": "tide", "attachments": [{"url": "/user/files/a.txt"}]}
    files = {"files": [{"url": "/user/files/a.txt"}, {"url": "/user/files/gone.txt", "text": "Kept in the line."}]}
    media = {"media": [{"url": "/user/images/a.png"}, {"url": "https://example.org/b.png"}]}
    write_chat(folder, "chats/Lyra Vale/one", metadata, {"extra": files}, {"extra": media})
    found = found_in(folder)
    assert (found.missing, found.unsupported, found.problems) == ([], [], [])


def test_what_chats_refer_to_and_is_not_there_is_named_with_the_chats(folder: Path) -> None:
    metadata = {"persona": "zoe.png", "world_info": "Fog", "attachments": [{"url": "/user/files/bank.txt"}]}
    for number in range(5):
        write_chat(folder, f"chats/Lyra Vale/{number}", metadata, {"extra": {"file": {"url": "user/files/old.txt"}}})
    gallery = {"image": "user/images/x.png", "image_swipes": ["user/images/x.png", "user/images/a.png"]}
    write_chat(
        folder, "group chats/talk", {}, {"extra": gallery}, {"extra": gallery}, {"extra": {"video": "/user/v.mp4"}}
    )
    chats = "Lyra Vale/0, Lyra Vale/1, Lyra Vale/2 and 2 more"
    assert found_in(folder).missing == [
        f"the persona zoe.png is not in User Avatars, locked to it: {chats}",
        f"the book 'Fog' is not in worlds: {chats}",
        f"the file /user/files/bank.txt is not there: {chats}",
        f"the file user/files/old.txt is not there: {chats}",
        "the file user/images/x.png is not there: group chats/talk",
        "the file /user/v.mp4 is not there: group chats/talk",
    ]


def test_what_settings_and_groups_refer_to_and_is_not_there_is_named(folder: Path) -> None:
    settings = {
        "power_user": {
            "default_persona": "bo.png",
            "persona_descriptions": {"ann.png": {"lorebook": "Ice"}, "zoe.png": {"lorebook": "Tide"}, "odd.png": 1},
        },
        "world_info_settings": {"world_info": {"globalSelect": ["Tide", "Snow"]}},
        "extension_settings": {
            "attachments": [{"url": "/user/files/a.txt"}, {"url": "/user/files/b.txt"}, 5],
            "character_attachments": {"Lyra Vale.png": [{"url": "/user/files/c.txt"}], "Odd.png": "x"},
        },
    }
    made.write_json(folder / "settings.json", settings)
    made.write_json(folder / "groups" / "g.json", {"id": "g", "name": "Crew", "members": ["lyra vale.png", "Gone.png"]})
    assert found_in(folder).missing == [
        "the global book 'Snow' is not in worlds",
        "the default persona bo.png is not in User Avatars",
        "the book 'Ice' of the persona ann.png is not in worlds",
        "the file /user/files/b.txt of the Data Bank is not there",
        "the file /user/files/c.txt of the Data Bank is not there",
        "the member Gone.png of the group 'Crew' is not in characters",
    ]


def test_unknown_keys_of_headers_are_named_once(folder: Path) -> None:
    known = {"note_prompt": "N", "integrity": "x", "tainted": True, "timedWorldInfo": {}, "variables": {}}
    for number in range(2):
        write_chat(folder, f"chats/Lyra Vale/{number}", known | {"rpg_state": {"hp": 3}})
    assert found_in(folder).unsupported == [
        "'rpg_state' in the header of Lyra Vale/0, Lyra Vale/1 is not known here: an extension may use it"
    ]


def test_broken_lines_are_problems_and_do_not_fill_the_page(folder: Path) -> None:
    write_chat(folder, "chats/Lyra Vale/one", {}, {}, "{broken", "[1]", *(["{also"] * 500))
    write_chat(folder, "chats/Lyra Vale/two", {}, {})
    (folder / "chats" / "Lyra Vale" / "three.jsonl").mkdir()
    found = found_in(folder)
    assert all(problem.startswith("Lyra Vale") for problem in found.problems)
    assert "line 3" in found.problems[0]
    assert any("three" in problem for problem in found.problems)
    assert any(problem.endswith("492 more lines are skipped: is it a chat file?") for problem in found.problems)
    assert len(found.problems) == 10 + 1 + 1


@pytest.mark.parametrize("odd", [5, "text", None, [], {"persona": 7, "world_info": ["x"], "attachments": {"url": 1}}])
def test_odd_headers_are_no_findings(folder: Path, odd: Any) -> None:
    line = {"extra": {"files": "x", "media": [1, {"url": 5}], "image_swipes": {}}}
    made.write_bytes(
        folder / "chats" / "Lyra Vale" / "odd.jsonl",
        b"\n".join(json.dumps(each).encode() for each in ({"chat_metadata": odd}, line)),
    )
    found = found_in(folder)
    assert (found.missing, found.unsupported) == ([], [])


def test_a_huge_folder_is_read_up_to_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        write_chat(folder, f"chats/Lyra Vale/{number}", {"persona": f"{number}.png"}, {"mes": "x" * 1000})
    monkeypatch.setattr(_installations, "MAX_READ_BYTES", 2500)
    missing = found_in(folder).missing
    assert [line for line in missing if "persona" in line] == [
        f"the persona {number}.png is not in User Avatars, locked to it: Lyra Vale/{number}" for number in range(2)
    ]
    assert missing[-1].startswith("2 chats were not read")


def test_long_lists_end_with_how_many_more_there_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_installations, "MAX_LINES", 3)
    write_chat(folder, "chats/Lyra Vale/one", {f"key{number}": 1 for number in range(10)})
    assert found_in(folder).unsupported[3:] == ["… and 7 more like it"]


def test_the_caller_may_follow_the_reading(folder: Path) -> None:
    write_chat(folder, "chats/Lyra Vale/one")
    seen: list[str] = []

    def follow(files: Sequence[Path], what: str) -> Iterator[Path]:
        for path in files:
            seen.append(f"{what}: {path.name}")
            yield path

    examine(folder, follow=follow)
    assert seen == ["reading chats: one.jsonl"]
