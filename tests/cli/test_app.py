"""The command as a whole: help, versions, errors, exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tavernkit import __version__
from tavernkit.cli.app import COMMANDS
from tests.cli.terminal import BOOK, CARD, CHAT, Tavernkit, Terminal, in_process

SUBCOMMANDS = [
    ["card", "show"],
    ["card", "convert"],
    ["card", "extract"],
    ["card", "embed"],
    ["lore", "scan"],
    ["lore", "test"],
    ["lore", "convert"],
    ["lore", "index"],
    ["macros", "list"],
    ["macros", "eval"],
    ["cbs", "list"],
    ["cbs", "eval"],
    ["preset", "convert"],
    *(["server", name] for name in ("import", "export", "backup", "restore", "keys", "usage", "prune")),
    ["tokenizers", "check"],
    ["tokenizers", "fetch"],
    ["tokenizers", "audit"],
    ["tokenizers", "compare"],
]
GROUPS = {"card", "lore", "macros", "cbs", "preset", "tokenizers", "server"}


def test_help_lists_every_command(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("--help")
    assert outcome.code == 0
    for name in COMMANDS:
        assert name in outcome.out
    assert "Exit codes" in outcome.out


@pytest.mark.parametrize(
    "words", [*([name] for name in COMMANDS if name not in GROUPS), *SUBCOMMANDS], ids=lambda words: " ".join(words)
)
def test_every_command_has_help_with_examples_and_json(tavernkit: Tavernkit, words: list[str]) -> None:
    outcome = tavernkit(*words, "--help")
    assert outcome.code == 0
    assert f"tavernkit {' '.join(words)}" in outcome.out.split("Usage:")[1].split("\n", 2)[2]
    assert "--json" in outcome.out
    assert "<bool>" not in outcome.out


def test_the_help_of_serve_says_what_it_does_without_options(tavernkit: Tavernkit) -> None:
    told = tavernkit("serve", "--help").out
    assert all(default in told for default in ("tavernkit-data", "127.0.0.1", "8080"))


def test_the_version_is_printed(tavernkit: Tavernkit) -> None:
    assert tavernkit("--version").out.strip() == __version__


def test_an_unknown_option_is_a_usage_error(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("build", CARD, "--nonsense")
    assert outcome.code == 2
    assert "--nonsense" in outcome.err


def test_a_missing_file_is_one_readable_line(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("build", "nowhere.png")
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert "nowhere.png" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_file_that_is_no_card_is_one_readable_line(tavernkit: Tavernkit, tmp_path: Path) -> None:
    path = tmp_path / "noise.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    outcome = tavernkit("card", "show", str(path))
    assert outcome.code == 2
    assert f"error: {path}: the PNG has no character card" in outcome.err
    assert "Traceback" not in outcome.err


def test_debug_shows_where_an_error_comes_from() -> None:
    outcome = in_process("build", "nowhere.png", "--debug")
    assert outcome.code != 0
    assert "Traceback" in outcome.err


def test_a_prompt_that_does_not_fit_has_an_exit_code_of_its_own(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("build", CARD, "--message", "hi", "--context-length", "60", "--response-length", "10")
    assert outcome.code == 3
    assert "--context-length" in outcome.err


def test_there_is_no_colour_without_a_terminal() -> None:
    outcome = in_process("build", CARD, "--message", "hi")
    assert outcome.code == 0
    assert "\x1b" not in outcome.out


def test_there_is_colour_in_a_terminal() -> None:
    outcome = Terminal("build", CARD, "--message", "hi").finish()
    assert outcome.code == 0
    assert "\x1b[" in outcome.out


def test_a_card_cannot_send_escape_sequences_to_the_terminal(tmp_path: Path) -> None:
    card = json.loads(Path(CARD).read_text(encoding="utf-8"))
    card["data"]["name"] = "Eve\x1b]0;owned\x07"
    card["data"]["description"] = "before \x1b[2J after \x9b31m"
    path = tmp_path / "eve.json"
    path.write_text(json.dumps(card), encoding="utf-8")
    for command in (["build", str(path), "-m", "hi"], ["card", "show", str(path)], ["explain", str(path), "--tree"]):
        outcome = Terminal(*command).finish()
        assert outcome.code == 0
        assert "\x1b[2J" not in outcome.out
        assert "\x1b]0;" not in outcome.out
        assert "\x9b" not in outcome.out


def test_help_starts_quickly_because_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from tavernkit.cli.app import run; run(['--help']);"
        "heavy = {'pydantic', 'openai', 'tavernkit.silly_tavern._builder', 'tavernkit.risu_ai._builder', 'splintr'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == "[]"


def test_help_speaks_of_files_and_texts_and_keeps_the_lines_of_examples_only(tavernkit: Tavernkit) -> None:
    shown = tavernkit("build", "--help").out
    assert "<str>" not in shown
    assert "list[" not in shown
    assert re.search(r"--book +-b +FILE ", shown)
    assert "each run is written when it ends. After an interruption" in " ".join(
        tavernkit("eval", "--help").out.split()
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["lint", CARD],
        ["explain", CARD, "-m", "Hi"],
        ["demo"],
        ["tokens", "--text", "Hi"],
        ["lore", "scan", BOOK, "--text", "lamp"],
        ["lore", "test", BOOK, "--text", "lamp", "--expect", "The lamp"],
        ["lore", "coverage", BOOK, "--chat", CHAT],
        ["macros", "list"],
        ["macros", "eval", "{{user}}"],
        ["cbs", "list"],
        ["cbs", "eval", "{{user}}"],
        ["diff", CARD, CARD],
        ["cache", CARD, "--chat", CHAT],
        ["eval", "--list"],
    ],
)
def test_json_carries_the_version_of_its_schema(tavernkit: Tavernkit, arguments: list[str]) -> None:
    assert json.loads(tavernkit(*arguments, "--json").out)["schema_version"] == 1


def test_the_nearest_option_is_suggested(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("build", CARD, "--mesage", "Hi")
    assert (outcome.code, outcome.err) == (
        2,
        "error: No such option: --mesage. Did you mean '--message'? (see tavernkit build --help)\n",
    )


@pytest.mark.parametrize("words", [["lint"], ["doctor"], ["test"], ["diff", CARD], ["diff", "--text"]])
def test_a_missing_path_is_named_in_quotes(tavernkit: Tavernkit, words: list[str]) -> None:
    outcome = tavernkit(*words, "nowhere at all")
    assert (outcome.code, "there is no file or folder 'nowhere at all'" in outcome.err) == (2, True)


@pytest.mark.parametrize("command", ["backup", "restore", "migrate"])
def test_commands_of_the_database_have_examples(tavernkit: Tavernkit, command: str) -> None:
    assert f"tavernkit server {command} " in tavernkit("server", command, "--help").out.partition("Examples")[2]


@pytest.mark.parametrize("option", ["--message", "--generation-type"])
def test_a_replay_has_no_options_for_a_turn(tavernkit: Tavernkit, option: str) -> None:
    outcome = tavernkit("cache", CARD, "--chat", CHAT, option, "normal")
    assert (outcome.code, "No such option" in outcome.err) == (2, True)
