"""Studio in a real browser: lore lab, Compare, playground, folders. Run with ``make test-browser``."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tavernkit.server import ServerConfig, create_app
from tavernkit.silly_tavern import DataFolder
from tavernkit.studio._app import open_folder
from tavernkit.studio._shelf import OpenRequest
from tests.browser.studio_page import DESK, PHONE, StudioPage, both, serving
from tests.browser.webdriver import Browser
from tests.server.conftest import on_loopback
from tests.silly_tavern.generated_folder import generate

pytestmark = pytest.mark.browser


# ----------------------------------------------------------------------------------------------------------------------
# Lore lab


@both()
def test_the_lore_lab_says_why_and_why_not(page: StudioPage) -> None:
    page.go("Lore lab")
    page.wait_for_text("#scan-result", "entries fire")
    page.write("A text to scan", "A dragn on the captain's desk.")
    page.wait_for_text(".near", "dragn")
    page.wait_for_text(".lore-rows .in", "key 'captain' found")
    page.click_text(".chip", "stays out")
    page.wait_for("return !document.querySelector('.lore-rows .in') && document.querySelector('.lore-rows .out')")
    page.browser.one("input[aria-label='Name of the test']").type("the captain")
    page.browser.one("#make-case").click()
    page.wait_for_text(".keep .payload", "Captain Maro")
    page.click_text(".keep button", "Write to")
    page.wait_for_text(".notices", "Kept in")
    assert [path for path in page.folder.iterdir() if path.name.endswith(".lore.yaml")]
    page.tab("chart")
    page.wait_for("return document.querySelectorAll('.chart .fired').length > 0")
    page.click_text(".chart button", "The storm glass")
    page.wait_for("return document.querySelector('[data-pointer$=\"/comment\"]')?.value === 'The storm glass'")


# ----------------------------------------------------------------------------------------------------------------------
# Compare, playground


@both()
def test_versions_and_programs_are_compared(page: StudioPage) -> None:
    page.go("Compare")
    page.wait_for_text("#compare-result", "the same")
    page.part("Description")
    page.write("Description", " She hums.")
    page.go("Compare")
    page.wait_for_text(".sides ins", "She hums.")
    page.choose("#pair", "SillyTavern and RisuAI")
    # At no time do the new names stand over the old texts.
    page.wait_for("return !document.querySelector('.sides ins') || !document.body.innerText.includes('As edited')")
    page.wait_for_text(".sides th", "RisuAI")
    assert not page.browser.run(
        "return [...document.querySelectorAll('.sides ins')].some(e => e.textContent === ' She hums.')"
    )
    page.wait_for_text("#compare-result", "differ")


@both()
def test_two_versions_of_a_card_book_or_preset_are_compared(page: StudioPage) -> None:
    folder = page.folder
    for name, old, new in (
        ("luna.json", '"name": "Aria"', '"name": "Luna"'),
        ("deepwatch.json", "ninety steps high", "forty steps deep"),
        ("strict.json", "next reply in a story", "next strict reply in a story"),
    ):
        sources = {"luna.json": "aria.json", "deepwatch.json": "tidewatch.json", "strict.json": "preset.json"}
        text = (folder / sources[name]).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")
        page.open_file(folder / name)
    page.go("Compare")
    page.choose("#pair", "Luna and Aria (card)")
    page.wait_for_text(".sides ins", "Aria")
    page.choose("#pair", "tidewatch and deepwatch (book)")
    page.wait_for_text(".sides ins", "forty")
    page.choose("#pair", "strict and preset (preset)")
    page.wait_for_text(".sides del", "strict")


@both()
def test_macros_cbs_and_regex_are_tried(page: StudioPage) -> None:
    page.go("Playground")
    page.write("Text with macros", "{{user}} says {{upper::no}}.", instead=True)
    page.wait_for_text("#macro-output", "Ann says")
    page.wait_for_text(".tree .macro", "user")
    page.choose("#engine", "RisuAI")
    page.wait_for_text("#macro-output", "Ann says NO.")
    # What RisuAI's own parser reads: a false block whose body is not evaluated.
    page.write("Text with macros", "{{#if 0}}{{user}}{{/if}}{{setvar::a::b}}{{what}}", instead=True)
    page.wait_for_text(".tree .block", "if")
    page.wait_for_text(".tree .macro", "what")
    assert [found.text for found in page.browser.all(".tree .block samp")] == [""]
    assert not page.browser.all(".tree ul .macro samp")
    page.wait_for_text(".variables", "a")
    page.wait_for_text(".problems", "what")
    page.choose("#engine", "SillyTavern")
    page.tab("regex")
    page.write("Find", "/(a)(b)?/g", instead=True)
    page.write("Replace with", "<$1>", instead=True)
    page.write("Text", "cab a", instead=True)
    page.wait_for_text("#regex-output", "c<a> <a>")
    assert [mark.text for mark in page.browser.all(".output mark")] == ["ab", "a"]
    # What was typed is still there after a look at the prompt.
    page.go("Prompt")
    page.go("Playground")
    page.wait_for_text("#regex-output", "c<a> <a>")
    # RisuAI's patterns have no slashes; the example is in its language.
    page.choose("#engine", "RisuAI")
    page.write("Text", "*She nods.* Yes.", instead=True)
    page.write("Replace with", "_$1_", instead=True)
    page.wait_for_text("#regex-output", "_She nods._ Yes.")


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_another_character_of_a_folder_is_opened(browser: Browser, tmp_path: Path, size: tuple[int, int]) -> None:
    data = generate(tmp_path)
    page = StudioPage(browser, size, tmp_path)
    characters = DataFolder(data, warn=lambda _: None).characters()
    with serving(open_folder(data, OpenRequest(character=characters[0]))) as address:
        page.open(address)
        first = browser.one(".who").text
        browser.one("#files").click()
        page.wait_for("return document.querySelector('[data-choice=character]')")
        page.choose("[data-choice=character]", characters[1])
        browser.one("#open-character").click()
        page.wait_for("return document.querySelector('.who').textContent !== arguments[0]", first)
        page.wait_for("return document.querySelectorAll('.block').length > 0")
        assert browser.errors() == []


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_service_has_the_same_page_for_those_with_a_key(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    config = ServerConfig.model_validate({"data": tmp_path, "require_keys": True, "admin_key": "the-admin-key"})
    page = StudioPage(browser, size, tmp_path)
    with on_loopback(create_app(config)) as address:
        browser.open("about:blank")
        browser.open(address)
        browser.wait(lambda: browser.all("input[type=password]"))
        browser.one("input[type=password]").type("the-admin-key")
        browser.keys("enter")
        page.wait_for("return document.documentElement.dataset.ready === 'true'")
        page.part("Description")
        page.write("Description", " She hums.")
        page.wait_for_prompt("She hums.")
        browser.keys("ctrl+s")
        page.wait_for("return document.querySelector('dialog .unified .added')?.textContent.includes('She hums.')")
        browser.one("#save-all").click()
        page.wait_for_text(".notices", "Saved")
        stored = httpx.get(
            f"{address}/api/characters/aria", headers={"Authorization": "Bearer the-admin-key"}, timeout=30
        )
        assert "She hums." in stored.text
        # The page was asked for before there was a key, and refused.
        assert [error for error in browser.errors() if "401" not in error] == []
        browser.open("about:blank")
