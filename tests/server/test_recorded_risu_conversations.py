"""Recorded RisuAI conversations through the REST API, for the operations it has: the same prompts and chat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tavernkit.risu_ai import _context
from tavernkit.risu_ai._conversation import chat
from tavernkit.server.limits import MAX_HELPER_REQUESTS
from tavernkit.testing import ScriptedModel, failure
from tests.conformance.runner import VECTORS
from tests.server.conftest import Client, StartApp
from tests.server.risu_replay import (
    MISSING_FORMS,
    MISSING_OPERATIONS,
    MISSING_SETTINGS,
    QUIRKS,
    RecordedModel,
    Replay,
    masked,
    missing,
)
from tests.server.st_replay import Dice

PARTS, OF_PARTS = 4, 5
"""How many parts of the cases are run."""


def recorded() -> list[Any]:
    lines = (VECTORS / "risu_ai" / "conversations.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def cases() -> list[Any]:
    return [case for case in recorded() if not missing(case)]


def test_whatever_is_left_out_has_a_reason() -> None:
    for case in recorded():
        assert missing(case) <= {*MISSING_SETTINGS, *MISSING_OPERATIONS, *MISSING_FORMS}, case["id"]
    kinds = {each.get("type", "character") for case in cases() for each in case["input"]["characters"]}
    assert kinds == {"character", "group"}
    assert len(cases()) >= 164


@pytest.mark.parametrize("part", range(PARTS))
async def test_the_service_does_what_was_recorded(
    start: StartApp, tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, dice = RecordedModel(), Dice()
    for module in (_context, chat):
        monkeypatch.setattr(module, "random_numbers", lambda _: dice)
    async with start(model, user_name="Ann") as client:
        for case in cases()[part::OF_PARTS]:
            dice.begin(case["input"].get("random", [0.5]))
            await replay(client, model, case, tmp_path)


async def replay(client: Client, model: RecordedModel, case: Any, folder: Path) -> None:
    told = case["id"]
    played = Replay(client, case, folder, quirks=told[-4:] in QUIRKS)
    await played.begin()
    for operation, step in zip(case["input"]["operations"], case["expected"]["steps"], strict=True):
        before = model.hear(operation)
        failed = "exception" in step or any(kind == "error" for kind, _ in step.get("alerts", ()))
        await played.operate(operation, failed=failed)
        sent = [each["messages"] for each in model.requests[before:]]
        assert sent == [each["messages"] for each in step["requests"]], told
        assert await played.stored() == [(line["role"], masked(line["data"])) for line in step["messages"]], told
        assert await played.variables() == step["scriptstate"], told
        if played.alerts is not None:
            assert played.alerts == [alert for alert in step.get("alerts", []) if alert[0] != "error"], told


def case_of(number: str) -> Any:
    return next(each for each in recorded() if each["id"].endswith(number))


async def test_what_a_trigger_asks_is_not_streamed_to_the_client(start: StartApp, tmp_path: Path) -> None:
    async with start(ScriptedModel("a plan", "the reply", "a rating", name="gpt-4o")) as client:
        played = Replay(client, case_of("-0092"), tmp_path)
        await played.begin()
        answer = await client.post(f"{played.base}/messages", json={"content": "a", "stream": True})
        assert await played.stored() == [("user", "a"), ("char", "the reply")]
    assert "the reply" in answer.text
    assert "a plan" not in answer.text
    assert "a rating" not in answer.text


async def test_what_the_settings_want_added_to_a_reply_is_added(start: StartApp, tmp_path: Path) -> None:
    case, model = case_of("-0198"), ScriptedModel("1", " A picture.", name="gpt-4o")
    async with start(model, user_name="Ann") as client:
        played = Replay(client, case, tmp_path)
        await played.begin()
        await client.post(f"{played.base}/messages", json={"content": "a"})
        assert await played.stored() == [("user", "a"), ("char", "1 A picture.")]
    assert [each["messages"] for each in model.requests] == [
        each["messages"] for each in case["expected"]["steps"][0]["requests"]
    ]


async def test_a_swipe_that_fails_leaves_the_reply(start: StartApp, tmp_path: Path) -> None:
    model = ScriptedModel("1", failure(400, "no"), "2", name="gpt-4o")
    async with start(model, user_name="Ann") as client:
        played = Replay(client, case_of("-0193"), tmp_path)
        await played.begin()
        await client.post(f"{played.base}/messages", json={"content": "a"})
        assert (await client.post(f"{played.base}/swipe", json={})).is_error
        assert await played.stored() == [("user", "a"), ("char", "1")]
        assert (await client.post(f"{played.base}/swipe", json={})).is_success
        assert (await played.messages())[-1]["swipes"] == ["1", "2"]


async def test_a_message_that_an_input_trigger_loses_can_be_sent_again(start: StartApp, tmp_path: Path) -> None:
    model = ScriptedModel("1", name="gpt-4o")
    async with start(model, user_name="Ann") as client:
        played = Replay(client, case_of("-0103"), tmp_path)
        await played.begin()
        # Its code cannot be read. RisuAI reads it once for each kind of trigger: when they run again, they do nothing.
        for left in ([], [("user", "a")], [("user", "a"), ("char", "1")]):
            path, key = f"{played.base}/messages", {"Idempotency-Key": "k"}
            answer = await client.post(path, json={"content": "a"}, headers=key)
            assert answer.is_success == (len(left) == 2), answer.text
            assert await played.stored() == left


async def test_a_swipe_that_a_trigger_stops_is_not_lost(start: StartApp, tmp_path: Path) -> None:
    async with start(ScriptedModel("1", "2", "3", name="gpt-4o"), user_name="Ann") as client:
        played = Replay(client, case_of("-0208"), tmp_path)
        await played.begin()
        await client.post(f"{played.base}/messages", json={"content": "a"})
        await client.post(f"{played.base}/swipe", json={})
        await client.patch(played.base, json={"variables": {"lock": "1"}})
        stopped = await client.post(f"{played.base}/swipe", json={})
        assert (stopped.status_code, stopped.json()["message_id"]) == (200, None)
        assert await played.stored() == [("user", "a")]
        await client.patch(played.base, json={"variables": {"lock": "0"}})
        assert (await client.post(f"{played.base}/swipe", json={})).is_success
        assert (await played.messages())[-1]["swipes"] == ["1", "2", "3"]


async def test_a_card_may_ask_only_so_often_beside_the_chat(start: StartApp, tmp_path: Path) -> None:
    case = case_of("-0092")
    code = "onStart = async(function(id) for i=1,100 do LLM(id,{{role='user',content='more'}}) end end)"
    case["input"]["characters"][0]["triggerscript"][0]["effect"][0]["code"] = code
    model = ScriptedModel(*["ok"] * 200, name="gpt-4o")
    async with start(model) as client:
        played = Replay(client, case, tmp_path)
        await played.begin()
        answer = await client.post(f"{played.base}/messages", json={"content": "a"})
    assert answer.status_code == 200, answer.text
    assert len(model.requests) == MAX_HELPER_REQUESTS + 1


async def test_imported_chats_of_groups_know_who_said_what(start: StartApp, tmp_path: Path) -> None:
    case = case_of("-0241")  # a group's chat with messages; its memory is not what this is about
    async with start(ScriptedModel("A.", "B.", name="gpt-4o"), user_name="Ann") as client:
        played = Replay(client, case, tmp_path)
        await played.begin()
        answer = await client.post("/api/build", json={"session_id": played.chats[0], "kind": "continue"})
        assert answer.status_code == 200, answer.text
        exported = (await client.get(f"{played.base}/export")).json()
    said = {each["content"] for each in answer.json()["payload"] if each["role"] == "assistant"}
    assert "Thunder river winter bridge silver market ledger velvet paper clock letter garden candle winding." in said
    assert {each.get("saying") for each in exported["data"]["message"]} == {None, "char-1"}
