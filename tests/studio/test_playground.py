"""Macros, regex scripts, comparisons and checks."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.cards import Character
from tests.studio.conftest import Page


def flat(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(each for child in node["children"] for each in flat(child))]


def test_macros_have_a_tree_values_and_variables(page: Page) -> None:
    told = page.post("/play/macros", text="🦊 {{char}} and {{user}}{{setvar::x::{{char}}!}}, {{nonsense}}")
    assert told["output"] == "🦊 Aria and Ann, {{nonsense}}"
    nodes = {node["text"]: node for node in reversed(flat(told["tree"]))}
    assert nodes["{{char}}"]["value"] == "Aria"
    assert nodes["{{char}}"]["name"] == "char"
    assert (nodes["{{char}}"]["start"], nodes["{{char}}"]["end"]) == (3, 11)
    assert nodes["{{setvar::x::{{char}}!}}"]["value"] == ""
    assert nodes["{{nonsense}}"]["value"] is None
    assert any("nonsense" in warning for warning in told["warnings"])
    assert told["variables"] == {"local": {"x": "Aria!"}, "global": {}}


def test_cbs_has_its_own_language(page: Page) -> None:
    text = "{{#if {{equal::{{user}}::Ann}}}}Hello {{char}}{{/if}}"
    told = page.post("/play/macros", text=text, engine="risu_ai")
    assert told["output"] == "Hello Aria"
    block = next(node for node in flat(told["tree"]) if node["kind"] == "block")
    assert block["text"] == text
    assert block["name"] == "if"
    stored = page.post("/play/macros", text="{{setvar::mood::calm}}", engine="risu_ai")
    assert stored["variables"]["local"] == {"mood": "calm"}
    assert {"equal", "user", "char"} <= {node["name"] for node in flat(told["tree"])}
    # A false block's body is not evaluated, and that is what its tree says.
    false = page.post("/play/macros", text="{{#if 0}}{{char}}{{/if}}", engine="risu_ai")
    values = {node["text"]: node["value"] for node in flat(false["tree"])}
    assert values["{{char}}"] is None


def test_the_tree_is_that_of_the_programs_own_parser(page: Page) -> None:
    # What only looks like a block stays as it is: SillyTavern's {{setvar}} has a body only without a value.
    kinds = {
        text: {node["name"]: node["kind"] for node in flat(page.post("/play/macros", text=text)["tree"])}
        for text in ("{{if 1}}a{{/if}}", "{{char}}a{{/char}}")
    }
    assert kinds["{{if 1}}a{{/if}}"]["if"] == "block"
    assert kinds["{{char}}a{{/char}}"]["char"] == "tag"


def test_a_tree_that_is_cut_says_so(page: Page) -> None:
    told = page.post("/play/macros", text="{{char}}" * 6000)
    assert "the tree shows the first 5000 parts only" in told["warnings"]


def test_the_card_of_the_workspace_is_used(page: Page) -> None:
    page.edit("card-1", "/data/description", "Keeps bees.", build=False)
    assert page.post("/play/macros", text="{{description}}")["output"] == "Keeps bees."
    before = page.get("/workspace")["documents"]
    page.post("/play/macros", text="{{setvar::a::b}}")
    assert page.get("/workspace")["documents"] == before


def test_a_regex_script_before_and_after(page: Page) -> None:
    script = {"findRegex": "/(b+)(c)?/g", "replaceString": "<$1>", "trimStrings": []}
    told = page.post("/play/regex", script=script, text="🦊abba")
    assert told["output"] == "🦊a<bb>a"
    assert told["matches"] == [{"start": 3, "end": 5, "text": "bb", "groups": ["bb", None]}]
    broken = page.post("/play/regex", script={"findRegex": "/(/g", "replaceString": ""}, text="a(b")
    assert broken["output"] == "a(b"
    assert broken["warnings"]
    assert page.post("/play/regex", script={}, text="abc")["output"] == "abc"


def test_a_regex_script_of_risuai(page: Page) -> None:
    told = page.post("/play/regex", script={"in": "b+", "out": "[$&]"}, text="abba", engine="risu_ai")
    assert told["output"] == "a[bb]a"
    assert told["matches"][0]["text"] == "bb"


def test_a_slow_pattern_ends(page: Page) -> None:
    script = {"findRegex": "/^(a+)+$/g", "replaceString": ""}
    told = page.post("/play/regex", script=script, text="a" * 40 + "b")
    assert told["output"].endswith("b")


def test_edited_and_saved_side_by_side(page: Page) -> None:
    page.edit("card-1", "/data/description", "Keeps bees.", build=False)
    told = page.post("/compare", left={"version": "saved"}, right={"version": "edited"})
    assert [row["kind"] for row in told["messages"] if row["kind"] != "same"] == ["changed"]
    assert told["documents"][0]["changes"][0]["pointer"] == "/data/description"
    assert told["left"]["plan"] != told["right"]["plan"]


def test_both_programs_side_by_side(page: Page) -> None:
    told = page.post("/compare", left={"platform": "silly_tavern"}, right={"platform": "risu_ai"})
    assert (told["left"]["platform"], told["right"]["platform"]) == ("silly_tavern", "risu_ai")
    assert any(row["kind"] != "same" for row in told["messages"])


def test_another_card_in_its_place(page: Page) -> None:
    luna = Character(name="Luna", description="A moth.", version="v2").to_card()
    page.post("/documents", kind="card", name="Luna", build=False)
    page.edit("card-2", "", luna, build=False)
    page.post("/activate", document="card-1", build=False)
    told = page.post("/compare", left={}, right={"instead": {"card-1": "card-2"}})
    assert any("A moth." in message["content"] for message in told["right"]["messages"])
    assert not any("A moth." in message["content"] for message in told["left"]["messages"])
    refused = page.post("/compare", 422, left={}, right={"instead": {"card-1": "book-1"}})
    assert refused["error"]["code"] == "cannot_compare"


def test_two_versions_of_a_book_are_not_used_together(page: Page) -> None:
    book = page.get("/documents/book-1")["data"]
    page.post("/documents", kind="book", name="Other", build=False)
    entries = {key: {**each, "content": f"Other {key}."} for key, each in book["entries"].items()}
    page.edit("book-2", "", {**book, "entries": entries}, build=False)
    told = page.post("/compare", left={}, right={"instead": {"book-1": "book-2"}})
    left, right = ("\n".join(each["content"] for each in told[side]["messages"]) for side in ("left", "right"))
    assert "Other 1." not in left
    assert right.count("Other 1.") == 1


@pytest.mark.parametrize(("path", "value"), [("/data/name", ""), ("/data/description", "{{nonsense")])
def test_lint_sees_unsaved_changes(page: Page, path: str, value: str) -> None:
    before = page.get("/lint")["findings"]
    page.edit("card-1", path, value, build=False)
    after = page.get("/lint")["findings"]
    new = [each for each in after if each not in before]
    assert new
    assert new[0]["document"] == "card-1"
    assert new[0]["severity"] in ("error", "warning", "note")
