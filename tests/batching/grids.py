"""Small grids on disk, and the records that runs leave behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tavernkit.examples import example_path

MESSAGES = ("Who are you?", "Who lit the lamp?", "{{roll::1d20}} steps to the lamp")


def write_grid(folder: Path, *, cards: int = 2, seeds: int = 2, text: str = "", name: str = "grid.toml") -> Path:
    """Write a grid of numbered cards, three messages and some seeds."""
    (folder / "cards").mkdir(parents=True, exist_ok=True)
    for number in range(cards):
        write_card(folder / "cards" / f"card{number}.json", f"Aria {number}")
    (folder / "messages.txt").write_text("\n".join(MESSAGES), encoding="utf-8")
    path = folder / name
    path.write_text(
        'cards = "cards/*.json"\nmessages = { file = "messages.txt" }\n'
        f"seeds = {{ start = 1, count = {seeds} }}\n{text}",
        encoding="utf-8",
    )
    return path


def write_card(path: Path, name: str) -> None:
    card: dict[str, Any] = json.loads(example_path("aria.json").read_bytes())
    card["data"]["name"] = name
    path.write_text(json.dumps(card), encoding="utf-8")


def copy_example(folder: Path, *names: str) -> None:
    for name in names:
        shutil.copy(example_path(name), folder / name)


def records(folder: Path) -> list[dict[str, Any]]:
    """All records of a folder."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("part*.jsonl")):
        found += [json.loads(line) for line in path.read_bytes().splitlines()]
    return found


def by_key(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a folder by key; fails if a key is there twice."""
    found = records(folder)
    keyed = {record["key"]: record for record in found}
    assert len(keyed) == len(found)
    return keyed
