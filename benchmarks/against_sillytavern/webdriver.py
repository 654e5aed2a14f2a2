"""As much of W3C WebDriver as it takes to open a page, type into it and run a script there."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key under which the protocol names an element."""

ENTER = "\ue007"
TIMEOUT_SECONDS = 120.0
BROWSER = {"goog:chromeOptions": {"args": ["--window-size=1400,1000"]}}


class WebDriverError(Exception):
    """The driver refused something, or cannot be reached."""


class Browser:
    """A session of a WebDriver. Use it in a ``with`` statement: leaving it closes the window."""

    def __init__(self, address: str) -> None:
        """Open a window.

        Args:
            address: Where ``chromedriver`` or ``geckodriver`` listens, e.g. ``http://127.0.0.1:9515``.
        """
        self._address = address.rstrip("/")
        made = self._call("POST", "/session", {"capabilities": {"firstMatch": [BROWSER, {}]}})
        self._session = f"/session/{made['sessionId']}"

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._call("DELETE", self._session)

    def open(self, url: str) -> None:
        """Go to a page."""
        self._call("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script in the page and return what it returns."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def type(self, element: Any, text: str) -> None:
        """Type into an element that a script returned."""
        self._call("POST", f"{self._session}/element/{element[ELEMENT]}/value", {"text": text})

    def _call(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._address + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                return json.load(response).get("value")
        except urllib.error.HTTPError as error:
            with error:
                raise WebDriverError(_reason(error.read()) or str(error)) from error
        except OSError as error:
            raise WebDriverError(f"no WebDriver answers at {self._address}: {error}") from error


def _reason(body: bytes) -> str:
    try:
        value = json.loads(body).get("value")
    except (ValueError, AttributeError):
        return ""
    return str(value.get("message", "")) if isinstance(value, dict) else ""
