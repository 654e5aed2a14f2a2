"""The HTML report in a real browser: its parts are found and clicked. Run with ``make test-browser``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tavernkit.cli.app import run
from tests.browser.webdriver import Browser
from tests.cli.terminal import BOOK, CARD, arguments_of

pytestmark = pytest.mark.browser

HOSTILE = "</pre><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Browser]:
    path = tmp_path / "report.html"
    message = "Who lit the lamp again, with the Grey Fleet so close?"
    assert run(["explain", *arguments_of("-m", message, "--context-length", "1000", "--html", str(path))]) == 0
    browser.open(path)
    browser.wait(lambda: browser.run("return document.documentElement.dataset.ready") == "true")
    yield browser
    shots = os.environ.get("TAVERNKIT_SCREENSHOTS")
    if shots:
        browser.screenshot(Path(shots) / f"{os.environ['PYTEST_CURRENT_TEST'].split('::')[1].split(' ')[0]}.png")
    assert browser.errors() == []


def test_the_prompt_is_shown_coloured_by_source(page: Browser) -> None:
    assert len(page.shown(".block")) == 15
    assert page.one("#block-1 .source").text == "preset prompt Main Prompt"
    colours = {
        page.run(f"return getComputedStyle(document.querySelector('.b-{name}')).borderLeftColor")
        for name in ("preset", "lore", "card", "history")
    }
    assert len(colours) == 4
    assert "tokens" in page.one(".numbers").text


def test_a_part_of_the_token_map_leads_to_its_block(page: Browser) -> None:
    page.one("#tab-map").click()
    assert page.one(".treemap").shown
    cells = page.all(".cell")
    assert len(cells) == 15
    cells[1].click()
    assert page.one("#prompt").shown
    assert not page.one("#map").shown
    assert page.one("#block-2").shown
    assert "found" in (page.one("#block-2").attribute("class") or "")


def test_the_map_looks_like_a_map(page: Browser) -> None:
    page.one("#tab-map").click()
    covered = page.run(
        "const all = document.querySelector('.treemap').getBoundingClientRect();"
        "return Array.from(document.querySelectorAll('.cell')).map(c => c.getBoundingClientRect())"
        ".reduce((sum, r) => sum + r.width * r.height, 0) / (all.width * all.height)"
    )
    assert covered == pytest.approx(1, abs=0.05)


def test_lore_says_why_and_why_not(page: Browser) -> None:
    page.one("#tab-lore").click()
    rows = page.shown("tr.entry")
    assert len(rows) == 8
    table = page.one("#lore").text
    assert "key 'lamp' found in the last message" in table
    assert "no key was found ('dragon')" in table
    rows[0].click()
    assert page.shown("tr.content")
    page.one("#only-in").click()
    assert 0 < len(page.shown("tr.entry")) < 8
    assert not page.shown("tr.entry.out")


def test_search_finds_blocks_and_lore(page: Browser) -> None:
    page.one("#search").type("storm glass")
    page.wait(lambda: "match" in page.one("#hits").text)
    assert 0 < len(page.shown(".block")) < 15
    assert all("storm glass" in each.text.lower() for each in page.shown("mark"))
    page.one("#tab-lore").click()
    assert [row.text.split("\n")[0] for row in page.shown("tr.entry")] == ["out The storm glass"]
    page.one("#search").clear()
    page.one("#search").type(" ")
    page.wait(lambda: page.one("#hits").text == "")
    assert not page.all("mark")
    assert len(page.shown("tr.entry")) == 8


def test_a_source_can_be_dimmed(page: Browser) -> None:
    page.one(".chip[data-family=history]").click()
    assert page.one(".chip[data-family=history]").attribute("aria-pressed") == "false"
    assert page.all(".block.dim[data-family=history]")
    assert not page.all(".block.dim[data-family=card]")


def test_what_was_left_out_and_the_payload(page: Browser) -> None:
    page.one("#tab-out").click()
    assert "does not fit the token budget" in page.one("#out").text
    page.one("#tab-payload").click()
    assert json.loads(page.one("#payload-text").text)[0]["role"] == "system"


SENTENCE = "She carries a brass storm glass and trusts it more than most people."
PHONE, DESK = (390, 844), (1600, 1000)


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_a_sentence_that_is_clicked_shows_its_source_with_the_characters_marked(
    page: Browser, size: tuple[int, int]
) -> None:
    page.resize(*size)
    try:
        assert not page.one("#origin").shown
        sentence = next(each for each in page.shown("#block-3 .words") if "storm glass" in each.text)
        assert sentence.text == SENTENCE
        sentence.click()
        assert page.one("#origin-label").text == "card Aria /data/description"
        text = json.loads(Path(CARD).read_text(encoding="utf-8"))["data"]["description"]
        assert page.run("return document.querySelector('#origin-text').textContent") == text
        assert page.one("#origin-text .here").text == SENTENCE
        assert [each.text for each in page.all(".words.chosen")] == [SENTENCE]
        assert _in_sight(page, "#origin .here")
        assert _in_sight(page, ".words.chosen")
        assert not page.run(
            "const at = (s) => document.querySelector(s).getBoundingClientRect();"
            "const panel = at('#origin'), chosen = at('.words.chosen');"
            "return panel.left < chosen.right && panel.top < chosen.bottom && chosen.top < panel.bottom;"
        )
        assert page.run("return document.documentElement.scrollWidth <= innerWidth")
        name = page.all("#block-3 .words")[0]
        assert name.text == "Aria"
        name.click()
        assert page.one("#origin-how").text.startswith("through {{char}} in ")
        page.one("#origin-close").click()
        assert not page.one("#origin").shown
    finally:
        page.command("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_lore_tab_has_the_tokens_of_every_entry(page: Browser, size: tuple[int, int]) -> None:
    page.resize(*size)
    try:
        page.shown("#block-2 .words")[0].click()
        page.one("#tab-lore").click()
        assert not page.one("#origin").shown
        costs = {
            row["title"]: row["tokens"]
            for row in page.run(
                "return Array.from(document.querySelectorAll('tr.entry.in')).map(row => ({"
                "title: row.querySelector('b').textContent, tokens: Number(row.querySelector('.number').textContent)}))"
            )
        }
        # The names that their macros gave count for the entries; the rest of the block's 114 tokens is line breaks.
        assert sum(costs[name] for name in ("Tidewatch", "The lamp", "The Grey Fleet")) == 113
        assert costs["House style"] == 22
        assert page.run("return document.documentElement.scrollWidth <= innerWidth")
        widths = page.run(
            "return Array.from(document.querySelectorAll('tr.entry td:nth-child(2)'))"
            ".map(cell => cell.getBoundingClientRect().width)"
        )
        assert min(widths) > 90
    finally:
        page.command("Emulation.clearDeviceMetricsOverride", {})


def _in_sight(page: Browser, selector: str) -> bool:
    return page.run(
        f"const place = document.querySelector({selector!r}).getBoundingClientRect();"
        "return place.top >= 0 && place.bottom <= innerHeight && place.left >= 0 && place.right <= innerWidth"
    )


def test_a_hostile_card_stays_text(browser: Browser, tmp_path: Path) -> None:
    card = json.loads(Path(CARD).read_text(encoding="utf-8"))
    card["data"] |= {"name": HOSTILE, "description": HOSTILE, "first_mes": HOSTILE}
    path, report = tmp_path / "evil.json", tmp_path / "evil.html"
    path.write_text(json.dumps(card), encoding="utf-8")
    assert run(["explain", str(path), "--book", BOOK, "-m", HOSTILE, "--html", str(report)]) == 0
    browser.open(report)
    browser.wait(lambda: browser.run("return document.documentElement.dataset.ready") == "true")
    assert "owned" not in browser.run("return document.title").replace(HOSTILE, "")
    assert browser.run("return document.images.length") == 0
    assert browser.run("return document.scripts.length") == 1
    assert HOSTILE in browser.one("#prompt").text
