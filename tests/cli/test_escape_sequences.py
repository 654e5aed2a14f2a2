"""A card whose every string is an escape sequence reaches no terminal as one, by any command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tavernkit.values import Json
from tests.cli.terminal import BOOK, CARD, CHAT, PRESET, Tavernkit, Terminal

ATTACKS = (
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[H",
    "\x9b31m",
    "\x1bP$q\x1b\\",
    "\x08\x08\x7f",
    "\u202eneddih\u2066",
)
STYLE = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[1A|\x1b\[2K|\x1b\[\?2004[lh]")
"""What rich and readline themselves send: colours, the cursor of a progress bar, how pasted text is marked."""
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

COMMANDS = {
    "build": ["build", "{card}", "--book", "{book}", "--chat", "{chat}", "--preset", "{preset}", "-m", "{attack}"],
    "build_explain": ["build", "{card}", "--book", "{book}", "--chat", "{chat}", "-m", "hi", "--explain", "--trace"],
    "build_json": ["build", "{card}", "--book", "{book}", "-m", "{attack}", "--json"],
    "build_request": ["build", "{card}", "--book", "{book}", "-m", "{attack}", "--request"],
    "build_risu_ai": ["build", "{card}", "--platform", "risu_ai", "-m", "{attack}", "--explain"],
    "explain": ["explain", "{card}", "--book", "{book}", "--chat", "{chat}", "-m", "{attack}"],
    "explain_tree": ["explain", "{card}", "--book", "{book}", "--tree"],
    "explain_lore": ["explain", "{card}", "--book", "{book}", "--book", "{other}", "-m", "hi", "--lore"],
    "explain_json": ["explain", "{card}", "--book", "{book}", "--json"],
    "card_show": ["card", "show", "{card}", "--full"],
    "card_show_json": ["card", "show", "{card}", "--json"],
    "card_convert": ["card", "convert", "{card}", "{folder}/out.json", "--force"],
    "card_extract": ["card", "extract", "{card}", "{folder}/parts"],
    "lint": ["lint", "{card}", "{book}", "{preset}"],
    "lint_json": ["lint", "{card}", "{book}", "--json"],
    "lore_scan": ["lore", "scan", "{book}", "--text", "{attack}"],
    "lore_test": ["lore", "test", "{book}", "--text", "hi", "--expect", "{attack}"],
    "lore_convert": ["lore", "convert", "{book}", "{folder}/out.json", "--to", "risu_ai", "--force"],
    "preset_convert": ["preset", "convert", "{preset}", "{folder}/out.json", "--to", "risu_ai", "--force"],
    "tokens": ["tokens", "{card}", "--show"],
    "tokens_text": ["tokens", "--text", "{attack}", "--show"],
    "macros_list": ["macros", "list", "{attack}"],
    "cbs_list": ["cbs", "list", "{attack}"],
    "chat": ["chat", "{card}", "--base-url", "scripted", "--say", "{attack}", "--save", "{folder}/chat.jsonl"],
    "missing_file": ["build", "{folder}/{attack}"],
    "unknown_option": ["build", "{card}", "--{attack}"],
}
"""Every command that shows what files say; ``{attack}`` is a sequence where the user would type something."""

TEXT_COMMANDS = {
    "build_text": ["build", "{card}", "--dialect", "text", "-m", "{attack}"],
    "macros_eval": ["macros", "eval", "{attack}{{char}}"],
    "cbs_eval": ["cbs", "eval", "{attack}{{char}}"],
}
"""Commands whose output is a text for another program: a terminal gets it made visible, a pipe as it is."""

USAGE_ERRORS = {"missing_file", "unknown_option"}
COMPLAINTS = {"lint", "lint_json", "lore_test", "lore_convert", "preset_convert"}


def _poisoned(value: Any, count: list[int]) -> Any:
    """Put a sequence into every text that is no key of the format itself."""
    if isinstance(value, str):
        count[0] += 1
        if value in {"chara_card_v2", "chara_card_v3", "2.0", "3.0", "before_char", "after_char"}:
            return value
        return f"{value}{ATTACKS[count[0] % len(ATTACKS)]}"
    if isinstance(value, list):
        return [_poisoned(each, count) for each in value]
    if isinstance(value, dict):
        return {key: _poisoned(each, count) for key, each in value.items()}
    return value


def _poison(source: str, target: Path, **more: Json) -> str:
    lines = Path(source).read_text(encoding="utf-8")
    parts = lines.splitlines() if source.endswith(".jsonl") else [lines]
    count = [0]
    written = [json.dumps({**_poisoned(json.loads(each), count), **more}) for each in parts if each.strip()]
    target.write_text("\n".join(written), encoding="utf-8")
    return str(target)


def _poisoned_card(target: Path) -> str:
    """Give the card a book, too."""
    card = json.loads(Path(CARD).read_text(encoding="utf-8"))
    entry = {"keys": ["hi"], "content": "lore", "comment": "title", "name": "title", "enabled": True, "id": "one"}
    card["data"]["character_book"] = {"name": "book", "entries": [{**entry, "insertion_order": 1, "extensions": {}}]}
    card["data"]["character_book"]["entries"].append({**entry, "keys": [""], "constant": True, "id": "two"})
    target.write_text(json.dumps(_poisoned(card, [0])), encoding="utf-8")
    return str(target)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("poisoned")
    return {
        "folder": str(folder),
        "card": _poisoned_card(folder / "card.json"),
        "book": _poison(BOOK, folder / "world.json", name="World"),
        "other": _poison(BOOK, folder / "other.json", name="Other"),
        "preset": _poison(PRESET, folder / "preset.json"),
        "chat": _poison(CHAT, folder / "chat.jsonl"),
        "attack": ATTACKS[0],
    }


def _arguments(command: list[str], files: dict[str, str], run: str) -> list[str]:
    """Fill in the names; each run has files of its own to write."""
    filled: list[str] = []
    for part in command:
        for name, value in files.items():
            part = part.replace(f"{{{name}}}", value)
        filled.append(part.replace("/out.json", f"/out {run}.json").replace("/parts", f"/parts {run}"))
    return filled


@pytest.mark.parametrize("name", [*COMMANDS, *TEXT_COMMANDS])
def test_no_command_lets_a_sequence_through_to_a_terminal(name: str, files: dict[str, str]) -> None:
    arguments = _arguments({**COMMANDS, **TEXT_COMMANDS}[name], files, "terminal")
    outcome = Terminal(*arguments).finish()
    assert "Traceback" not in outcome.out
    assert outcome.code == (2 if name in USAGE_ERRORS else 1 if name in COMPLAINTS else 0)
    found = CONTROLS.search(STYLE.sub("", outcome.out))
    assert found is None, repr(outcome.out[max(found.start() - 60, 0) : found.end() + 60])


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_lets_a_sequence_through_to_a_pipe(name: str, files: dict[str, str], tavernkit: Tavernkit) -> None:
    outcome = tavernkit(*_arguments(COMMANDS[name], files, "pipe"))
    for text in (outcome.out, outcome.err):
        found = CONTROLS.search(text)
        assert found is None, repr(text[max(found.start() - 60, 0) : found.end() + 60])


@pytest.mark.parametrize("name", TEXT_COMMANDS)
def test_a_text_for_another_program_is_not_changed(name: str, files: dict[str, str], tavernkit: Tavernkit) -> None:
    assert ATTACKS[0] in tavernkit(*_arguments(TEXT_COMMANDS[name], files, "text")).out
