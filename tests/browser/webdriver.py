"""Just enough of the WebDriver protocol to click through a page in headless Chromium."""

from __future__ import annotations

import base64
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {
    "ctrl": "\ue009",
    "shift": "\ue008",
    "tab": "\ue004",
    "enter": "\ue007",
    "escape": "\ue00c",
    "left": "\ue012",
    "up": "\ue013",
    "right": "\ue014",
    "down": "\ue015",
    "end": "\ue010",
    "home": "\ue011",
    "backspace": "\ue003",
}
PATIENCE = 30.0
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,1000"]


class Element:
    """One element of the page."""

    def __init__(self, browser: Browser, identity: str) -> None:
        self._browser, self.identity = browser, identity
        self._path = f"/element/{identity}"

    @property
    def reference(self) -> dict[str, str]:
        """What stands for it among the arguments of a script."""
        return {ELEMENT: self.identity}

    def click(self) -> None:
        self._browser.post(f"{self._path}/click", {})

    def type(self, text: str) -> None:
        self._browser.post(f"{self._path}/value", {"text": text})

    def clear(self) -> None:
        self._browser.post(f"{self._path}/clear", {})

    @property
    def text(self) -> str:
        return self._browser.get(f"{self._path}/text")

    @property
    def shown(self) -> bool:
        return self._browser.get(f"{self._path}/displayed")

    def attribute(self, name: str) -> str | None:
        return self._browser.get(f"{self._path}/attribute/{name}")


class Browser:
    """A session of a browser."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client, self._session = client, f"/session/{session}"

    def open(self, path: Path | str) -> None:
        self.post("/url", {"url": path if isinstance(path, str) else path.as_uri()})

    def resize(self, width: int, height: int) -> None:
        """Show the page at this size, as on a screen of that size: windows cannot be as small as phones."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def command(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run a command of the developer tools."""
        return self.post("/goog/cdp/execute", {"cmd": name, "params": arguments})

    def keys(self, *keys: str) -> None:
        """Press keys one after the other; ``"ctrl+z"`` holds the first while the second is pressed."""
        actions: list[dict[str, str]] = []
        for key in keys:
            *held, last = [KEYS.get(name, name) for name in (key.split("+") if len(key) > 1 else [key])]
            actions += [{"type": "keyDown", "value": each} for each in (*held, last)]
            actions += [{"type": "keyUp", "value": each} for each in (last, *reversed(held))]
        self.post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def point(self, element: Element, kind: str = "mouse", *, press: bool = False) -> None:
        """Move a mouse over an element, or touch it."""
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {ELEMENT: element.identity}}
        press_it = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}] if press else []
        pointer = {"type": "pointer", "id": kind, "parameters": {"pointerType": kind}, "actions": [move, *press_it]}
        self.post("/actions", {"actions": [pointer]})

    def all(self, selector: str) -> list[Element]:
        found = self.post("/elements", {"using": "css selector", "value": selector})
        return [Element(self, each[ELEMENT]) for each in found]

    def one(self, selector: str) -> Element:
        return Element(self, self.post("/element", {"using": "css selector", "value": selector})[ELEMENT])

    def shown(self, selector: str) -> list[Element]:
        return [element for element in self.all(selector) if element.shown]

    def run(self, script: str, *arguments: Any) -> Any:
        return self.post("/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str, *arguments: Any) -> Any:
        """Run a script whose last argument is the function to call with its result."""
        return self.post("/execute/async", {"script": script, "args": list(arguments)})

    def find(self, script: str) -> Element:
        """The element that a script returns, as for what a selector does not reach."""
        return Element(self, self.run(script)[ELEMENT])

    def errors(self) -> list[str]:
        entries = self.post("/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(self.screenshot_bytes())

    def screenshot_bytes(self) -> bytes:
        return base64.b64decode(self.get("/screenshot"))

    def wait(self, condition: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError("the page did not get there in time")
            time.sleep(0.02)

    def get(self, path: str) -> Any:
        return _value(self._client.get(self._session + path))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return _value(self._client.post(self._session + path, json=body))


@contextmanager
def chromium() -> Generator[Browser]:
    """Start Chromium and end it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False) as client:
            _wait_until_ready(client)
            wanted = {"goog:chromeOptions": {"args": OPTIONS}, "goog:loggingPrefs": {"browser": "ALL"}}
            session = _value(client.post("/session", json={"capabilities": {"alwaysMatch": wanted}}))["sessionId"]
            try:
                yield Browser(client, session)
            finally:
                client.delete(f"/session/{session}")
    finally:
        driver.terminate()
        driver.wait(timeout=PATIENCE)


def _wait_until_ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if _value(client.get("/status"))["ready"]:
                return
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _value(response: httpx.Response) -> Any:
    value = response.json()["value"]
    assert response.is_success, value
    return value
