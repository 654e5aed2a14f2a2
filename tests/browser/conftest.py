"""A browser for all of its tests, and Studio's page in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tavernkit.examples import example_path
from tavernkit.studio._app import open_studio
from tests.browser.studio_page import DESK, StudioPage, files_of, serving
from tests.browser.webdriver import Browser, chromium


@pytest.fixture(scope="session")
def started_browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def browser(started_browser: Browser) -> Browser:
    """The browser with an empty page and an empty log: the last test's page may have missed its server since."""
    started_browser.open("about:blank")
    started_browser.errors()
    return started_browser


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped example as files of the user's."""
    for name in ("aria.json", "tidewatch.json", "preset.json", "chat.jsonl"):
        shutil.copy(example_path(name), tmp_path / name)
    return tmp_path


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Browser, folder: Path) -> Iterator[StudioPage]:
    """The page at the size that the test names (a desk by default), with the example's files or what the test opens."""
    size, make = getattr(request, "param", (DESK, None))
    found = StudioPage(browser, size, folder)
    with serving(open_studio(files_of(folder)) if make is None else make(folder)) as address:
        found.open(address)
        yield found
        shots = os.environ.get("TAVERNKIT_SCREENSHOTS")
        if shots:
            name = os.environ["PYTEST_CURRENT_TEST"].split("::")[1].split(" ")[0].replace("/", "_")
            browser.screenshot(Path(shots) / f"{name}.png")
        assert found.overflow() <= 0
        # Among them: what the Content-Security-Policy refused.
        assert browser.errors() == []
        assert browser.run(
            "return performance.getEntriesByType('resource').every(e => new URL(e.name).origin === location.origin)"
        )
        browser.open("about:blank")
    browser.command("Emulation.clearDeviceMetricsOverride", {})
