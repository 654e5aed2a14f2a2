"""Studio in a browser: a server for one page, and the page's parts as a person finds them."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tavernkit.studio import Studio, create_app
from tavernkit.studio._app import Opened
from tests.browser.webdriver import PATIENCE, Browser, Element

PHONE = (390, 844)
DESK = (1600, 1000)
TYPING_PAUSE = 25
"""What the page waits for more keys, in milliseconds (``store.js``)."""
FRAME = 17
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")


def both(make: Callable[[Path], Studio] | None = None) -> pytest.MarkDecorator:
    """A test at both widths; ``make`` opens something else than the example."""
    return pytest.mark.parametrize("page", [(PHONE, make), (DESK, make)], ids=["phone", "desk"], indirect=True)


def files_of(folder: Path, **more: Any) -> Opened:
    """The shipped example as files in a folder."""
    given: dict[str, Any] = {
        "card": folder / "aria.json",
        "books": [folder / "tidewatch.json"],
        "preset": folder / "preset.json",
        "chat": folder / "chat.jsonl",
        "user": "Ann",
        "message": "Have you ever seen the lamp go dark before?",
    }
    return Opened(**given | more)


@contextmanager
def serving(studio: Studio) -> Generator[str]:
    """Serve a Studio and give the page's address."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    app = create_app(studio, token="the-token")
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/#token=the-token"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()


