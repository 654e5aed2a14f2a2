"""A card whose every string is an escape sequence reaches no terminal as one, by any command."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from typer.main import get_command

from tavernkit._values import Json
from tavernkit.cards import load, save
from tavernkit.cards._png import placeholder_png
from tavernkit.cli.app import make_app, run
from tests.cli.terminal import BOOK, CARD, CHAT, PRESET, Tavernkit, Terminal, in_terminal

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
    "build_curl": ["build", "{card}", "-m", "{attack}", "--curl"],
    "build_risu_ai": ["build", "{card}", "--platform", "risu_ai", "-m", "{attack}", "--explain"],
    "explain": ["explain", "{card}", "--book", "{book}", "--chat", "{chat}", "-m", "{attack}"],
    "explain_tree": ["explain", "{card}", "--book", "{book}", "--tree"],
    "explain_lore": ["explain", "{card}", "--book", "{book}", "--book", "{other}", "-m", "hi", "--lore"],
    "explain_json": ["explain", "{card}", "--book", "{book}", "--json"],
    "card_show": ["card", "show", "{card}", "--full"],
    "card_show_json": ["card", "show", "{card}", "--json"],
    "card_convert": ["card", "convert", "{card}", "{folder}/out.json", "--force"],
    "card_extract": ["card", "extract", "{card}", "{folder}/parts"],
    "card_embed": ["card", "embed", "{card}", "{picture}", "{folder}/parts.png"],
    "lint": ["lint", "{card}", "{book}", "{preset}"],
    "lint_json": ["lint", "{card}", "{book}", "--json"],
    "lore_scan": ["lore", "scan", "{book}", "--text", "{attack}"],
    "lore_test": ["lore", "test", "{book}", "--text", "hi", "--expect", "{attack}"],
    "lore_coverage": ["lore", "coverage", "{book}", "--chat", "{chat}"],
    "lore_index": ["lore", "index", "{book}", "--output", "{folder}/book.index"],
    "lore_convert": ["lore", "convert", "{book}", "{folder}/out.json", "--to", "risu_ai", "--force"],
    "preset_convert": ["preset", "convert", "{preset}", "{folder}/out.json", "--to", "risu_ai", "--force"],
    "tokens": ["tokens", "{card}", "--show"],
    "tokenizers": ["tokenizers", "audit", "{attack}"],
    "tokenizers_compare": ["tokenizers", "compare", "{attack}"],
    "tokenizers_check": ["tokenizers", "check", "{attack}"],
    "tokenizers_fetch": ["tokenizers", "fetch", "{attack}"],
    "tokens_text": ["tokens", "--text", "{attack}", "--show"],
    "macros_list": ["macros", "list", "{attack}"],
    "cbs_list": ["cbs", "list", "{attack}"],
    "build_from_data_folder": ["build", "--from-sillytavern", "{installation}", "--character", "Aria", "-m", "hi"],
    "cache": ["cache", "{card}", "--book", "{book}", "--chat", "{chat}"],
    "cache_json": ["cache", "{card}", "--book", "{book}", "--chat", "{chat}", "--json"],
    "test": ["test", "{cases}"],
    "test_json": ["test", "{cases}", "--json"],
    "test_record": ["test", "--record", "{folder}/out.json", "{card}", "{book}", "--message", "{attack}"],
    "diff": ["diff", "{card}", "{plain_card}", "--message", "{attack}"],
    "diff_books": ["diff", "{plain_book}", "{book}", "--card", "{card}", "--message", "hi"],
    "diff_presets": ["diff", "{plain_preset}", "{preset}"],
    "diff_text": ["diff", "--text", "{card}"],
    "doctor": ["doctor", "{installation}"],
    "doctor_json": ["doctor", "{installation}", "--json"],
    "batch": ["batch", "{grid}", "--out", "{folder}/parts"],
    "batch_dry_run": ["batch", "{grid}", "--dry-run"],
    "batch_init": ["batch", "--init", "{folder}/out.json"],
    "eval": ["eval", "--list", "--scenario", "{attack}"],
    "demo": ["demo"],
    "server_import": ["server", "import", "{installation}", "--data", "{folder}/parts"],
    "server_import_card": ["server", "import", "{card}", "--data", "{folder}/parts", "--json"],
    "server_keys_create": ["server", "keys", "--create", "{attack}", "--data", "{folder}/parts"],
    "server_keys": ["server", "keys", "--data", "{database}"],
    "server_keys_json": ["server", "keys", "--data", "{database}", "--json"],
    "server_keys_revoke": ["server", "keys", "--revoke", "{attack}", "--data", "{database}"],
    "server_usage": ["server", "usage", "--data", "{database}"],
    "server_usage_csv": ["server", "usage", "--data", "{database}", "--csv"],
    "server_export": ["server", "export", "{folder}/out.json", "--data", "{database}"],
    "server_export_nothing": ["server", "export", "{folder}/out.json", "--session", "{attack}", "--data", "{database}"],
    "server_backup": ["server", "backup", "{folder}/out.json", "--data", "{database}"],
    "server_restore": ["server", "restore", "{card}", "--data", "{folder}/parts"],
    "server_prune": ["server", "prune", "--data", "{database}"],
    "server_migrate": ["server", "migrate", "--data", "{database}"],
    "chat": ["chat", "{card}", "--model", "scripted", "--say", "{attack}", "--save", "{folder}/chat.jsonl"],
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

USAGE_ERRORS = {
    "tokenizers_check",
    "tokenizers_compare",
    "tokenizers_fetch",
    "missing_file",
    "unknown_option",
    "server_keys_revoke",
    "server_export_nothing",
    "server_restore",
}
COMPLAINTS = {
    *("lint", "lint_json", "lore_test", "lore_convert", "preset_convert", "test", "test_json"),
    *("diff", "diff_books", "diff_presets", "doctor", "doctor_json"),
}

OWN_PROCESS = {"build", "chat"}
"""Commands that are tried in a process of their own: it takes longer. ``chat`` reads what is typed."""

SERVERS = {
    "serve": ["serve", "--port", "0", "--from-sillytavern", "{installation}", "--data", "{folder}/parts"],
    "studio": ["studio", "{card}", "--book", "{book}", "--preset", "{preset}", "--chat", "{chat}", "--no-open"],
}
"""Commands that go on until they are interrupted."""


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


CASES = """
defaults: {card: card.json, books: [world.json], user: "Ann\\e]0;owned\\a"}
tests:
  - name: "a name\\e[2J"
    message: "hi\\e]0;owned\\a"
    expect:
      fires: ["no entry\\e[2J"]
      contains: ["no text\\e[31m", {text: "hi", role: system}]
      macros: {"{{char}}\\e[2J": "nobody"}
