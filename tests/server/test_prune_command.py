"""``tavernkit server prune``: what it removes, counts and says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import insert

from tavernkit.cli.app import run as tavernkit
from tavernkit.server import ServerConfig
from tavernkit.server.accounts import Use, add_uses
from tavernkit.server.imports import jobs
from tavernkit.server.retention import DAY
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.tables import Job, Turn
from tests.server.databases import POSTGRES


@pytest.fixture
def options(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options that name a database with jobs and turns of every age from 0 to 9 days."""
    now = 1_700_000_000.0
    monkeypatch.setattr("tavernkit.server.retention.time", SimpleNamespace(time=lambda: now))

    def row(number: int) -> dict[str, object]:
        then = now - number * DAY - 1
        times = {"created_at": then, "updated_at": then, "lease_until": then}
        return {"id": f"r{number}", "owner": "local", "kind": "normal", "status": jobs.DONE, **times}

    async def fill() -> None:
        database = Database(ServerConfig.model_validate(settings).database_url)
        await database.migrate()
        async with database.write() as connection:
            turn: dict[str, object] = {"fingerprint": "f", "response": {}}
            await connection.execute(insert(Turn), [{**row(number), **turn} for number in range(10)])
            job: dict[str, object] = {"total": 0, "done": 0, "result": {}}
            await connection.execute(insert(Job), [{**row(number), **job} for number in range(10)])
            for day in ("2023-11-01", "2023-11-14"):  # the second is that day
                await add_uses(connection, "local", day, [Use(upstream="u", model="m")])
        await database.close()

    asyncio.run(fill())
    return ["--data", str(settings["data"]), *(["--db", str(settings["db"])] if POSTGRES else [])]


def pruned(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = tavernkit(["server", "prune", *arguments])
    printed = capsys.readouterr()
    return code, printed.out or printed.err


def test_what_is_old_is_counted_then_removed_then_gone(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    days = ["--turn-days", "7", "--job-days", "4.5", "--usage-days", "2"]
    would = (
        "3 turns would be removed: older than 7 days\n"
        "5 jobs would be removed: older than 4.5 days\n"
        "1 row of usage would be removed: older than 2 days\n"
    )
    assert pruned(capsys, *options, *days, "--dry-run") == (0, would)
    assert pruned(capsys, *options, *days, "--dry-run") == (0, would)
    assert pruned(capsys, *options, *days) == (0, would.replace("would be removed", "removed"))
    code, told = pruned(capsys, *options, *days, "--json")
    assert (code, json.loads(told)) == (
        0,
        {
            "schema_version": 1,
            "dry_run": False,
            "days": {"turns": 7.0, "jobs": 4.5, "usage": 2.0},
            "removed": {"turns": 0, "jobs": 0, "usage": 0},
        },
    )


def test_what_is_kept_for_ever_stays(options: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text("turn_days = 0\njob_days = 9\nusage_days = 0")
    said = pruned(capsys, *options, "--config", str(file))
    assert said == (0, "turns are kept forever\n1 job removed: older than 9 days\nrows of usage are kept forever\n")
    code, told = pruned(capsys, *options, "--config", str(file), "--json", "--dry-run")
    assert (code, json.loads(told)["removed"]) == (0, {"jobs": 0})


def test_a_database_is_never_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "nowhere"
    code, said = pruned(capsys, "--data", str(folder))
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("error: there is no database ")
    assert not folder.exists()
    (tmp_path / "tavernkit.db").touch()
    code, said = pruned(capsys, "--data", str(tmp_path))
    assert (code, said.split(":")[1]) == (2, " the database has no tables of this version of TavernKit")


@pytest.mark.parametrize("wrong", [["--turn-days", "-1"], ["--turn-days", "soon"], ["--job-days", "1e9"]])
def test_days_that_are_none_are_refused(
    wrong: list[str], options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = pruned(capsys, *options, *wrong)
    assert (code, said.count("\n"), said.startswith("error: ")) == (2, 1, True)
