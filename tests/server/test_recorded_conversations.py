"""Recorded conversations through the REST API, for the operations it has: the same prompts, the same stored chat."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tavernkit.server.talks import silly_tavern_lines
from tavernkit.testing import ScriptedModel
from tests.conformance.adapters.silly_tavern.conversations import defaults
from tests.conformance.runner import VECTORS
from tests.server.conftest import Client, StartApp

INPUTS = {"user_name", "card", "books", "global_books", "chat_id", "operations", "preset"}
OPERATIONS = {"send", "regenerate", "swipe", "continue", "impersonate", "edit", "delete_from"}
UNREPEATABLE = ("{{random", "{{roll", "{{pick", "{{idle", "{{time")
MOST = 40


def cases() -> list[Any]:
    lines = (VECTORS / "silly_tavern" / "conversations.jsonl").read_text("utf-8").splitlines()
    read = [json.loads(line) for line in lines if not any(word in line for word in UNREPEATABLE)]
    found = [case for case in read if _can_begin(case["input"]) and all(map(_can, case["input"]["operations"]))]
    return [pytest.param(case, id=case["id"].rsplit("-", 1)[1]) for case in found[:MOST]]


def _can_begin(given: Any) -> bool:
    """Return True for a card alone: what it is linked to would have to be imported with a whole folder."""
    return set(given) <= INPUTS and "card" in given and not given["card"]["data"]["extensions"]


def _can(operation: Any) -> bool:
    if operation["op"] == "send":
        return bool(operation["text"]) and not operation["text"].startswith("/") and _asks(operation)
    if operation["op"] == "continue":
        return not operation.get("text") and _asks(operation)
    if operation["op"] == "swipe":
        return operation.get("direction", "right") == "right" and "index" not in operation and _asks(operation)
    return operation["op"] in OPERATIONS


def _asks(operation: Any) -> bool:
    """One reply, which is a text and which is asked for."""
    return isinstance(operation.get("reply"), str) and "not used" not in operation["reply"]


@pytest.mark.parametrize("case", cases())
async def test_the_service_does_what_was_recorded(start: StartApp, case: Any) -> None:
    given, expected = case["input"], case["expected"]
    replies = [each["reply"] for each in given["operations"] if "reply" in each]
    model = ScriptedModel(*replies, name="gpt-4o")
    async with start(model, user_name=given["user_name"]) as client:
        base = await begin(client, given)
        assert await stored(client, base) == seen(expected["opened"])
        for operation, step in zip(given["operations"], expected["steps"], strict=True):
            before = len(model.requests)
            await operate(client, base, operation)
            assert [each["messages"] for each in model.requests[before:]] == [
                each["messages"] for each in step["requests"]
            ]
            assert await stored(client, base) == seen(step)


@pytest.mark.parametrize("case", cases()[:12])
async def test_long_chats_of_which_only_the_end_is_converted_are_the_same(
    start: StartApp, case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silly_tavern_lines, "CHANGEABLE_LINES", 1)
    await test_the_service_does_what_was_recorded(start, case)


async def begin(client: Client, given: Any) -> str:
    await client.post("/api/characters", files={"file": ("card.json", json.dumps(given["card"]))})
    preset = {**defaults()["preset"], **given.get("preset", {})}
    await client.post("/api/presets", files={"file": ("Conv.json", json.dumps(preset))})
    books = given.get("global_books", [])
    for name in books:
        await client.post("/api/books", files={"file": (f"{name}.json", json.dumps(given["books"][name]))})
    listed = (await client.get("/api/characters")).json()["data"]
    character = next(each["id"] for each in listed if each["name"] == given["card"]["data"]["name"])
    choices = {"preset": "conv", "books": [name.lower() for name in books]}
    body = {"model": character, "tavernkit": choices}
    made = await client.post("/api/sessions", json=body)
    assert made.status_code == 201, made.text
    return f"/api/sessions/{made.json()['id']}"


async def operate(client: Client, base: str, operation: Any) -> None:
    kind = operation["op"]
    if kind == "send":
        answer = await client.post(f"{base}/messages", json={"content": operation["text"]})
    elif kind in ("edit", "delete_from"):
        line = (await client.get(f"{base}/messages")).json()["data"][operation["index"]]
        path = f"{base}/messages/{line['id']}"
        if kind == "edit":
            answer = await client.patch(path, json={"content": operation["text"]})
        else:
            answer = await client.delete(path, params={"following": True})
    else:
        answer = await client.post(f"{base}/{kind}", json={})
    assert answer.is_success, answer.text


async def stored(client: Client, base: str) -> list[tuple[object, ...]]:
    lines = (await client.get(f"{base}/messages")).json()["data"]
    return [(line["role"], line["content"], line.get("swipes") or [line["content"]]) for line in lines]


def seen(step: Any) -> list[tuple[object, ...]]:
    return [
        ("user" if line["is_user"] else "assistant", line["mes"], line.get("swipes") or [line["mes"]])
        for line in step["chat"]
    ]