"""
GRID = """
cards = ["card.json"]
books = ["world.json"]
personas = ["Ann\\u001b]0;owned\\u0007"]
messages = ["hi\\u001b[2J"]
"""


def _installation(folder: Path) -> str:
    """A data folder of SillyTavern with the poisoned files in it, and one that cannot be read."""
    data = folder / "data" / "default-user"
    for name in ("characters", "worlds", "chats/Aria", "OpenAI Settings", "groups"):
        (data / name).mkdir(parents=True)
    shutil.copy(folder / "card.json", data / "characters" / "Aria.json")
    save(load(folder / "card.json", warn=lambda _: None), data / "characters" / "Aria.png")
    shutil.copy(folder / "world.json", data / "worlds" / f"World{ATTACKS[0]}.json")
    shutil.copy(folder / "preset.json", data / "OpenAI Settings" / f"Preset{ATTACKS[1]}.json")
    shutil.copy(folder / "chat.jsonl", data / "chats" / "Aria" / f"Chat{ATTACKS[0]}.jsonl")
    (data / "groups" / f"Group{ATTACKS[2]}.json").write_text("{")
    settings = {"username": ATTACKS[0], "power_user": {"personas": {f"{ATTACKS[1]}.png": ATTACKS[0]}}}
    (data / "settings.json").write_text(json.dumps(settings))
    return str(data)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("poisoned")
    (folder / "cases.tavern.yaml").write_text(CASES)
    (folder / "grid.toml").write_text(GRID)
    made = {
        "folder": str(folder),
        "cases": str(folder / "cases.tavern.yaml"),
        "grid": str(folder / "grid.toml"),
        "database": str(folder / "database"),
        "picture": str(folder / "picture.png"),
        "plain_card": CARD,
        "plain_book": BOOK,
        "plain_preset": PRESET,
        "card": _poisoned_card(folder / "card.json"),
        "book": _poison(BOOK, folder / "world.json", name="World"),
        "other": _poison(BOOK, folder / "other.json", name="Other"),
        "preset": _poison(PRESET, folder / "preset.json"),
        "chat": _poison(CHAT, folder / "chat.jsonl"),
        "attack": ATTACKS[0],
    }
    Path(made["picture"]).write_bytes(placeholder_png(8, 8))
    made["installation"] = _installation(folder)
    assert run(["server", "import", made["card"], "--data", made["database"]]) == 0
    assert run(["server", "keys", "--create", ATTACKS[1], "--data", made["database"]]) == 0
    return made


def _commands(command: Any, *above: str) -> Iterator[tuple[str, ...]]:
    if not hasattr(command, "commands"):
        yield above
        return
    for name, each in command.commands.items():
        yield from _commands(each, *above, name)


def test_every_command_is_here() -> None:
    tried = {tuple(arguments[:length]) for arguments in {**COMMANDS, **TEXT_COMMANDS}.values() for length in (1, 2)}
    assert {" ".join(each) for each in _commands(get_command(make_app())) if each not in tried} == set(SERVERS)


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
    arguments = _arguments({**COMMANDS, **TEXT_COMMANDS}[name], files, f"{name} terminal")
    outcome = Terminal(*arguments).finish() if name in OWN_PROCESS else in_terminal(*arguments)
    assert "Traceback" not in outcome.out
    assert outcome.code == (2 if name in USAGE_ERRORS else 1 if name in COMPLAINTS else 0)
    found = CONTROLS.search(STYLE.sub("", outcome.out))
    assert found is None, repr(outcome.out[max(found.start() - 60, 0) : found.end() + 60])


@pytest.mark.parametrize("name", SERVERS)
def test_no_server_lets_a_sequence_through_to_a_terminal(name: str, files: dict[str, str]) -> None:
    settings = {"TAVERNKIT_SERVER_LOG_FORMAT": "text", "TAVERNKIT_SERVER_LOG_LEVEL": "debug"}
    server = Terminal(*_arguments(SERVERS[name], files, name), environment=settings)
    server.wait_for("http://127.0.0.1:")
    address = re.search(r"http://127\.0\.0\.1:\d+", server.seen)
    assert address is not None
    said = {"model": "aria", "messages": [{"role": "user", "content": ATTACKS[0]}], "content": ATTACKS[0]}
    for path in ("v1/chat/completions", f"v1/{ATTACKS[0]}", "api/sessions"):
        httpx.post(f"{address[0]}/{quote(path)}", json=said, timeout=60)
    server.interrupt()
    outcome = server.finish()
    assert "Traceback" not in outcome.out
    found = CONTROLS.search(STYLE.sub("", outcome.out))
    assert found is None, repr(outcome.out[max(found.start() - 60, 0) : found.end() + 60])


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_lets_a_sequence_through_to_a_pipe(name: str, files: dict[str, str], tavernkit: Tavernkit) -> None:
    outcome = tavernkit(*_arguments(COMMANDS[name], files, f"{name} pipe"))
    for text in (outcome.out, outcome.err):
        found = CONTROLS.search(text)
        assert found is None, repr(text[max(found.start() - 60, 0) : found.end() + 60])


@pytest.mark.parametrize("name", TEXT_COMMANDS)
def test_a_text_for_another_program_is_not_changed(name: str, files: dict[str, str], tavernkit: Tavernkit) -> None:
    assert ATTACKS[0] in tavernkit(*_arguments(TEXT_COMMANDS[name], files, "text")).out
