"""The lore lab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tavernkit.authoring import read_cases
from tavernkit.cli.case_runner import run_file
from tests.studio.conftest import Page

OpenFiles = Callable[..., Page]


def test_a_text_calls_up_entries_and_the_others_say_why_not(page: Page) -> None:
    told = page.post("/lore/scan", text="Who lit the lamp?")
    rows = {row["title"]: row for row in told["rows"]}
    assert rows["The lamp"]["active"]
    assert "'lamp'" in rows["The lamp"]["reason"]
    assert (rows["The lamp"]["document"], rows["The lamp"]["pointer"]) == ("book-1", "/entries/1")
    assert not rows["The storm glass"]["active"]
    assert "no key was found" in rows["The storm glass"]["reason"]
    assert told["active"] == sum(row["active"] for row in told["rows"])


def test_keys_that_nearly_matched_are_named(page: Page) -> None:
    told = page.post("/lore/scan", text="The storm-glas is broken.")
    row = next(row for row in told["rows"] if row["title"] == "The storm glass")
    assert {"key": "storm glass", "word": "storm-glas"} in row["near"]


def test_probability_groups_and_depth_are_reasons(page: Page) -> None:
    page.edit("book-1", "/entries/1/probability", 0, build=False)
    page.edit("book-1", "/entries/2/key", ["lamp"], build=False)
    page.edit("book-1", "/entries/2/group", "g", build=False)
    page.edit("book-1", "/entries/4/key", ["lamp"], build=False)
    page.edit("book-1", "/entries/4/group", "g", build=False)
    rows = {row["title"]: row for row in page.post("/lore/scan", text="The lamp!")["rows"]}
    assert "probability" in rows["The lamp"]["reason"]
    losers = [row for row in (rows["The storm glass"], rows["Shoals of Hern"]) if not row["active"]]
    assert len(losers) == 1
    assert "group" in losers[0]["reason"]


def test_the_other_platform_scans_too(page: Page) -> None:
    page.edit("turn-1", "/platform", "risu_ai", build=False)
    rows = {row["title"]: row for row in page.post("/lore/scan", text="Who lit the lamp?")["rows"]}
    assert rows["The lamp"]["active"]
    assert rows["The lamp"]["pointer"] == "/entries/1"


def test_a_chart_shows_what_fired_over_the_chat(page: Page) -> None:
    for platform in ("silly_tavern", "risu_ai"):
        page.edit("turn-1", "/platform", platform, build=False)
        told = page.post("/lore/chart")
        assert len(told["turns"]) >= 2, platform
        entries = {entry["title"]: entry for entry in told["entries"]}
        glass = entries["The storm glass"]
        assert glass["fired"], platform
        assert max(glass["fired"]) < len(told["turns"])
        assert glass["document"] == "book-1"


def test_a_finding_is_kept_as_a_test_that_holds(open_files: OpenFiles, folder: Path) -> None:
    page = open_files()
    told = page.post("/lore/case", name="the lamp", text="Who lit the lamp?", fires=["The lamp"], write=True)
    assert told["file"] == "tidewatch.lore.yaml"
    path = folder / told["file"]
    path.write_text("# mine\n" + path.read_text())
    page.post("/lore/case", name="glass", text="Hello", stays_out=["The storm glass"], write=True)
    assert path.read_text().startswith("# mine\n")
    assert [case.name for case in read_cases(path)] == ["the lamp", "glass"]
    results = list(run_file(path))
    assert all(result.passed for result in results), results
    page.edit("turn-1", "/platform", "risu_ai", build=False)
    page.post("/lore/case", name="risu", text="Who lit the lamp?", fires=["The lamp"], with_chat=True, write=True)
    assert all(result.passed for result in run_file(path))


def test_a_finding_of_the_example_is_shown_and_not_written(page: Page) -> None:
    told = page.post("/lore/case", name="x", text="the lamp", fires=["The lamp"])
    assert told["file"] is None
    assert "The lamp" in told["yaml"]
    assert page.post("/lore/case", 409, name="x", text="x", fires=["y"], write=True)["error"]["code"] == "not_writable"
    assert page.post("/lore/case", 422, name="x", text="x")["error"]["code"] == "nothing_expected"


def test_another_file_of_that_name_is_left_alone(open_files: OpenFiles, folder: Path) -> None:
    (folder / "tidewatch.lore.yaml").write_text("groceries: [milk]\n")
    refused = open_files().post("/lore/case", 409, name="x", text="x", fires=["The lamp"], write=True)
    assert refused["error"]["code"] == "not_a_test_file"
    assert (folder / "tidewatch.lore.yaml").read_text() == "groceries: [milk]\n"
