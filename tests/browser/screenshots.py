"""Make the pictures of Studio and the report in the documentation: ``python -m tests.browser.screenshots``."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from tavernkit.cli.app import run
from tavernkit.studio._app import Opened, open_studio
from tests.browser.studio_page import PHONE, StudioPage, serving
from tests.browser.webdriver import Browser, chromium
from tests.cli.terminal import arguments_of

FOLDER = Path(__file__).parents[2] / "docs" / "images"
SCREEN = (1440, 900)
COLOURS = 256
"""Enough for a page of few colours; a third of the bytes."""


def write(page: StudioPage) -> None:
    page.part("Description")
    page.write("Description", " She hums when the wind turns")
    page.wait_for_prompt("She hums when the wind turns")
    page.write("Description", ".")
    page.wait_for_prompt("She hums when the wind turns.")
    page.wait_for_sources()
    words = page.named(".words", "She carries a brass storm glass")
    page.browser.point(words)
    page.wait_for("return document.querySelector('#origin')")


def lore(page: StudioPage) -> None:
    page.part("tidewatch")
    page.click_text(".entry", "The storm glass")
    page.tab("lore")


def lab(page: StudioPage) -> None:
    page.go("Lore lab")
    page.write("A text to scan", "The captain looks for grey sail through the glass.")
    page.wait_for_text(".lore-rows .in", "Captain Maro")
    page.browser.one("input[aria-label='Name of the test']").type("the captain's watch")


def talk(page: StudioPage) -> None:
    page.go("Talk")
    page.write("Your message", "Have you ever seen it go dark before?")
    page.browser.keys("ctrl+enter")
    page.wait_for("return document.querySelectorAll('.message').length === 7 && document.querySelector('#send')")


def compare(page: StudioPage) -> None:
    write(page)
    page.go("Compare")
    page.wait_for_text(".sides ins", "She hums")


def play(page: StudioPage) -> None:
    page.go("Playground")
    page.wait_for_text(".tree", "getvar")


def phone(page: StudioPage) -> None:
    page.browser.run("document.querySelector('.block').scrollIntoView({block: 'center'})")
    page.browser.point(page.named(".words", "ninety steps high"), "touch", press=True)
    page.wait_for("return document.querySelector('#origin')")


PICTURES: dict[str, tuple[tuple[int, int], str, Callable[[StudioPage], None]]] = {
    "studio-write": (SCREEN, "light", write),
    "studio-write-dark": (SCREEN, "dark", write),
    "studio-lore": (SCREEN, "light", lore),
    "studio-lore-lab": (SCREEN, "dark", lab),
    "studio-talk": (SCREEN, "light", talk),
    "studio-compare": (SCREEN, "light", compare),
    "studio-playground": (SCREEN, "dark", play),
    "studio-phone": (PHONE, "light", phone),
    "studio-phone-dark": (PHONE, "dark", phone),
}


REPORTS = {"report": "light", "report-dark": "dark"}


def take_report(browser: Browser, name: str) -> None:
    """A report in which a sentence was clicked."""
    with tempfile.TemporaryDirectory() as folder:
        page, path = StudioPage(browser, SCREEN, FOLDER), Path(folder, "report.html")
        page.prefer(REPORTS[name])
        browser.command("Emulation.setScrollbarsHidden", {"hidden": True})
        assert run(["explain", *arguments_of("-m", "Who lit the lamp?", "--html", str(path))]) == 0
        browser.open(path)
        page.wait_for("return document.documentElement.dataset.ready === 'true'")
        page.named("#block-3 .words", "She carries a brass storm glass").click()
        page.wait_for("return document.querySelector('.words.chosen')")
        browser.run("scrollTo(0, 0)")
        browser.point(browser.one("h1"))
        save(browser.screenshot_bytes(), name)


def take(browser: Browser, name: str) -> None:
    size, theme, prepare = PICTURES[name]
    browser.command("Emulation.setScrollbarsHidden", {"hidden": True})
    with serving(open_studio(Opened())) as address:
        page = StudioPage(browser, size, FOLDER)
        page.prefer(theme)
        page.open(address)
        prepare(page)
        page.browser.run("document.querySelector('.notices').replaceChildren()")
        shot = browser.screenshot_bytes()
        browser.open("about:blank")
    save(shot, name)


def save(shot: bytes, name: str) -> None:
    picture = (
        Image.open(io.BytesIO(shot))
        .convert("RGB")
        .quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    picture.save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    with chromium() as started:
        for each in sys.argv[1:] or (*PICTURES, *REPORTS):
            (take_report if each in REPORTS else take)(started, each)
