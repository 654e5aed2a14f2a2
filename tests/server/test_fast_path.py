"""The fast path for busy routes: it answers as FastAPI does, only faster."""

from __future__ import annotations

import re

import pytest

from tavernkit.server.limits import MAX_JSON_BODY_BYTES
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"
VALID = b'{"model": "aria", "messages": [{"role": "user", "content": "Hello"}]}'
JSON = {"content-type": "application/json"}
REQUESTS: dict[str, tuple[bytes, dict[str, str]]] = {
    "valid": (VALID, JSON),
    "other capitals and a charset": (VALID, {"content-type": "Application/JSON; charset=utf-8"}),
    "a kind of JSON": (VALID, {"content-type": "application/x+json"}),
    "a stream": (VALID.replace(b"{", b'{"stream": true, ', 1), JSON),
    "not JSON": (b"{", JSON),
    "nothing": (b"", JSON),
    "not an object": (b"[1]", JSON),
    "not UTF-8": (b'{"model": "\xff"}', JSON),
    "nested": (b'{"model": ' + b"[" * 100_000, JSON),
    "no type": (VALID, {}),
    "another type": (VALID, {"content-type": "text/plain"}),
    "nothing in it": (b"{}", JSON),
    "a wrong value": (VALID.replace(b"{", b'{"n": 9, ', 1), JSON),
    "a long session": (VALID, {**JSON, "x-tavern-session": "s" * 201}),
    "a long key": (VALID, {**JSON, "idempotency-key": "s" * 201}),
    "an unknown model": (VALID.replace(b"aria", b"nobody"), JSON),
    "another scheme": (VALID, {**JSON, "authorization": "Basic x"}),
    "an unknown key": (VALID, {**JSON, "authorization": "Bearer tk-unknown"}),
    "another header of keys": (VALID, {**JSON, "x-api-key": "tk-unknown"}),
    "a wrong value and an unknown key": (b"{}", {**JSON, "authorization": "Bearer tk-unknown"}),
    "too large": (b" " * (MAX_JSON_BODY_BYTES + 1), JSON),
    "another origin": (VALID, {**JSON, "origin": "https://example.org"}),
}
_CHANGING = re.compile(r"[0-9a-f]{32}|\"created\":\d+")


SAID = b'{"content": "Hello"}'
REST = {
    "said": (SAID, JSON),
    "explained": (b'{"content": "Hello", "explain": true, "options": {"temperature": 0.5}}', JSON),
    "streamed": (b'{"content": "Hello", "stream": true}', JSON),
    "nothing said": (b'{"content": ""}', JSON),
    "an unknown field": (b'{"content": "Hello", "x": 1}', JSON),
    "no JSON": (b"Hello", JSON),
}
IDS = ("none", "x" * 101, "a%2Fb", "a%20b", "\u00e4", "a/b")


async def answers(client: Client) -> dict[str, object]:
    """What a client sees of every request, and what is counted of all."""
    found: dict[str, object] = {}
    session = (await client.post("/api/sessions", json={"model": "aria"})).json()["id"]
    for name, (body, headers) in REST.items():
        reply = await client.post(f"/api/sessions/{session}/messages", content=body, headers=headers)
        found[name] = reply.status_code, reply.headers["content-type"], _CHANGING.sub("", reply.text)
    for each in IDS:
        path = f"/api/sessions/{each}/messages"
        reply = await client.post(path, content=SAID, headers=JSON)
        found[path] = reply.status_code, reply.text
    for name, (body, headers) in REQUESTS.items():
        reply = await client.post(CHAT, content=body, headers={**headers, "x-request-id": "r"})
        found[name] = reply.status_code, sorted(reply.headers.items()), _CHANGING.sub("", reply.text)
    text = client.service.metrics.text().decode()
    return {**found, "counted": [line for line in text.splitlines() if "requests_total" in line]}


async def test_answers_are_those_of_the_long_way(start: StartApp, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start() as client:
        short = await answers(client)
    monkeypatch.setattr("tavernkit.server.app.FAST_ROUTES", ())
    async with start() as client:
        long = await answers(client)
    assert short == long


async def test_a_key_without_the_scope_is_refused(start: StartApp) -> None:
    async with start(require_keys=True) as client:
        _, token = await client.service.keys.create("reader", ("read",))
        refused = await client.post(CHAT, content=VALID, headers={**JSON, "authorization": f"Bearer {token}"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_scope")


async def test_valid_requests_take_the_fast_path(start: StartApp, monkeypatch: pytest.MonkeyPatch) -> None:
    async def solve(**_: object) -> None:
        raise AssertionError("FastAPI was asked")

    monkeypatch.setattr("fastapi.routing.solve_dependencies", solve)
    async with start() as client:
        assert (await client.post(CHAT, content=VALID, headers=JSON)).status_code == 200
        assert (await client.post("/api/sessions/none/messages", content=SAID, headers=JSON)).status_code == 404
