"""Other pages, other names and other people get nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.studio._app import model_choice
from tests.studio.conftest import BASE, TOKEN, Page


def test_another_server_does_not_get_the_providers_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the provider's")
    for own in (None, "its own"):
        if own is not None:
            monkeypatch.setenv("TAVERNKIT_API_KEY", own)
        made: Any = model_choice("openai:gpt-4o", "http://127.0.0.1:9").make()
        assert made.inner.endpoint.api_key == own


def test_the_api_needs_the_token(page: Page) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}, {"cookie": TOKEN}):
        page.client.headers.pop("authorization", None)
        answer = page.client.get("/api/studio/workspace", headers=headers)
        assert answer.status_code == 401, headers
        assert answer.json()["error"]["code"] == "invalid_token"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[::2]"])
def test_other_names_that_lead_here_are_refused(page: Page, host: str) -> None:
    for path in ("/", "/api/studio/workspace"):
        assert page.client.get(path, headers={"host": host}).status_code == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8000"])
def test_other_pages_are_refused_even_with_the_token(page: Page, origin: str) -> None:
    answer = page.client.post("/api/studio/build", json={}, headers={"origin": origin})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "origin_not_allowed"


def test_the_page_itself_is_answered(page: Page) -> None:
    answer = page.client.post("/api/studio/build", json={}, headers={"origin": BASE, "sec-fetch-site": "same-origin"})
    assert answer.status_code == 200
    crossed = page.client.post("/api/studio/build", json={}, headers={"sec-fetch-site": "cross-site"})
    assert crossed.status_code == 403


def test_the_policy_lets_no_inline_script_run_and_loads_nothing_from_elsewhere(page: Page) -> None:
    for path in ("/", "/api/studio/workspace", "/studio/nothing.js"):
        policy = page.client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize(
    "path", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "page/../../app.py", "app.py", "/etc/passwd", "a/%00.js", ""]
)
def test_only_the_pages_own_files_are_served(page: Page, path: str) -> None:
    assert page.client.get(f"/studio/{path}").status_code == 404


def test_the_token_is_in_no_file_of_the_page(page: Page) -> None:
    assert TOKEN not in page.client.get("/").text


def test_large_bodies_are_refused(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.studio._security.MAX_BODY_BYTES", 1000)
    answer = page.client.post("/api/studio/build", content=b"x" * 2000)
    assert answer.status_code == 413
    assert page.client.post("/api/studio/build", content=iter([b"x" * 600] * 3)).status_code in (400, 413)


def test_hostile_names_do_nothing(page: Page) -> None:
    name = '<script>alert(1)</script>../../../x\x00"\r\nset-cookie: a=b'
    page.edit("card-1", "/data/name", name)
    added = page.post("/documents", kind="book", name=name)["documents"][0]
    answer = page.client.get(f"/api/studio/documents/{added['id']}/download")
    assert "\n" not in answer.headers["content-disposition"]
    assert "set-cookie" not in answer.headers
    assert page.get("/workspace")["documents"][0]["name"] == name
    assert page.client.get("/api/studio/workspace").headers["content-type"].startswith("application/json")


def test_halves_of_characters_and_odd_numbers_come_back_as_json(page: Page) -> None:
    page.client.post(
        "/api/studio/edit",
        content=b'{"edits":[{"document":"card-1","op":"replace","path":"/data/name","value":"\\ud83d"}]}',
        headers={"content-type": "application/json"},
    )
    page.get("/workspace")
