"""The prompt, live: edits in, the prompt with its reasons out."""

from __future__ import annotations

import json

from tests.studio.conftest import Page


def test_the_workspace_has_the_shipped_example(page: Page) -> None:
    told = page.get("/workspace")
    kinds = {document["kind"]: document for document in told["documents"]}
    assert set(kinds) == {"card", "book", "preset", "chat", "persona", "turn"}
    assert kinds["card"]["data"]["data"]["name"] == "Aria"
    assert kinds["card"]["file"] is None
    assert not kinds["card"]["writable"]
    assert kinds["persona"]["data"]["name"] == "Ann"
    assert told["active"]["books"] == ["book-1"]
    assert not told["can_undo"]


def test_an_edit_changes_the_prompt_and_says_what_changed(page: Page) -> None:
    first = page.post("/build")
    assert any("keeps the lighthouse" in block["content"] for block in first["blocks"])
    edited = page.edit("card-1", "/data/description", "{{char}} keeps bees.")
    build = edited["build"]
    assert any(block["content"] == "Aria keeps bees." for block in build["blocks"])
    changed = [row for row in build["changes"]["messages"] if row["kind"] != "same"]
    assert [row["kind"] for row in changed] == ["changed"]
    assert build["changes"]["since"] == first["plan"]
    assert {"kind": "added", "text": "bees"} in changed[0]["parts"]
    assert edited["documents"][0]["saved"] is False


def test_every_block_says_what_it_is_and_why(page: Page) -> None:
    build = page.post("/build")
    assert all(block["source"] and block["reason"] and block["tokens"] >= 0 for block in build["blocks"])
    assert {share["family"] for share in build["shares"]} >= {"preset", "card", "lore", "history"}
    assert build["budget"]["total"] <= build["budget"]["limit"]


def test_the_prompt_that_the_page_looked_at_can_be_named(page: Page) -> None:
    first = page.post("/build")["plan"]
    page.edit("turn-1", "/message", "One")
    build = page.edit("turn-1", "/message", "One two", since=first)["build"]
    assert build["changes"]["since"] == first


def test_a_prompt_that_does_not_fit_is_an_error_and_not_a_failure(page: Page) -> None:
    build = page.edit("turn-1", "/context_length", 20)["build"]
    assert build["error"]["message"]
    assert build["blocks"] == []
    assert page.post("/undo")["build"]["error"] is None


def test_a_broken_document_is_named(page: Page) -> None:
    build = page.edit("card-1", "", [1, 2])["build"]
    assert "JSON object" in build["error"]["message"]


def test_sources_lead_to_documents_and_characters(page: Page) -> None:
    page.edit("card-1", "/data/description", "🦊🦊 {{char}} keeps bees.")
    build = page.post("/build")
    told = page.post("/sources", plan=build["plan"])
    number = next(index for index, source in enumerate(told["sources"]) if source["pointer"] == "/data/description")
    assert told["sources"][number]["document"] == "card-1"
    block = next(each for each in build["blocks"] if "keeps bees" in each["content"])
    spans = next(each["spans"] for each in told["blocks"] if each["id"] == block["id"])
    units = "🦊🦊 {{char}} keeps bees.".encode("utf-16-le")
    last = spans[-1]
    assert last["source"] == number
    # Offsets are UTF-16 units, as JavaScript counts: a fox has two.
    assert units[last["from"] * 2 : last["to"] * 2].decode("utf-16-le") == " keeps bees."
    assert [span["start"] for span in spans[1:]] == [span["end"] for span in spans[:-1]]
    entries = {entry["title"]: entry for entry in told["entries"]}
    assert entries["Tidewatch"]["pointer"] == "/entries/0"
    assert entries["Tidewatch"]["tokens"] > 0


def test_the_texts_of_risuai_lead_to_the_same_documents(page: Page) -> None:
    build = page.edit("turn-1", "/platform", "risu_ai")["build"]
    assert build["platform"] == "risu_ai"
    assert build["budget"]["response"] > 0
    found = {(source["document"], source["pointer"]) for source in page.post("/sources", plan=build["plan"])["sources"]}
    assert {("card-1", "/data/description"), ("book-1", "/entries/0/content"), ("turn-1", "/message")} <= found


def test_a_text_prompt(page: Page) -> None:
    page.post("/documents", kind="instruct", name="My instruct")
    build = page.edit("turn-1", "/dialect", "text")["build"]
    assert build["kind"] == "text"
    assert build["text"] == build["messages"][0]["content"]
    assert build["stop"]


def test_the_payload_of_each_dialect(page: Page) -> None:
    plan = page.post("/build")["plan"]
    for dialect in page.get("/workspace?data=false")["dialects"]:
        told = page.post("/request", plan=plan, dialect=dialect)
        assert "keeps the lighthouse" in json.dumps(told["body"]), dialect
    exact = page.post("/request", plan=plan, reference=True)
    assert exact["body"]["messages"]
    assert page.post("/request", 422, plan=plan, dialect="morse")["error"]["code"] == "unknown_dialect"


def test_the_cache_bar_names_who_broke_it(page: Page) -> None:
    plan = page.post("/build")["plan"]
    told = page.post("/cache", plan=plan, profile="deepseek")
    assert sum(part["tokens"] for part in told["parts"]) == told["tokens"]
    assert told["broken"]["source"]
    assert told["before"].startswith("Seven")
    assert page.post("/cache", 422, plan=plan, profile="none")["error"]["code"] == "unknown_profile"


def test_old_prompts_can_be_seen_again(page: Page) -> None:
    first = page.post("/build")
    page.edit("turn-1", "/message", "Something else")
    assert page.get(f"/plans/{first['plan']}")["messages"] == first["messages"]
    assert page.get("/plans/p999", 404)["error"]["code"] == "plan_gone"


def test_a_chat_without_lines_begins_with_the_greeting(page: Page) -> None:
    page.edit("chat-1", "/messages", [])
    build = page.edit("card-1", "/data/first_mes", "Well met, {{user}}.")["build"]
    assert any(block["content"] == "Well met, Ann." for block in build["blocks"])
