"""Card files: loading and saving PNG cards, opening a 10 MB archive without reading its assets."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks import workloads
from tavernkit.cards import Asset, Bundle, Character, load, save, to_bytes

MEGABYTE = 1 << 20


def character() -> Character:
    """A card of about 40 KB with 100 lore entries."""
    world = workloads.lore(100)["book"]["entries"]
    entries = [
        {
            "keys": entry["key"],
            "content": entry["content"],
            "extensions": {},
            "enabled": True,
            "insertion_order": entry["order"],
            "use_regex": False,
        }
        for entry in world.values()
    ]
    data: dict[str, Any] = {
        "name": "Aria",
        "description": workloads.macros(),
        "first_mes": "Hello.",
        "extensions": {},
        "character_book": {"extensions": {}, "entries": entries},
    }
    return Character.from_card({"spec": "chara_card_v3", "spec_version": "3.0", "data": data})


@pytest.fixture(scope="module")
def card() -> Character:
    return character()


@pytest.fixture(scope="module")
def png(card: Character, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "aria.png"
    save(card, path)
    return path


@pytest.fixture(scope="module")
def charx(card: Character, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "aria.charx"
    assets = tuple(
        Asset.from_bytes(os.urandom(MEGABYTE // 2), type="emotion", name=f"face {number}", ext="png")
        for number in range(20)
    )
    save(Bundle(card=card, assets=assets), path)
    assert path.stat().st_size > 10 * MEGABYTE
    return path


def test_load_a_png_card(benchmark: Any, png: Path) -> None:
    bundle = benchmark(load, png)
    assert bundle.character.name == "Aria"


def test_save_a_png_card(benchmark: Any, png: Path, tmp_path: Path) -> None:
    bundle = load(png)
    benchmark(save, bundle, tmp_path / "copy.png")
    assert load(tmp_path / "copy.png").card == bundle.card


def test_load_a_charx_of_10_mb(benchmark: Any, charx: Path) -> None:
    bundle = benchmark(load, charx)
    assert len(bundle.assets) == 20


def test_read_one_asset_of_a_charx_of_10_mb(benchmark: Any, charx: Path) -> None:
    asset = load(charx).assets[7]
    assert len(benchmark(asset.read)) == MEGABYTE // 2


def test_load_a_json_card(benchmark: Any, card: Character) -> None:
    data = to_bytes(card, "json")
    assert benchmark(load, data).character.name == "Aria"


def test_write_a_charx_of_10_mb(benchmark: Any, charx: Path) -> None:
    bundle = load(charx)
    benchmark(lambda: save(bundle, io.BytesIO(), format="charx"))
