"""Documents: edits, undo, and the way to the disk."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tavernkit.cards import Character, load, save
from tavernkit.cards._png import placeholder_png
from tavernkit.studio._app import Opened, open_studio, open_workspace
from tavernkit.studio._changes import Edit, apply_edit, edits_between
from tavernkit.studio.errors import StudioError
from tests.studio.conftest import Page

OpenFiles = Callable[..., Page]


def test_undo_and_redo_go_over_all_documents(page: Page) -> None:
    before = page.get("/workspace")["documents"]
    page.edit("card-1", "/data/description", "One", build=False)
    page.edit("book-1", "/entries/0/content", "Two", build=False)
    page.post("/activate", document="book-1", active=False, build=False)
    page.post("/documents", kind="book", name="Harbour", build=False)
    after = page.get("/workspace")
    assert len(after["documents"]) == len(before) + 1
    labels = [page.post("/undo", build=False)["redo"] for _ in range(4)]
    assert labels == ["open Harbour", "switch tidewatch", "tidewatch: content", "Aria: description"]
    assert [each["data"] for each in page.get("/workspace")["documents"]] == [each["data"] for each in before]
    for _ in range(4):
        page.post("/redo", build=False)
    again = page.get("/workspace")
    assert [each["data"] for each in again["documents"]] == [each["data"] for each in after["documents"]]
    assert again["active"] == after["active"]


def test_typing_in_a_field_is_one_step(page: Page) -> None:
    for text in ("a", "ab", "abc"):
        page.edit("turn-1", "/message", text, group="turn-1/message", build=False)
    page.post("/undo", build=False)
    assert not page.get("/workspace")["can_undo"]


def test_prompts_can_be_moved_and_switched(page: Page) -> None:
    page.post(
        "/edit",
        edits=[
            {
                "document": "preset-1",
                "op": "move",
                "from": "/prompt_order/0/order/0",
                "path": "/prompt_order/0/order/2",
            },
            {"document": "preset-1", "op": "replace", "path": "/prompt_order/0/order/0/enabled", "value": False},
        ],
    )
    order = page.get("/documents/preset-1")["data"]["prompt_order"][0]["order"]
    assert [each["identifier"] for each in order[:3]] == ["worldInfoBefore", "personaDescription", "main"]
    assert order[0]["enabled"] is False


def test_edits_are_made_all_or_none(page: Page) -> None:
    before = page.get("/documents/card-1")
    good = {"document": "card-1", "op": "replace", "path": "/data/name", "value": "Bob"}
    for bad in (
        {"document": "card-1", "op": "replace", "path": "/data/nothing", "value": 1},
        {"document": "card-1", "op": "remove", "path": "/data/alternate_greetings/99"},
        {"document": "card-1", "op": "add", "path": "/data/tags/99", "value": 1},
        {"document": "card-1", "op": "add", "path": "/data/name/inside", "value": 1},
        {"document": "card-1", "op": "move", "from": "/data", "path": "/data/inside"},
        {"document": "card-1", "op": "replace", "path": "no pointer", "value": 1},
    ):
        assert page.post("/edit", 422, edits=[good, bad])["error"]["code"] == "bad_edit"
    missing = page.post("/edit", 404, edits=[good, {**good, "document": "card-9"}])
    assert missing["error"]["code"] == "document_not_found"
    assert page.get("/documents/card-1") == before


def test_true_is_not_one_and_the_order_of_keys_counts(page: Page) -> None:
    page.edit("preset-1", "/prompt_order/0/order/0/enabled", 1, build=False)
    edited = page.edit("preset-1", "/prompt_order/0/order/0/enabled", True, build=False)
    assert edited["applied"][0]["value"] is True
    assert edited["documents"][0]["saved"] is True
    again = page.edit("preset-1", "/prompt_order/0/order/0/enabled", True, build=False)
    assert again["applied"] == []
    assert again["documents"] == []
    assert [edit.op for edit in edits_between("x", {"a": 1, "b": 2}, {"b": 2, "a": 1})] == ["replace"]


def test_the_difference_of_a_long_chat_shows_the_lines_around_each_change(open_files: OpenFiles, folder: Path) -> None:
    lines = [{"name": "Ann", "is_user": True, "mes": f"Line {number}."} for number in range(600)]
    header = (folder / "chat.jsonl").read_text("utf-8").splitlines()[0]
    (folder / "chat.jsonl").write_text("\n".join([header, *map(json.dumps, lines)]), "utf-8")
    page = open_files()
    page.edit("chat-1", "/messages/10/mes", "Another line.", build=False)
    page.edit("chat-1", "/messages/-", {"name": "Aria", "mes": "The last line."}, op="add", build=False)
    shown = page.get("/documents/chat-1/difference")["unified"]
    assert [line for line in shown if line.startswith("@@")] == ["@@ /messages/10 @@", "@@ /messages/600 @@"]
    assert [line for line in shown if line[0] in "-+"][:2] == ['-  "mes": "Line 10."', '+  "mes": "Another line."']
    assert '+  "mes": "The last line."' in shown
    # A difference that is longer than what is shown says so.
    page.edit("chat-1", "/messages", [{**line, "mes": "x"} for line in lines], build=False)
    shown = page.get("/documents/chat-1/difference")["unified"]
    assert len(shown) == 2001
    assert shown[-1].endswith("more lines @@")


def test_values_must_not_be_nested_too_deeply(page: Page) -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    assert page.post("/edit", 422, edits=[{"document": "card-1", "op": "add", "path": "/x", "value": deep}])


def test_saving_writes_the_file_and_keeps_the_old_one(open_files: OpenFiles, folder: Path) -> None:
    page = open_files()
    path = folder / "aria.json"
    before = path.read_bytes()
    page.edit("card-1", "/data/description", "Keeps bees.", build=False)
    assert path.read_bytes() == before
    difference = page.get("/documents/card-1/difference")
    assert [change["pointer"] for change in difference["changes"]] == ["/data/description"]
    assert "+Keeps bees." in difference["unified"]
    saved = page.post("/documents/card-1/save")
    assert saved["document"]["saved"]
    assert saved["file"] == "aria.json"
    assert (folder / saved["backup"]).read_bytes() == before
    # Nothing else changes: not even the layout of the file.
    was, now = before.decode().splitlines(), path.read_text("utf-8").splitlines()
    assert len([line for line in now if line not in was]) == 1
    assert not [each for each in folder.iterdir() if each.name.endswith(".part")]


@pytest.mark.parametrize("document", ["card-1", "book-1", "preset-1", "chat-1"])
def test_a_document_is_written_as_it_was_read(open_files: OpenFiles, folder: Path, document: str) -> None:
    page = open_files()
    told = page.get(f"/documents/{document}")
    before = (folder / told["file"]).read_text("utf-8")
    written = page.client.get(f"/api/studio/documents/{document}/download").text
    if document == "chat-1":  # SillyTavern writes chats without spaces, and so do we
        assert [*map(json.loads, written.splitlines())] == [*map(json.loads, before.splitlines())]
    else:
        assert written == before
    assert not page.get(f"/documents/{document}/difference")["changed"]


def test_undo_after_saving_is_an_unsaved_change(open_files: OpenFiles) -> None:
    page = open_files()
    page.edit("card-1", "/data/description", "Keeps bees.", build=False)
    page.post("/documents/card-1/save")
    undone = page.post("/undo", build=False)
    assert undone["documents"][0]["saved"] is False
    assert page.post("/redo", build=False)["documents"][0]["saved"] is True


def test_saving_refuses_a_file_that_another_program_changed(open_files: OpenFiles, folder: Path) -> None:
    page = open_files()
    path = folder / "tidewatch.json"
    page.edit("book-1", "/entries/0/content", "Mine", build=False)
    theirs = json.loads(path.read_text("utf-8"))
    theirs["entries"]["1"]["content"] = "Theirs"
    path.write_text(json.dumps(theirs))
    assert page.get("/documents/book-1/difference")["conflict"]
    assert page.post("/documents/book-1/save", 409)["error"]["code"] == "changed_on_disk"
    assert "Theirs" in path.read_text("utf-8")
    page.post("/documents/book-1/reload")
    assert page.get("/documents/book-1")["data"]["entries"]["1"]["content"] == "Theirs"
    assert page.get("/documents/book-1")["saved"]
    page.post("/undo", build=False)
    assert page.get("/documents/book-1")["data"]["entries"]["0"]["content"] == "Mine"
    saved = page.post("/documents/book-1/save", overwrite=True)
    assert "Theirs" in (folder / saved["backup"]).read_text("utf-8")
    assert "Mine" in path.read_text("utf-8")


def test_a_png_stays_a_png_with_its_picture(open_files: OpenFiles, folder: Path) -> None:
    path = folder / "aria.png"
    bundle = load(folder / "aria.json")
    save(bundle, path)
    picture = _chunks(path.read_bytes())
    page = open_files(card=path)
    assert page.get("/documents/card-1")["format"] == "png"
    page.edit("card-1", "/data/name", "Ariadne", build=False)
    page.post("/documents/card-1/save")
    assert load(path).character.name == "Ariadne"
    assert _chunks(path.read_bytes()) == picture
    assert load(path).character.description == bundle.character.description


def test_copies_of_fields_beside_the_data_follow(open_files: OpenFiles, folder: Path) -> None:
    """SillyTavern writes some fields of a V2 card twice."""
    path = folder / "twice.json"
    data = {"name": "Ann", "description": "Old", "first_mes": "", "extensions": {}}
    path.write_text(
        json.dumps({"spec": "chara_card_v2", "spec_version": "2.0", "name": "Ann", "description": "Old", "data": data})
    )
    page = open_files(card=path)
    page.edit("card-1", "/data/description", "New", build=False)
    page.post("/documents/card-1/save")
    assert json.loads(path.read_text("utf-8"))["description"] == "New"


def test_halves_of_characters_are_saved_so_that_they_can_be_read(open_files: OpenFiles, folder: Path) -> None:
    page = open_files()
    for document, path in (("card-1", "/data/description"), ("chat-1", "/messages/0/mes")):
        half = {"document": document, "op": "replace", "path": path, "value": "\ud83d!"}
        body = json.dumps({"edits": [half], "build": False}).encode()
        page.client.post("/api/studio/edit", content=body, headers={"content-type": "application/json"})
        page.post(f"/documents/{document}/save")
    assert json.loads((folder / "aria.json").read_text("utf-8"))["data"]["description"] == "\ud83d!"
    assert open_files().get("/documents/chat-1")["data"]["messages"][0]["mes"]


def test_the_example_can_be_downloaded_and_not_saved(page: Page) -> None:
    assert page.post("/documents/card-1/save", 409)["error"]["code"] == "not_writable"
    answer = page.client.get("/api/studio/documents/card-1/download")
    assert answer.json()["data"]["name"] == "Aria"
    assert "Aria.json" in answer.headers["content-disposition"]


def test_a_file_of_the_browser_is_opened_by_its_content(page: Page) -> None:
    card = Character(name="Luna", description="A moth.", version="v2").to_card()
    content = base64.b64encode(json.dumps(card).encode()).decode()
    told = page.post("/documents", name="../../etc/luna.json", content=content)
    assert told["documents"][0]["kind"] == "card"
    assert told["documents"][0]["file"] is None
    assert told["active"]["card"] == told["documents"][0]["id"]
    assert any("A moth." in block["content"] for block in told["build"]["blocks"])
    for bad in ("!!!", base64.b64encode(b"nothing").decode(), base64.b64encode(placeholder_png()).decode()):
        assert page.post("/documents", 422, name="x.bin", content=bad)["error"]["message"]


@pytest.mark.parametrize(
    ("platform", "dialect", "kind"),
    [
        ("silly_tavern", "openai", "preset"),
        ("risu_ai", "openai", "preset"),
        ("silly_tavern", "text", "context_template"),
    ],
)
def test_a_new_preset_or_template_begins_as_the_default(folder: Path, platform: str, dialect: str, kind: str) -> None:
    page = Page(open_studio(Opened(card=folder / "aria.json", platform=platform, dialect=dialect)))
    before = page.post("/build")
    made = page.post("/documents", kind=kind, name="New one", build=True)
    assert made["build"]["messages"] == before["messages"]
    assert made["build"]["budget"] == before["budget"]
    assert made["active"][kind] == made["documents"][0]["id"]


def test_what_a_prompt_needs_cannot_be_closed(page: Page) -> None:
    assert page.client.delete("/api/studio/documents/card-1").status_code == 422
    assert page.client.delete("/api/studio/documents/book-1").json()["removed"] == ["book-1"]
    assert page.get("/workspace")["active"]["books"] == []


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
pointers = st.lists(st.sampled_from(["data", "entries", "0", "1", "name", "-", "messages", "x"]), max_size=4).map(
    lambda keys: "".join(f"/{key}" for key in keys)
)
edits = st.builds(
    Edit,
    document=st.sampled_from(["card-1", "book-1", "chat-1", "turn-1"]),
    op=st.sampled_from(["add", "replace", "remove", "move"]),
    path=pointers,
    value=values,
    source=pointers,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(edits, min_size=1, max_size=3), max_size=8))
def test_any_edits_and_all_undos_give_the_first_documents(steps: list[list[Edit]]) -> None:
    workspace = open_workspace(Opened())
    first = json.dumps({key: each.data for key, each in workspace.state.documents.items()})
    copy = {key: each.data for key, each in workspace.state.documents.items()}
    for step in steps:
        try:
            changed = workspace.edit(step)
        except StudioError:
            continue
        for edit in changed.edits:  # what the page does with its copy
            copy[edit.document] = apply_edit(copy[edit.document], edit)
        assert copy == {key: each.data for key, each in workspace.state.documents.items()}
    while workspace.undo_label is not None:
        for edit in workspace.undo().edits:
            copy[edit.document] = apply_edit(copy[edit.document], edit)
    assert json.dumps({key: each.data for key, each in workspace.state.documents.items()}) == first
    assert json.dumps(copy) == first


@settings(max_examples=100, deadline=None)
@given(values, values)
def test_edits_between_values_lead_from_one_to_the_other(old: Any, new: Any) -> None:
    value = old
    for edit in edits_between("x", old, new):
        value = apply_edit(value, edit)
    assert json.dumps(value) == json.dumps(new)


def _chunks(png: bytes) -> list[bytes]:
    """The picture's own chunks."""
    found: list[bytes] = []
    at = 8
    while at < len(png):
        length = int.from_bytes(png[at : at + 4])
        if png[at + 4 : at + 8] in (b"IHDR", b"IDAT", b"PLTE"):
            found.append(png[at : at + 12 + length])
        at += 12 + length
    return found
