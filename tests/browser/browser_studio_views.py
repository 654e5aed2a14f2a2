"""Studio in a real browser: lore lab, Talk, Compare, playground, folders. Run with ``make test-browser``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tavernkit.silly_tavern import DataFolder
from tavernkit.studio import Studio
from tavernkit.studio._opening import open_folder, open_workspace
from tavernkit.studio._shelf import Wanted
from tests.browser.studio_page import DESK, PHONE, StudioPage, files_of, serving
from tests.browser.webdriver import Browser
from tests.silly_tavern.generated_folder import generate

pytestmark = pytest.mark.browser

both = pytest.mark.parametrize("page", [PHONE, DESK], ids=["phone", "desk"], indirect=True)


# ----------------------------------------------------------------------------------------------------------------------
# Lore lab, talk


@both
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


def script(page: StudioPage, *replies: str) -> None:
    """Say what the scripted model answers."""
    page.browser.run("document.querySelector('.script').open = true")
    page.browser.one(".script textarea").clear()
    page.browser.one(".script textarea").type("\n".join(replies))
    page.click_text(".script button", "Use it")
    page.wait_for_text(".notices", "in turn")


@both
def test_talking_with_the_character(page: StudioPage) -> None:
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    script(page, "*She nods.* One.", "Two.", "Three.", "And more.", "What I would say.")
    page.write("Your message", "Tell me.")
    page.browser.keys("ctrl+enter")
    page.wait_for_text(".message:last-child .text", "*She nods.* One.")
    page.wait_for_text(".message.user .text", "Tell me.")
    page.browser.wait(lambda: page.browser.shown(".message:last-child button[aria-label='Next version']"))
    page.browser.one(".message:last-child button[aria-label='Next version']").click()
    page.wait_for_text(".message:last-child .text", "Two.")
    page.wait_for_text(".message:last-child .swipes", "2/2")
    page.browser.one(".message:last-child button[aria-label='Earlier version']").click()
    page.wait_for_text(".message:last-child .text", "One.")
    page.click_text(".message:last-child footer button", "Regenerate")
    page.wait_for_text(".message:last-child .text", "Three.")
    page.wait_for("return document.querySelector('#send')")
    page.click_text(".message:last-child footer button", "Continue")
    page.wait_for_text(".message:last-child .text", "And more.")
    page.wait_for("return document.querySelector('#send')")
    page.browser.one("#impersonate").click()
    page.wait_for("return document.querySelector('#send')")
    page.browser.wait(lambda: "What I would say." in page.editor("Your message").text)
    page.click_text(".message:last-child footer button", "What the model saw")
    page.wait_for_text("dialog .block .text", "Tell me.")
    page.browser.keys("escape")
    page.wait_for("return !document.querySelector('dialog')")


def test_two_cards_are_compared_and_a_group_has_tools(browser: Browser, folder: Path) -> None:
    other = json.loads((folder / "aria.json").read_text(encoding="utf-8"))
    other["data"]["name"] = "Luna"
    (folder / "luna.json").write_text(json.dumps(other), encoding="utf-8")
    page = StudioPage(browser, DESK, folder)
    with serving(Studio(open_workspace(files_of(folder)), tools=[roll])) as address:
        page.open(address)
        browser.one("#files").click()
        browser.one("#open-file").type(str(folder / "luna.json"))
        page.wait_for_text("dialog tbody", "Luna")
        browser.keys("escape")
        page.go("Compare")
        page.choose("#pair", "Luna and Aria (card)")
        page.wait_for_text("#compare-result", "differ")
        page.part("Next turn")
        for name in ("Aria", "Luna"):
            page.click_text("fieldset .check", name)
        page.go("Talk")
        page.wait_for("return document.querySelectorAll('.speak').length === 2")
        script(page, '!roll {"sides": 6}', "A six, says one.", "Six it is.", "Indeed.", "Indeed.")
        page.click_text(".speak", "Luna speaks")
        page.wait_for_text(".message:last-child .text", "A six, says one.")
        page.wait_for_text(".message:last-child header", "Luna")
        page.wait_for_text(".tool", "roll")
        assert browser.errors() == []


def roll(sides: int) -> int:
    """Roll a die."""
    return sides


def more(page: StudioPage, line: int, name: str) -> None:
    page.browser.one(f"summary[aria-label='More for line {line}']").click()
    page.click_text(f".message:nth-child({line}) .more button", name)


def test_lines_are_edited_hidden_deleted_and_branched(page: StudioPage) -> None:
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    page.browser.one("button[aria-label='Edit line 4']").click()
    page.write("Line of Ann", " Truly.")
    page.click_text(".message button", "Keep")
    page.wait_for_text(".message .text", "frozen? Truly.")
    more(page, 2, "Hide")
    page.wait_for("return document.querySelectorAll('.message.off').length === 1")
    more(page, 3, "Branch")
    page.wait_for("return document.querySelectorAll('.message').length === 3")
    more(page, 3, "Delete")
    page.wait_for("return document.querySelectorAll('.message').length === 2")


# ----------------------------------------------------------------------------------------------------------------------
# Compare, playground


@both
def test_versions_and_programs_are_compared(page: StudioPage) -> None:
    page.go("Compare")
    page.wait_for_text("#compare-result", "the same")
    page.part("Description")
    page.write("Description", " She hums.")
    page.go("Compare")
    page.wait_for_text(".sides ins", "She hums.")
    page.choose("#pair", "SillyTavern and RisuAI")
    page.wait_for_text(".sides th", "RisuAI")
    page.wait_for_text("#compare-result", "differ")


@both
def test_macros_cbs_and_regex_are_tried(page: StudioPage) -> None:
    page.go("Playground")
    page.write("Text with macros", "{{user}} says {{upper::no}}.", instead=True)
    page.wait_for_text("#macro-output", "Ann says")
    page.wait_for_text(".tree .macro", "user")
    page.choose("#engine", "RisuAI")
    page.wait_for_text("#macro-output", "Ann says NO.")
    page.choose("#engine", "SillyTavern")
    page.tab("regex")
    page.write("Find", "/(a)(b)?/g", instead=True)
    page.write("Replace by", "<$1>", instead=True)
    page.write("Text", "cab a", instead=True)
    page.wait_for_text("#regex-output", "c<a> <a>")
    assert [mark.text for mark in page.browser.all(".output mark")] == ["ab", "a"]


def test_another_character_of_a_folder_is_opened(browser: Browser, tmp_path: Path) -> None:
    data = generate(tmp_path)
    page = StudioPage(browser, DESK, tmp_path)
    characters = DataFolder(data, warn=lambda _: None).characters()
    with serving(open_folder(data, Wanted(character=characters[0]))) as address:
        page.open(address)
        first = browser.one(".who").text
        browser.one("#files").click()
        page.wait_for("return document.querySelector('[data-choice=character]')")
        page.choose("[data-choice=character]", characters[1])
        browser.one("#open-character").click()
        page.wait_for("return document.querySelector('.who').textContent !== arguments[0]", first)
        page.wait_for("return document.querySelectorAll('.block').length > 0")
        assert browser.errors() == []
