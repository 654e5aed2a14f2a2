"""Both programs' imports and exports of cards, as users call them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tavernkit
from tavernkit import risu_ai, silly_tavern
from tavernkit.errors import ConfigError, FileFormatError, InvalidCardError
from tests.cards.files import FILES

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_sillytavern_stores_a_picture_that_it_exports_as_json(tmp_path: Path) -> None:
    stored = silly_tavern.import_card(FILES / "v2.json", taken={"Vesna"}, now=NOW)
    assert stored.file_name == "Vesna1"
    path = tmp_path / f"{stored.file_name}.png"
    path.write_bytes(stored.png)
    exported = silly_tavern.export_card(path)
    assert exported["name"] == "Vesna"
    assert exported["create_date"] == "2026-01-02T03:04:05.000Z"
    again = silly_tavern.import_card(json.dumps(exported).encode(), file_type="JSON", now=NOW)
    assert again.card["data"] == stored.card["data"]


def test_risuai_keeps_a_character_and_its_assets() -> None:
    imported = risu_ai.import_card(FILES / "c_full.charx")
    assert imported.assets
    character = risu_ai.RisuCharacter.from_json(imported.character)
    file = risu_ai.export_charx(character, imported.assets.__getitem__, now=NOW)
    again = risu_ai.import_card(file, file_type="charx")
    assert again.assets == imported.assets
    assert again.character["name"] == imported.character["name"] == tavernkit.load(file).character.name


@pytest.mark.parametrize("call", [silly_tavern.import_card, risu_ai.import_card])
def test_what_cannot_be_imported_says_why(call: Callable[..., object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="file_type is missing"):
        call(b"{}")
    with pytest.raises(ConfigError, match="there"):
        call(tmp_path / "none.png")
    with pytest.raises(InvalidCardError):
        call(b"{}", file_type="json")
    with pytest.raises(InvalidCardError):
        call(b"{}", file_type="docx")
    with pytest.raises(FileFormatError):
        call(b"\x89PNG\r\n\x1a\n\x00", file_type="png")
