"""Every route of the OpenAPI document, asked in wrong ways: an error in OpenAI's shape, never one of the server's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.server.conftest import Client, StartApp

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE")
JSON = {"content-type": "application/json"}
ERROR_KEYS = {"message", "type", "param", "code"}

BODIES = [
    b"",
    b"{",
    b"null",
    b"1",
    b'"text"',
    b"[]",
    b"{}",
    b"\xff\xfe",
    b'{"name": NaN}',
    b'{"\\ud800": "\\ud800"}',
    b"[" * 5000 + b"]" * 5000,
    b'{"a":' * 3000 + b"1" + b"}" * 3000,
]
VALUES: list[object] = [None, -1, 10**400, 1e308, True, "", "x" * 100_000, "\0", "\ud800", [], {}, [None], {"a": [{}]}]
FILES = [
    ("x.json", b""),
    ("x.json", b"{"),
    ("x.json", b'{"spec": "chara_card_v2", "data": 5}'),
    ("x.json", b'{"entries": 5}'),
    ("x.json", b'{"name": 5, "members": 7}'),
    ("x.png", b"\x89PNG\r\n\x1a\n"),
    ("x.charx", b"PK\x03\x04"),
    ("x.zip", b"PK"),
    ("x.risum", b"\0" * 50),
    ("x.risup", b"junk"),
    ("x.jsonl", b"{}\n{"),
    ("\0", b"{}"),
]
IDS = ("nothing", "..", "%00", "%ed%a0%80", "a" * 3000)
NUMBERS = ("", "x", "-1", "1" * 50, "nan", "1e400", "1:\0")
GOOD: dict[str, object] = {
    "model": "aria",
    "messages": [{"role": "user", "content": "x"}],
    "content": "x",
    "name": "x",
    "members": ["aria"],
    "message_id": "nothing",
    "swipe": 0,
    "api_key": "k",
    "scopes": ["chat"],
}


def is_told(reply: httpx.Response) -> bool:
    """Whether an answer is fine, or an error as it is documented."""
    if reply.status_code < 400:
        return True
    told = reply.json()
    told.pop("type", None)  # Anthropic's protocol has it
    return reply.status_code < 500 and set(told) == {"error"} and set(told["error"]) == ERROR_KEYS


def requests(document: dict[str, Any], session: str) -> Iterator[dict[str, Any]]:
    for template, operations in document["paths"].items():
        names = [part[1:-1] for part in template.split("/") if part.startswith("{")]
        known = {"session_id": session, "kind": "regenerate", "plural": "characters", "item_id": "aria"}
        for odd in IDS if names else ("",):
            path = template
            for name in names:
                path = path.replace(f"{{{name}}}", odd if odd.startswith("%") else quote(odd, safe=""))
            yield from ({"method": method, "url": path} for method in METHODS)
        path = template
        for name in names:
            path = path.replace(f"{{{name}}}", known.get(name, "nothing"))
        for method, operation in operations.items():
            if method != "delete":
                yield from _wrong(document, operation, {"method": method.upper(), "url": path})


def _wrong(document: dict[str, Any], operation: dict[str, Any], request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "query":
            yield from ({**request, "params": {parameter["name"]: value}} for value in NUMBERS)
        if parameter["in"] == "header":
            yield {**request, "headers": {parameter["name"]: "a" * 5000}}
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        yield from ({**request, "content": body, "headers": JSON} for body in BODIES)
        schema = content["application/json"]["schema"]
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        fields = schema.get("properties", {})
        good = {name: value for name, value in GOOD.items() if name in fields}
        for name in fields:
            for value in VALUES:
                yield {**request, "content": json.dumps({**good, name: value}).encode(), "headers": JSON}
    if "multipart/form-data" in content:
        yield from ({**request, "files": {"file": file}} for file in FILES)
        yield {**request, "content": b"junk", "headers": {"content-type": "multipart/form-data"}}
        yield {**request, "content": b"junk", "headers": {"content-type": "multipart/form-data; boundary=x"}}
        yield {**request, "data": {"file": "text"}}


@pytest.mark.parametrize("keys", [{}, {"secret_key": "word"}], ids=["without secrets", "with secrets"])
async def test_no_request_is_wrong_in_a_way_that_the_server_does_not_tell(
    start: StartApp, keys: dict[str, str]
) -> None:
    async with start(busy_seconds=0, max_imports=100, **keys) as client:
        session = (await client.post("/api/sessions", json={"model": "aria"})).json()["id"]
        document = (await client.get("/openapi.json")).json()
        asked = list(requests(document, session))
        wrong = [request for request in asked if not is_told(await client.request(**request))]
        await _all_imports(client)
    assert len(asked) > 1000
    assert [str(request)[:300] for request in wrong] == []


async def _all_imports(client: Client) -> None:
    for task in list(client.service.imports._tasks):
        await task


async def test_a_body_that_is_no_object_is_called_the_body(client: Client) -> None:
    answer = await client.post("/api/groups", json="not an object")
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith("the body: ")


TEXT = {"role": "user", "content": "secret"}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("responses", {"input": [{"role": "secret", "content": "x"}]}, "messages.0.role"),
        ("responses", {"input": [{"type": "reasoning"}]}, "messages"),
        ("messages", {"max_tokens": 5, "messages": [TEXT], "n": "secret"}, "n"),
        ("messages", {"max_tokens": 5, "messages": [TEXT] * 10_000, "system": "secret"}, "messages"),
        ("completions", {"prompt": "x", "tools": "secret"}, "tools"),
    ],
)
async def test_what_other_protocols_have_wrong_is_named_and_not_logged(
    client: Client, caplog: pytest.LogCaptureFixture, path: str, body: dict[str, Any], param: str
) -> None:
    reply = await client.post(f"/v1/{path}", json={"model": "aria", **body})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert "secret" not in caplog.text


async def test_a_body_that_is_not_json_is_called_the_body(client: Client) -> None:
    error = (await client.post("/api/groups", content=b"{", headers=JSON)).json()["error"]
    assert (error["message"], error["param"]) == ("the body: JSON decode error", None)


@pytest.mark.parametrize(("item_id", "status"), [("%2E", 422), ("%2E%2E", 422), ("..a", 200), (".a.b-c", 200)])
async def test_ids_that_paths_cannot_have_are_refused(client: Client, item_id: str, status: int) -> None:
    answer = await client.put(f"/api/personas/{item_id}", json={"name": "Bob"})
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("wrong", ["json", 5, ["json_object"]])
async def test_a_format_of_replies_is_an_object(client: Client, wrong: object) -> None:
    body = {"model": "aria", "messages": [{"role": "user", "content": "x"}], "response_format": wrong}
    refused = await client.post("/v1/chat/completions", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "response_format"
    session = (await client.post("/api/sessions", json={"model": "aria"})).json()["id"]
    options = {"content": "x", "options": {"response_format": wrong}}
    assert (await client.post(f"/api/sessions/{session}/messages", json=options)).status_code == 422
