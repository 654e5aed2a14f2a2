"""Recorded RisuAI conversations through the REST API, for the operations it has: the same prompts and chat."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tavernkit.cards._png import placeholder_png
from tavernkit.cards._risu_ai.exporting import export_charx
from tavernkit.server.limits import MAX_HELPER_REQUESTS
from tavernkit.testing import ScriptedModel, failure
from tests.conformance.adapters.risu_ai.build import defaults
from tests.conformance.adapters.risu_ai.conversations import stored_character
from tests.conformance.runner import VECTORS
from tests.server.conftest import Client, StartApp

PRESET_KEYS = {"mainPrompt", "globalNote", "promptTemplate", "maxContext", "maxResponse", "jailbreak", "useSayNothing"}
UNREPEATABLE = ("{{random", "{{roll", "{{pick", "{{time", "{{date", "{{isotime", "{{unixtime", "{{idle", "{{message_")
PARTS = 4
MODEL_OPERATIONS = ("send", "reroll", "continue")


def cases() -> list[Any]:
    lines = (VECTORS / "risu_ai" / "conversations.jsonl").read_text("utf-8").splitlines()
    read = [json.loads(line) for line in lines if not any(word in line for word in UNREPEATABLE)]
    return [case for case in read if _can(case)]


def _can(case: Any) -> bool:
    given, expected = case["input"], case["expected"]
    if set(given) - {"characters", "db", "operations"} or set(given["db"]) - PRESET_KEYS:
        return False
    character = given["characters"][0]
    if len(given["characters"]) > 1 or "chats" in character or "escapeOutput" in character:
        return False  # cards have no place for these
    if given["db"].get("useSayNothing", True) and any(each["op"] == "continue" for each in given["operations"]):
        return False  # here nobody says "*says nothing*" for the user
    return all(map(_can_operate, given["operations"], expected["steps"]))


def _can_operate(operation: Any, step: Any) -> bool:
    kind = operation["op"]
    if "exception" in step or "character_changes" in step or "db_changes" in step or "alerts" in step:
        return False  # what changes cards and settings is a folder's or a save's, not a session's
    if kind in ("edit", "delete"):
        return True
    text = operation.get("text", "")
    typed = bool(text) and not text.startswith("/") if kind == "send" else not text
    return kind in MODEL_OPERATIONS and typed and bool(step["requests"]) and all(map(_is_text, operation["replies"]))


def _is_text(reply: Any) -> bool:
    return isinstance(reply, str) or (isinstance(reply, dict) and "error" in reply)


@pytest.mark.parametrize("part", range(PARTS))
async def test_the_service_does_what_was_recorded(start: StartApp, part: int) -> None:
    for_this = cases()[part::PARTS]
    assert len(for_this) >= 10
    model = ScriptedModel(*(reply for case in for_this for reply in all_replies(case)), name="gpt-4o")
    async with start(model, user_name="Ann") as client:
        for case in for_this:
            await replay(client, model, case)


async def replay(client: Client, model: ScriptedModel, case: Any) -> None:
    given, told = case["input"], case["id"]
    base = await begin(client, given, told)
    for operation, step in zip(given["operations"], case["expected"]["steps"], strict=True):
        before = len(model.requests)
        await operate(client, base, operation)
        sent = [each["messages"] for each in model.requests[before:]]
        assert sent == [each["messages"] for each in step["requests"]], told
        assert await stored(client, base) == [(line["role"], line["data"]) for line in step["messages"]], told
        assert await variables(client, base) == step["scriptstate"], told


def all_replies(case: Any) -> list[Any]:
    return [
        reply if isinstance(reply, str) else failure(400, reply["error"])
        for operation, step in zip(case["input"]["operations"], case["expected"]["steps"], strict=True)
        for reply in asked(operation, step)
    ]


def asked(operation: Any, step: Any) -> list[Any]:
    """The replies that an operation gets, one for each request."""
    replies = operation.get("replies", ["OK."])
    return [replies[number % len(replies)] for number in range(len(step["requests"]))]


async def begin(client: Client, given: Any, name: str) -> str:
    raw = stored_character(given["characters"][0], 0).raw
    card = export_charx({key: raw[key] for key in raw if key != "chats"}, lambda _: placeholder_png(), now=0)
    made = await client.post("/api/characters", files={"file": ("card.charx", card)})
    assert made.status_code == 201, made.text
    base = defaults()
    preset = {**base["risu_defaults"], **base["db"], **given["db"]}
    uploaded = await client.post("/api/presets", files={"file": (f"{name}.json", json.dumps(preset))})
    assert uploaded.status_code == 201, uploaded.text
    choices = {"platform": "risu_ai", "preset": uploaded.json()["id"]}
    session = await client.post("/api/sessions", json={"model": made.json()["id"], "tavernkit": choices})
    assert session.status_code == 201, session.text
    return f"/api/sessions/{session.json()['id']}"


async def operate(client: Client, base: str, operation: Any) -> None:
    kind = operation["op"]
    if kind == "send":
        answer = await client.post(f"{base}/messages", json={"content": operation["text"]})
    elif kind in ("edit", "delete"):
        line = (await client.get(f"{base}/messages")).json()["data"][operation["index"]]
        path = f"{base}/messages/{line['id']}"
        if kind == "edit":
            answer = await client.patch(path, json={"content": operation["data"]})
        else:
            answer = await client.delete(path, params={"following": bool(operation.get("following"))})
    else:
        answer = await client.post(f"{base}/{'swipe' if kind == 'reroll' else kind}", json={})
    failed = any(isinstance(reply, dict) for reply in operation.get("replies", ()))
    assert answer.is_success or failed, answer.text


async def stored(client: Client, base: str) -> list[tuple[object, ...]]:
    lines = (await client.get(f"{base}/messages")).json()["data"]
    return [({"user": "user"}.get(line["role"], "char"), line["content"]) for line in lines]


async def variables(client: Client, base: str) -> dict[str, Any]:
    found = (await client.get(base)).json()["variables"]
    return {f"${name}": value for name, value in found.items()}


async def test_what_a_trigger_asks_is_not_streamed_to_the_client(start: StartApp) -> None:
    case = next(each for each in cases() if each["id"].endswith("-0092"))
    async with start(ScriptedModel("a plan", "the reply", "a rating", name="gpt-4o")) as client:
        base = await begin(client, case["input"], "quiet")
        answer = await client.post(f"{base}/messages", json={"content": "a", "stream": True})
        assert await stored(client, base) == [("user", "a"), ("char", "the reply")]
    assert "the reply" in answer.text
    assert "a plan" not in answer.text
    assert "a rating" not in answer.text


async def test_a_card_may_ask_only_so_often_beside_the_chat(start: StartApp) -> None:
    case = json.loads(json.dumps(next(each for each in cases() if each["id"].endswith("-0092"))))
    code = "onStart = async(function(id) for i=1,100 do LLM(id,{{role='user',content='more'}}) end end)"
    case["input"]["characters"][0]["triggerscript"][0]["effect"][0]["code"] = code
    model = ScriptedModel(*["ok"] * 200, name="gpt-4o")
    async with start(model) as client:
        base = await begin(client, case["input"], "greedy")
        answer = await client.post(f"{base}/messages", json={"content": "a"})
    assert answer.status_code == 200, answer.text
    assert len(model.requests) == MAX_HELPER_REQUESTS + 1
