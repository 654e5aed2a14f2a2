"""A RisuAI save that the service starts with: imported at each start, and nothing twice."""

from __future__ import annotations

import copy
import json
import zipfile
from pathlib import Path
from typing import Any

from tavernkit._values import JsonObject
from tavernkit.risu_ai import Save
from tavernkit.server import ServerConfig
from tavernkit.server.backups import export_all, import_save
from tavernkit.server.imports.found import Progress
from tavernkit.server.imports.served_folders import import_work
from tavernkit.server.imports.sources import save_work
from tests.server.conftest import Client

CHAT = {"name": "first", "id": "a", "message": [{"role": "user", "data": "Hello, Bel."}]}
DATABASE: dict[str, Any] = {
    "username": "Ann",
    "characters": [
        {"name": "Bel", "chaId": "1", "desc": "Bel keeps bees.", "firstMessage": "Hm?", "chats": [CHAT]},
        {"name": "Both", "chaId": "2", "type": "group", "characters": ["1"], "chats": []},
    ],
    "modules": [{"id": "m", "name": "Weather", "lorebook": []}],
    "botPresets": [{"name": "Same", "mainPrompt": "One."}, {"name": "Same", "mainPrompt": "Two."}],
    "personas": [{"id": "p", "name": "Ann", "personaPrompt": ""}],
}
KINDS = ("characters", "groups", "modules", "presets", "personas")


async def begin(client: Client, path: Path, database: Any) -> JsonObject:
    """Import as at the start of the service."""
    Save.from_json(copy.deepcopy(database)).save(path)
    owner = client.service.write_back.owner
    progress = Progress("job", owner, path.parent, save=path)
    await import_work(client.service.database, progress, save_work(path, progress.warn))
    return progress.result()


async def listed(client: Client) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    for kind in KINDS:
        data = (await client.get(f"/api/{kind}")).json()["data"]
        found += [(kind, each["id"], each["version"]) for each in data]
    return found


async def test_an_unchanged_save_adds_nothing(client: Client, tmp_path: Path) -> None:
    first = await begin(client, tmp_path / "save.bin", DATABASE)
    before = await listed(client)
    assert first["imported"] == {
        "character": 1,
        "group": 1,
        "module": 1,
        "preset": 2,
        "persona": 1,
        "session": 1,
        "settings": 1,
    }
    again = await begin(client, tmp_path / "save.bin", DATABASE)
    assert again == {"imported": {}, "warnings": []}
    assert await listed(client) == before


async def test_a_save_with_infinite_numbers_is_imported(client: Client, tmp_path: Path) -> None:
    database = copy.deepcopy(DATABASE)
    database["characters"][0] |= {"modification_date": float("inf"), "creation_date": float("nan")}
    await begin(client, tmp_path / "save.bin", database)
    assert "characters" in [kind for kind, _, _ in await listed(client)]


async def test_what_changes_in_a_save_becomes_a_new_version(client: Client, tmp_path: Path) -> None:
    await begin(client, tmp_path / "save.bin", DATABASE)
    before = await listed(client)
    changed = copy.deepcopy(DATABASE)
    changed["characters"][0]["desc"] = "Bel keeps owls."
    changed["botPresets"][1]["mainPrompt"] = "Three."
    result = await begin(client, tmp_path / "save.bin", changed)
    assert result == {"imported": {"character": 1, "preset": 1}, "warnings": []}
    after = await listed(client)
    assert [each[:2] for each in after] == [each[:2] for each in before]
    assert {each[1] for each in set(after) - set(before)} == {"bel", "same-2"}
    assert "owls" in (await client.get("/api/characters/bel")).text
    assert "Three." in (await client.get("/api/presets/same-2")).text
    session = (await client.get("/api/sessions")).json()["data"][0]
    assert session["character"] == "bel"


async def test_the_order_of_a_presets_keys_is_no_change(client: Client, tmp_path: Path) -> None:
    await begin(client, tmp_path / "save.bin", DATABASE)
    live = Save.load(tmp_path / "save.bin").settings.preset.to_json()
    database = copy.deepcopy(DATABASE)
    database["botPresets"] = [dict(reversed(live.items())), database["botPresets"][1]]
    assert await begin(client, tmp_path / "save.bin", database) == {"imported": {}, "warnings": []}
    database["botPresetsId"] = 1  # the other one is now read from its stored copy
    result = await begin(client, tmp_path / "save.bin", database)
    before = {each["id"]: each["version"] for each in (await client.get("/api/presets")).json()["data"]}
    assert (before["same"], result["warnings"]) == (1, [])


async def test_what_was_changed_in_the_service_stays(client: Client, tmp_path: Path) -> None:
    await begin(client, tmp_path / "save.bin", DATABASE)
    card = {
        "file": ("bel.json", json.dumps({"spec": "chara_card_v2", "data": {"name": "Bel", "description": "Cats."}}))
    }
    assert (await client.put("/api/characters/bel", files=card)).is_success
    unchanged = await begin(client, tmp_path / "save.bin", DATABASE)
    assert unchanged == {"imported": {}, "warnings": []}
    changed = copy.deepcopy(DATABASE)
    changed["characters"][0]["desc"] = "Bel keeps owls."
    result = await begin(client, tmp_path / "save.bin", changed)
    assert result["imported"] == {}
    assert result["warnings"] == ["character 'Bel' has changed in the save and here: it stays as it is here"]
    assert "Cats." in (await client.get("/api/characters/bel")).text


async def test_what_was_removed_from_the_service_comes_back(client: Client, tmp_path: Path) -> None:
    await begin(client, tmp_path / "save.bin", DATABASE)
    for path in ("groups/both", "modules/weather"):
        assert (await client.delete(f"/api/{path}")).status_code == 204
    result = await begin(client, tmp_path / "save.bin", DATABASE)
    assert result["imported"] == {"group": 1, "module": 1}


async def test_presets_of_another_save_with_the_same_name_are_others(client: Client, tmp_path: Path) -> None:
    await begin(client, tmp_path / "save.bin", DATABASE)
    other = {**DATABASE, "characters": [], "modules": []}
    result = await begin(client, tmp_path / "other.bin", other)
    assert result["imported"] == {"preset": 2, "persona": 1}


def test_an_export_has_the_items_of_a_save_and_no_records_of_its_import(settings: Any, tmp_path: Path) -> None:
    Save.from_json(copy.deepcopy(DATABASE)).save(tmp_path / "save.bin")
    config = ServerConfig.model_validate({**settings, "example": False})
    assert import_save(config, tmp_path / "save.bin")["warnings"] == []
    counts = export_all(config, tmp_path / "all.zip")
    assert counts == {"character": 1, "group": 1, "module": 1, "preset": 2, "persona": 1, "session": 1, "settings": 1}
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert {name.split("/")[0] for name in archive.namelist() if name.endswith(".txt")} == set()
