"""The comparison with an installed SillyTavern, against a WebDriver that only pretends to have a browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.against_sillytavern import __main__ as comparison
from benchmarks.against_sillytavern.webdriver import ELEMENT, ENTER
from tavernkit.cards import load
from tavernkit.silly_tavern import ChatFile, Preset, WorldBook


class FakeDriver(ThreadingHTTPServer):
    """Answers what a page with an open chat would answer; each request took 200 milliseconds."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.calls: list[tuple[str, str]] = []
        self.sent: list[str] = []
        self.has_box = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, method: str, path: str, body: dict[str, Any]) -> object:
        self.calls.append((method, path))
        if path == "/session":
            return {"sessionId": "s1"}
        if path.endswith("/value"):
            self.sent.append(body["text"])
        script = str(body.get("script", ""))
        if "tavernkit: input" in script:
            return {ELEMENT: "e1"} if self.has_box else None
        if "tavernkit: read" in script:
            return [[200.0] * len(self.sent), [250] * len(self.sent)]
        return None


class _Handler(BaseHTTPRequestHandler):
    server: FakeDriver  # pyright: ignore[reportIncompatibleVariableOverride]  # the server that made it

    def _reply(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        known = self.path == "/session" or self.path.startswith("/session/s1")
        value = self.server.answer(self.command, self.path, body) if known else {"message": "no such session"}
        content = json.dumps({"value": value}).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_DELETE = _reply  # the names that http.server calls

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
        """Say nothing."""


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    server = FakeDriver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def run(driver: FakeDriver, *more: str) -> int:
    return comparison.main(["run", "--webdriver", driver.address, "--url", "http://st.invalid", "--ready", *more])


def test_the_turns_are_sent_and_the_ratios_printed(driver: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(driver, "--turns", "2") == 0
    assert driver.sent == [f"And the {turn}th door?{ENTER}" for turn in range(2)]
    assert driver.calls[1] == ("POST", "/session/s1/url")
    assert driver.calls[-1] == ("DELETE", "/session/s1")
    table = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in table[2:]] == [
        "first turn",
        "next turns, median",
        "next turns, least",
        "messages of the last prompt",
    ]
    assert all(line.split("|")[2].strip() == "200.0 ms" for line in table[2:5])
    assert table[5].split("|")[2].strip() == "250"
    assert int(table[5].split("|")[3]) > 200


def test_a_page_without_a_chat_is_explained(driver: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    driver.has_box = False
    assert run(driver) == 1
    assert "open the chat first" in capsys.readouterr().err
    assert driver.calls[-1] == ("DELETE", "/session/s1")


def test_what_a_driver_refuses_is_said(driver: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    assert comparison.main(["run", "--webdriver", f"{driver.address}/nowhere", "--ready"]) == 1
    assert "no such session" in capsys.readouterr().err


def test_the_files_are_read_as_sillytavern_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert comparison.main(["files", str(tmp_path)]) == 0
    assert "import" in capsys.readouterr().out
    assert load(tmp_path / "card.json").character.name == "Lyra"
    assert len(WorldBook.load(tmp_path / "world.json", strict=True)) == 200
    assert len(ChatFile.load(tmp_path / "chat.jsonl", strict=True)) == 300
    assert Preset.load(tmp_path / "preset.json").model == "gpt-4"
