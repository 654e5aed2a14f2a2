"""What makes the prompt follow a keystroke: nothing is read twice, and the newest build wins."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from tavernkit.silly_tavern._world_info import engine
from tavernkit.studio import _build_inputs as build_inputs
from tavernkit.studio._app import Opened, open_studio
from tests.studio.conftest import Page


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often documents are read and books compiled."""
    counts: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        real = getattr(module, name)

        def counting(*arguments: Any, **keywords: Any) -> Any:
            counts[name] += 1
            return real(*arguments, **keywords)

        monkeypatch.setattr(module, name, counting)

    for name in ("_character", "_world", "_chat"):
        count(build_inputs, name)
    count(engine, "CompiledBooks")
    return counts


def test_an_edit_reads_the_changed_document_only(counted: Counter[str]) -> None:
    page = Page(open_studio(Opened()))
    page.post("/build")
    assert counted == {"_character": 1, "_world": 1, "_chat": 1, "CompiledBooks": 1}
    page.edit("turn-1", "/message", "Hello")
    page.edit("card-1", "/data/description", "Keeps bees.")
    assert counted == {"_character": 2, "_world": 1, "_chat": 1, "CompiledBooks": 1}
    page.edit("book-1", "/entries/0/content", "A lighthouse.")
    assert counted == {"_character": 2, "_world": 2, "_chat": 1, "CompiledBooks": 2}
    page.post("/undo")
    assert counted["_world"] == 2  # what was read before is still known
    assert counted["CompiledBooks"] == 2


def test_a_large_book_is_not_copied_by_an_edit() -> None:
    studio = open_studio(Opened())
    entries = {str(number): {"uid": number, "key": [f"k{number}"], "content": "x"} for number in range(2000)}
    studio.workspace.change("book-1", {"entries": entries}, "large")  # pyright: ignore[reportArgumentType]  # JSON
    before: Any = studio.workspace.document("book-1").data
    Page(studio).edit("book-1", "/entries/7/content", "y", build=False)
    after: Any = studio.workspace.document("book-1").data
    assert sum(after["entries"][key] is not before["entries"][key] for key in entries) == 1


async def test_the_newest_build_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    studio = open_studio(Opened())
    built: list[int] = []
    real = studio.prompts.make
    others_wait = threading.Event()

    def look(*arguments: Any, **keywords: Any) -> Any:
        built.append(1)
        assert others_wait.wait(60)
        return real(*arguments, **keywords)

    monkeypatch.setattr(studio.prompts, "make", look)
    builds = [asyncio.create_task(studio.prompts.build()) for _ in range(5)]
    await asyncio.sleep(0)
    others_wait.set()
    answers = await asyncio.gather(*builds)
    # The first is under way when the others come; of these only the last is made.
    assert [each["superseded"] for each in answers] == [False, True, True, True, False]
    assert len(built) == 2


def test_what_is_remembered_has_a_limit(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    first = page.post("/build")["plan"]
    for number in range(70):
        prompts = page.studio.prompts
        prompts.make(page.studio.workspace.state, number, prompts.find(page.post("/build")["plan"]).plan)
    assert page.get(f"/plans/{first}", 404)["error"]["code"] == "plan_gone"
    monkeypatch.setattr("tavernkit.studio._workspace.MAX_STEPS", 3)
    for number in range(6):
        page.edit("turn-1", "/message", str(number), build=False)
    steps = 0
    while page.post("/undo", build=False)["can_undo"]:
        steps += 1
    assert steps == 2
