from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tavernkit.examples import example_path
from tavernkit.studio import Studio, create_app
from tavernkit.studio._app import Opened, open_studio

TOKEN = "the-token"
BASE = "http://127.0.0.1:8000"


class Page:
    """Calls the API as the page does."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.app = create_app(studio, token=TOKEN)
        self.client = TestClient(self.app, base_url=BASE, headers={"authorization": f"Bearer {TOKEN}"})

    def get(self, path: str, status: int = 200) -> Any:
        answer = self.client.get(f"/api/studio{path}")
        assert answer.status_code == status, answer.text
        return answer.json()

    def post(self, path: str, status: int = 200, /, **body: Any) -> Any:
        answer = self.client.post(f"/api/studio{path}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def edit(self, document: str, path: str, value: Any, op: str = "replace", **more: Any) -> Any:
        return self.post("/edit", edits=[{"document": document, "op": op, "path": path, "value": value}], **more)


@pytest.fixture
def page() -> Page:
    """The shipped example."""
    return Page(open_studio(Opened()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped example as files of the user's."""
    for name in ("aria.json", "tidewatch.json", "preset.json", "chat.jsonl"):
        shutil.copy(example_path(name), tmp_path / name)
    return tmp_path


@pytest.fixture
def open_files(folder: Path) -> Callable[..., Page]:
    def open_page(**more: Any) -> Page:
        given: dict[str, Any] = {
            "card": folder / "aria.json",
            "books": [folder / "tidewatch.json"],
            "preset": folder / "preset.json",
            "chat": folder / "chat.jsonl",
        }
        return Page(open_studio(Opened(**given | more)))

    return open_page
