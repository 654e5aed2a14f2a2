"""A SillyTavern folder in Studio, and the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tavernkit.silly_tavern import DataFolder
from tavernkit.studio._app import open_folder
from tavernkit.studio._shelf import OpenRequest
from tests.silly_tavern.generated_folder import generate
from tests.studio.conftest import Page
from tests.studio.test_talk import turn


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("installation"))


@pytest.mark.parametrize("index", [0, 3, 11, 25])
def test_a_chat_of_the_folder_builds_as_the_folder_does(data: Path, index: int) -> None:
    folder = DataFolder(data, warn=lambda _: None)
    character = folder.characters()[index]
    chats = folder.chats(character)
    chat = chats[0] if chats else None
    expected = folder.builder(character, chat).build(message="The lamp?", seed=1, warn=None, on_overflow="return")
    page = Page(open_folder(data, OpenRequest(character=character, chat=chat)))
    page.edit("turn-1", "/message", "The lamp?", build=False)
    build = page.post("/build")
    assert build["error"] is None
    texts = [message.content for message in expected.messages]
    assert [message["content"] for message in build["messages"]] == texts


def test_a_group_of_the_folder(data: Path) -> None:
    group = DataFolder(data, warn=lambda _: None).groups()[0]
    page = Page(open_folder(data, OpenRequest(group=group)))
    told = page.get("/workspace")
    cards = [each for each in told["documents"] if each["kind"] == "card"]
    assert len(cards) > 1
    assert page.post("/build")["error"] is None
    assert len(page.get("/talk")["group"]) == len(cards)


def test_another_character_is_opened_on_the_page(data: Path) -> None:
    page = Page(open_folder(data, OpenRequest()))
    choices = page.get("/folder")
    assert page.get("/workspace")["folder"]
    name = choices["characters"][5]
    page.edit("card-1", "/data/description", "Unsaved.", build=False)
    assert page.post("/open", 409, character=name)["error"]["code"] == "unsaved"
    told = page.post("/open", character=name, discard=True)
    assert next(each for each in told["documents"] if each["kind"] == "card")["file"] == name
    assert not told["can_undo"]
    assert turn(page, text="Hello")[-1][0] == "done"
    assert page.post("/open", 422, character="../../secret", discard=True)["error"]["message"]
    missing = page.post("/open", 404, character=name, preset="../settings", discard=True)
    assert missing["error"]["code"] == "preset_not_found"


def test_saving_a_card_of_the_folder(data: Path) -> None:
    page = Page(open_folder(data, OpenRequest()))
    document = page.get("/documents/card-1")
    page.edit("card-1", f"{document['home']}/description", "Keeps bees.", build=False)
    page.post("/documents/card-1/save")
    assert DataFolder(data).character(document["file"]).description == "Keeps bees."


def test_the_example_has_no_folder(page: Page) -> None:
    assert page.get("/folder", 404)["error"]["code"] == "no_folder"


def test_the_command_prints_an_address_that_works(folder: Path) -> None:
    command = [sys.executable, "-m", "tavernkit", "studio", str(folder / "aria.json"), "--no-open", "--json"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            address, _, token = url.partition("/#token=")
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(f"{address}/") as answer:
                assert answer.status == 200
            asked = urllib.request.Request(
                f"{address}/api/studio/workspace", headers={"Authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(asked) as answer:
                assert json.load(answer)["documents"][0]["file"] == "aria.json"
        finally:
            process.terminate()
            process.wait(10)