class StudioPage:
    """The page at one size."""

    def __init__(self, browser: Browser, size: tuple[int, int], folder: Path) -> None:
        self.browser, self.folder = browser, folder
        self.wide = size[0] >= 1100
        browser.resize(*size)
        self.prefer("light")

    def prefer(self, theme: str) -> None:
        """What the system asks for; without motion, so that colours are what they are at once."""
        wanted = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        self.browser.command("Emulation.setEmulatedMedia", {"features": features})

    def open(self, address: str) -> None:
        # A page that is open already would only see its fragment change.
        self.browser.open("about:blank")
        self.browser.open(address)
        self.wait_for("return document.documentElement.dataset.ready === 'true'")
        self.wait_for_sources()

    def wait_for(self, script: str, *arguments: Any) -> None:
        try:
            self.browser.wait(lambda: self.browser.run(script, *arguments))
        except AssertionError:
            seen = self.browser.run("return document.body.innerText")
            raise AssertionError(f"waited in vain for: {script} {arguments}\nThe page said: {seen[:3000]}") from None

    def wait_for_sources(self) -> None:
        self.wait_for(
            "const {plan, sources} = document.documentElement.dataset;"
            "return plan === sources && document.querySelector('.prompt')?.ariaBusy !== 'true'"
        )

    def wait_for_text(self, selector: str, text: str) -> None:
        self.wait_for(
            "return [...document.querySelectorAll(arguments[0])].some(e => e.textContent.includes(arguments[1]))",
            selector, text,
        )  # fmt: skip

    def go(self, view: str) -> None:
        """Choose a view in the bar; on a desk the prompt and the editor are one."""
        self.click_text("nav[aria-label=Views] a", "Write" if self.wide and view in {"Prompt", "Edit"} else view)

    def tab(self, name: str) -> None:
        # The driver takes what is behind the sticky bar for visible.
        self.browser.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", f"[data-tab={name}]")
        self.browser.one(f"[data-tab={name}]").click()

    def part(self, name: str) -> None:
        """Choose a part in the editor, as soon as it is there."""
        self.go("Edit")
        self.wait_for_text("#part option", name)
        if self.wide:
            self.click_text(".outline button", name)
            return
        self.browser.run(
            "const select = document.querySelector('#part');"
            "select.selectedIndex = [...select.options].findIndex(o => o.text.includes(arguments[0]));"
            "select.dispatchEvent(new Event('change', {bubbles: true}))",
            name,
        )

    def named(self, selector: str, text: str) -> Element:
        """The element whose text or label has these words."""
        found = self.browser.run(
            "return [...document.querySelectorAll(arguments[0])]"
            ".find(e => (e.ariaLabel || e.textContent).includes(arguments[1])) ?? null",
            selector, text,
        )  # fmt: skip
        assert found is not None, f"no {selector} with {text!r}"
        return Element(self.browser, next(iter(found.values())))

    def click_text(self, selector: str, text: str) -> None:
        self.named(selector, text).click()

    def choose(self, selector: str, value: str) -> None:
        """Choose an option by its words."""
        self.browser.run(
            "const select = document.querySelector(arguments[0]);"
            "select.selectedIndex = [...select.options].findIndex(o => o.text.trim() === arguments[1]);"
            "if (select.selectedIndex < 0) throw new Error('no such option');"
            "select.dispatchEvent(new Event('change', {bubbles: true}))",
            selector, value,
        )  # fmt: skip

    def editor(self, label: str) -> Element:
        """A text editor by its label."""
        script = (
            "return [...document.querySelectorAll('.editor')].map(e => e.shadowRoot?.querySelector('.cm-content'))"
            f".find(e => e?.ariaLabel === {json.dumps(label)})"
        )
        self.wait_for(script)
        return self.browser.find(script)

    def write(self, label: str, text: str, *, instead: bool = False) -> None:
        """Type into a text editor, at its end."""
        self.editor(label).click()
        self.browser.keys(*(["ctrl+a", "backspace"] if instead else ["ctrl+end"]))
        self.browser.keys(*text)

    def quickest(self, label: str, enough: float) -> float:
        """Type until a keystroke is on the screen soon enough, and return how long that took.

        What counts is processor time of the page and of the service, which do not depend on what else the machine
        does, and what they wait for: the pause that a burst of keys gets, and two frames.
        """
        self.browser.command("Performance.enable", {"timeDomain": "threadTicks"})
        painted = self.browser.run("return document.documentElement.dataset.painted")
        self.write(label, "c")
        self.wait_for("return document.documentElement.dataset.painted !== (arguments[0] ?? undefined)", painted)
        taken = enough + 1
        for letter in "alm as the sea":
            self.wait_for_sources()
            painted = self.browser.run("return document.documentElement.dataset.painted")
            before = self._processor_time()
            self.browser.keys(letter)
            self.browser.run_async(
                "const [painted, done] = arguments, root = document.documentElement;"
                "const look = () => root.dataset.painted === painted ? requestAnimationFrame(look) : done();"
                "look()",
                painted,
            )
            taken = 1000 * (self._processor_time() - before) + TYPING_PAUSE + 2 * FRAME
            if taken <= enough:
                break
        self.browser.command("Performance.disable", {})
        return taken

    def _processor_time(self) -> float:
        """Seconds that the page and this process, which serves it, have worked."""
        metrics = self.browser.command("Performance.getMetrics", {})["metrics"]
        return time.process_time() + next(each["value"] for each in metrics if each["name"] == "TaskDuration")

    def selected(self) -> str:
        """What is selected in the editor that has the focus."""
        return self.browser.run(
            "const view = document.activeElement?.shadowRoot?.querySelector('.cm-content')?.cmTile?.view"
            "  ?? document.activeElement?.shadowRoot?.querySelector('.cm-content')?.cmView?.view;"
            "const {from, to} = view.state.selection.main;"
            "return view.state.sliceDoc(from, to)"
        )

    def prompt(self) -> str:
        """The prompt's text; on a phone the prompt is another view."""
        self.go("Prompt")
        return self.browser.run(
            "return [...document.querySelectorAll('.block .text')].map(e => e.textContent.trim()).join('\\n\\n')"
        )

    def wait_for_prompt(self, text: str, *, there: bool = True) -> None:
        self.go("Prompt")
        self.wait_for(
            "return [...document.querySelectorAll('.block .text')]"
            ".some(e => e.textContent.includes(arguments[0])) === arguments[1]",
            text, there,
        )  # fmt: skip

    def open_file(self, path: Path) -> None:
        """Open a file through the dialog."""
        self.browser.one("#files").click()
        rows = len(self.browser.all("dialog tbody tr"))
        self.browser.one("#open-file").type(str(path))
        self.wait_for("return document.querySelectorAll('dialog tbody tr').length > arguments[0]", rows)
        self.browser.keys("escape")
        self.wait_for("return !document.querySelector('dialog')")

    def findings(self, *rules: str) -> list[str]:
        """What axe finds serious or critical, by all of its rules or by some."""
        if not self.browser.run("return Boolean(window.axe)"):
            self.browser.run(AXE + "; window.axe = axe")
        return self.browser.run_async(
            "const [rules, done] = arguments, options = {resultTypes: ['violations']};"
            "if (rules.length) options.runOnly = rules;"
            "axe.run(document, options).then(r => done("
            "r.violations.filter(v => v.impact === 'serious' || v.impact === 'critical')"
            ".map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ') + ' ' + n.failureSummary).join(' | '))))",
            list(rules),
        )

    def overflow(self) -> int:
        """How many pixels the page is wider than its window."""
        return self.browser.run("return document.documentElement.scrollWidth - innerWidth")


def order(page: StudioPage) -> list[str]:
    """The preset's prompts in their order."""
    return page.browser.run(
        "return [...document.querySelectorAll('.order .name')].map(e => e.firstChild.textContent.trim())"
    )
