"""What can be given where a file is wanted, and what is said about what cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tavernkit.risu_ai import Preset
from tests.cli.terminal import BOOK, CARD, CHAT, PATIENCE, PRESET, Tavernkit, in_process

CARD_TEXT = Path(CARD).read_text(encoding="utf-8")
BOOK_TEXT = Path(BOOK).read_text(encoding="utf-8")
CHAT_TEXT = Path(CHAT).read_text(encoding="utf-8")
PRESET_TEXT = Path(PRESET).read_text(encoding="utf-8")
INSTRUCT_TEXT = json.dumps({"name": "Marks", "input_sequence": "<<", "output_sequence": ">>", "wrap": False})
RAIN = {"key": "rain", "secondkey": "", "insertorder": 100, "comment": "Rain", "content": "It rains.", "mode": "normal"}
ONLY = {"--regex-script": "silly_tavern", "--chat": "risu_ai"}
"""Options of one platform, or for which the other does its best with any bytes."""
MODULE = {"name": "Weather", "description": "", "lorebook": [RAIN]}


@pytest.mark.parametrize(
    ("option", "content"),
    [
        ("card", b""),
        ("card", b"{"),
        ("card", b"[1]"),
        ("card", b"\x00\x01"),
        ("--book", b""),
        ("--book", b"{"),
        ("--book", b"{}"),
        ("--preset", b""),
        ("--preset", b"[1]"),
        ("--regex-script", b"{"),
        ("--chat", b"\xff\xff"),
    ],
)
@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_an_error_about_a_file_names_it(
    tavernkit: Tavernkit, tmp_path: Path, option: str, content: bytes, platform: str
) -> None:
    if option in ONLY:
        platform = ONLY[option]
    path = tmp_path / "the one 🕯.json"
    path.write_bytes(content)
    files = [str(path)] if option == "card" else [CARD, option, str(path)]
    outcome = tavernkit("build", *files, "--platform", platform)
    assert outcome.code == 2
    assert path.name in outcome.err.splitlines()[-1]
    assert outcome.err.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((BOOK,), "is a world book, not a character card: use --book"),
        ((PRESET,), "is a SillyTavern preset, not a character card: use --preset"),
        ((CHAT,), "is a chat, not a character card: use --chat"),
        ((CARD, "--preset", BOOK), "is a world book, not a preset: use --book"),
        ((CARD, "--preset", CARD), "is a card, not a preset: the card comes first"),
        ((CARD, "--chat", BOOK), "is a world book, not a chat: use --book"),
        ((CARD, "--dialect", "text", "--instruct", PRESET), "not an instruct template: use --preset"),
        ((CARD, "--regex-script", BOOK), "is a world book, not a regex script: use --book"),
    ],
)
def test_a_file_of_another_kind_is_sent_to_its_option(
    tavernkit: Tavernkit, arguments: tuple[str, ...], said: str
) -> None:
    outcome = tavernkit("build", *arguments)
    assert outcome.code == 2
    assert said in outcome.err


def test_a_preset_that_says_nothing_is_wondered_at(tavernkit: Tavernkit, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text('{"temp": 1}')
    outcome = tavernkit("build", CARD, "--preset", str(path))
    assert outcome.code == 0
    assert "is it a preset?" in outcome.err


def test_a_chat_without_messages_is_told(tavernkit: Tavernkit, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    assert "there is no message in it" in tavernkit("build", CARD, "--chat", str(path)).err
    outcome = tavernkit("lore", "scan", BOOK, "--chat", str(path))
    assert (outcome.code, "there is no message in it" in outcome.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (("card", "show", "-"), CARD_TEXT, "Aria"),
        (("build", "-", "--message", "Hi"), CARD_TEXT, "lighthouse"),
        (("lore", "scan", "-", "--text", "the lamp"), BOOK_TEXT, "stdin.1"),
        (("tokens", "-"), "Hello", "stdin"),
        (("macros", "eval", "-", "--char", "Bel"), "I am {{char}}\n", "I am Bel\n"),
        (("cbs", "eval", "-", "--char", "Bel"), "I am {{char}}\n", "I am Bel\n"),
        (("build", CARD, "--preset", "-", "--message", "Hi"), PRESET_TEXT, "lighthouse"),
        (("build", CARD, "--chat", "-"), CHAT_TEXT, "chat history"),
        (("build", CARD, "--chat", "-", "--platform", "risu_ai"), CHAT_TEXT, "chat history"),
        (("build", CARD, "--preset", "-", "--platform", "risu_ai", "--message", "Hi"), PRESET_TEXT, "Hi"),
        (("build", CARD, "--message", "Hi", "--dialect", "text", "--instruct", "-"), INSTRUCT_TEXT, "<<Hi"),
        (("lore", "scan", BOOK, "--chat", "-"), CHAT_TEXT, "entries are in"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_dash_is_stdin(arguments: tuple[str, ...], stdin: str, said: str) -> None:
    outcome = in_process(*arguments, stdin=stdin)
    assert outcome.code == 0, outcome.err
    assert said in outcome.out


def test_a_preset_from_stdin_is_converted(tmp_path: Path) -> None:
    target = tmp_path / "preset.risup"
    in_process("preset", "convert", "-", str(target), stdin=PRESET_TEXT)
    assert Preset.load(target).prompt_template


@pytest.mark.parametrize(
    "arguments",
    [
        ("build", "-", "--chat", "-"),
        ("build", CARD, "--book", "-", "--book", "-", "--message", "Hi"),
        ("lore", "scan", "-", "--chat", "-"),
        ("macros", "eval", "-", "--card", "-"),
    ],
    ids=" ".join,
)
def test_stdin_is_one_file_only(arguments: tuple[str, ...]) -> None:
    outcome = in_process(*arguments, stdin=BOOK_TEXT if arguments[0] == "lore" else CARD_TEXT)
    assert outcome.code == 2
    assert "- is given twice" in outcome.err


def test_a_chat_does_not_go_on_in_stdin(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("chat", CARD, "--chat", "-", "--model", "scripted", "--say", "Hi")
    assert (outcome.code, "cannot be stdin" in outcome.err) == (2, True)


def test_a_card_can_come_through_a_pipe_of_the_shell() -> None:
    reading, writing = os.pipe()
    os.write(writing, CARD_TEXT.encode())
    os.close(writing)
    done = subprocess.run(
        [sys.executable, "-m", "tavernkit", "card", "show", f"/dev/fd/{reading}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        pass_fds=[reading],
    )
    os.close(reading)
    assert done.returncode == 0, done.stderr
    assert "Aria" in done.stdout


def test_text_that_is_no_utf_8_is_counted_with_a_warning(tavernkit: Tavernkit, tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_bytes("Señor".encode("latin-1"))
    outcome = tavernkit("tokens", str(path))
    assert outcome.code == 0
    assert "old.txt: invalid UTF-8 at byte 2" in outcome.err


@pytest.mark.parametrize("module", [{"type": "risuModule", **MODULE}, {"type": "risuModule", "module": MODULE}])
@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_the_lore_of_a_module_is_a_book(
    tavernkit: Tavernkit, tmp_path: Path, platform: str, module: dict[str, object]
) -> None:
    path = tmp_path / "weather.json"
    path.write_text(json.dumps(module))
    assert "1 of 1 entries are in" in tavernkit("lore", "scan", str(path), "--text", "rain", "-p", platform).out
    target = tmp_path / "book.json"
    assert tavernkit("lore", "convert", str(path), str(target), "--to", platform).code == 0
    assert "1 of 1 entries are in" in tavernkit("lore", "scan", str(target), "--text", "rain", "-p", platform).out


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_a_book_written_as_a_cards_own_is_read_again(tavernkit: Tavernkit, tmp_path: Path, platform: str) -> None:
    target = tmp_path / "own.json"
    assert tavernkit("lore", "convert", BOOK, str(target), "--to", "character_book").code == 0
    scanned = tavernkit("lore", "scan", str(target), "--text", "Who lit the lamp?", "--platform", platform, "--json")
    rows = {row["title"]: row["active"] for row in json.loads(scanned.out)["entries"]}
    assert len(rows) == 8
    assert rows["The lamp"]
    assert not rows["Dragons"]
    linted = tavernkit("lint", str(target), "--json")
    assert json.loads(linted.out)["files"][0]["kind"] == "character book"
    assert json.loads(linted.out)["files"][0]["findings"] == []


def test_a_file_that_is_no_book_is_called_what_it_is(tavernkit: Tavernkit) -> None:
    for path, said in ((CHAT, "is a chat, not a lore book: use --chat"), (PRESET, "use --preset")):
        outcome = tavernkit("build", CARD, "--book", path, "--message", "Hi")
        assert (outcome.code, said in outcome.err) == (2, True)
