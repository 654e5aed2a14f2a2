"""Configuration files that the pages show can be used as they are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import tavernkit as tk
from tavernkit.cards import save
from tavernkit.cli.app import run
from tavernkit.server import ServerConfig

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", [*blocks("server.md", "toml"), *blocks("deployment.md", "toml")])
def test_settings_of_the_service_are_accepted(text: str) -> None:
    given = tomllib.loads(text)
    upstreams: dict[str, dict[str, Any]] = given.get("upstreams", {})
    routes = [route for upstream in upstreams.values() for route in upstream.get("route", ())]
    for name in (route["upstream"] for route in routes):  # upstreams that the page leaves to the reader
        upstreams.setdefault(name, {"dialect": "scripted"})
    config = ServerConfig.model_validate(given)
    assert set(upstreams) <= set(config.upstreams)


@pytest.mark.parametrize("text", blocks("guides/batch.md", "toml"))
def test_grids_can_be_loaded(text: str, tmp_path: Path) -> None:
    (tmp_path / "cards").mkdir()
    save(tk.Character(name="Aria"), tmp_path / "cards" / "aria.png")
    (tmp_path / "messages.jsonl").write_text('{"text": "Hello"}\n', encoding="utf-8")
    if not text.startswith("cards"):  # a part of a grid
        text = f'cards = "cards/*.png"\n{text}'
    (tmp_path / "grid.toml").write_text(text, encoding="utf-8")
    assert len(tk.Grid.load(tmp_path / "grid.toml")) in (1, 20)


def test_the_tests_of_a_card_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--files", "."]) == 0
    (tmp_path / "aria.tavern.yaml").write_text(blocks("guides/testing-cards.md", "yaml")[0], encoding="utf-8")
    assert run(["test"]) == 0


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_yaml_and_toml_can_be_read(page: Path) -> None:
    name = page.relative_to(DOCS).as_posix()
    assert all(tomllib.loads(text) for text in blocks(name, "toml"))
    assert all(yaml.safe_load(text) for text in blocks(name, "yaml"))
