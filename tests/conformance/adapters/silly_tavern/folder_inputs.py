"""A SillyTavern data folder, written as the vectors describe it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tavernkit.cards import Character, save
from tavernkit.silly_tavern._files.data_folder import DataFolder

AVATARS = ("ann.png", "bob.png", "mira.png", "zoe.png")
GROUP = {"id": "group", "disabled_members": [], "activation_strategy": 0, "generation_mode": 0}
RED_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
CHAT = "chat"


def merged(base: Any, changes: Any) -> Any:
    """Merge deeply: objects by key, everything else is replaced."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    return {**base, **{key: merged(base[key], value) if key in base else value for key, value in changes.items()}}


@contextmanager
def data_folder(given: Any, base: Any) -> Iterator[DataFolder]:
    """Write the folder of a case."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, given, base)
        yield DataFolder(folder, warn=lambda _message: None)


def write(folder: Path, given: Any, base: Any) -> None:
    write_json(folder / "settings.json", merged(base, given.get("settings", {})))
    for card in given.get("cards") or [given["card"]]:
        write_card(folder, card)
    for name, book in given.get("worlds", {}).items():
        write_json(folder / "worlds" / f"{name}.json", book)
    for name, preset in given.get("presets", {}).items():
        write_json(folder / "OpenAI Settings" / f"{name}.json", preset)
    for name in given.get("avatars", AVATARS):
        write_bytes(folder / "User Avatars" / name, RED_PIXEL)
    for url, text in given.get("files", {}).items():
        write_bytes(folder / url.removeprefix("/"), text.encode())
    for url in given.get("media_files", []):
        write_bytes(folder / url.removeprefix("/"), RED_PIXEL)
    lines = "\n".join(json.dumps(line) for line in given["chat_file"])
    if "group" in given:
        members = [f"{card['data']['name']}.png" for card in given["cards"]]
        group = {**GROUP, "members": members, "allow_self_responses": False, "chat_id": CHAT, **given["group"]}
        write_json(folder / "groups" / "group.json", group)
        write_bytes(folder / "group chats" / f"{CHAT}.jsonl", lines.encode())
    else:
        write_bytes(folder / "chats" / given["card"]["data"]["name"] / f"{CHAT}.jsonl", lines.encode())


def write_card(folder: Path, card: Any) -> None:
    path = folder / "characters" / f"{card['data']['name']}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    save(Character.from_card(card), path)


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, json.dumps(value).encode())


def write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
