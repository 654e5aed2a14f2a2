"""Recorded conversations through the REST API, for the operations it has: the same prompts, the same stored chat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tavernkit.server.adapters import silly_tavern_lines
from tavernkit.silly_tavern import _context
from tests.conformance.runner import VECTORS
from tests.server.conftest import StartApp
from tests.server.st_replay import MISSING, Dice, RecordedModel, Replay, missing, replies_of, write_folder

STEP = 6
"""Every sixth case is run: all kinds are among them."""


def recorded() -> list[Any]:
    lines = (VECTORS / "silly_tavern" / "conversations.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def cases() -> list[Any]:
    return [case for case in recorded() if not missing(case)]


def chosen() -> list[Any]:
    """Every sixth case of each kind, the first of each included."""
    kinds: dict[str, list[Any]] = {}
    for case in cases():
        kinds.setdefault(case["tags"][0], []).append(case)
    found = [case for each in kinds.values() for case in each[::STEP]]
    return [pytest.param(case, id=case["id"].rsplit("-", 1)[1]) for case in found]


def test_whatever_is_left_out_has_a_reason() -> None:
    assert all(missing(case) <= set(MISSING) for case in recorded())
    assert len(cases()) >= 240
    assert {"group", "text", "greeting", "note", "timed", "swipe"} <= {case["tags"][0] for case in cases()}


@pytest.mark.parametrize("case", chosen())
async def test_the_service_does_what_was_recorded(
    start: StartApp, tmp_path: Path, case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, expected = case["input"], case["expected"]
    folder = tmp_path / "default-user"
    write_folder(folder, given)
    model, dice = RecordedModel(given), Dice()
    monkeypatch.setattr(_context, "random_numbers", lambda _: dice)
    async with start(model, user_name=given["user_name"], from_sillytavern=folder) as client:
        played = Replay(client, case, folder)
        await played.begin()
        if "chat" not in given:  # macros in the first message of an imported chat are expanded by its next turn
            assert await played.stored() == seen(expected["opened"])
        dice.begin(given.get("random"))
        for operation, step in zip(given["operations"], expected["steps"], strict=True):
            before, model.replies = len(model.requests), replies_of(operation)
            await played.operate(operation)
            if operation["op"] == "slash" and not step["requests"]:
                assert played.result == step["result"]
            sent = [prompt_of(each) for each in model.requests[before:]]
            assert sent == [prompt_of(each) for each in step["requests"]]
            assert await played.stored() == seen(step)


@pytest.mark.parametrize("case", chosen()[:12])
async def test_long_chats_of_which_only_the_end_is_converted_are_the_same(
    start: StartApp, tmp_path: Path, case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silly_tavern_lines, "CHANGEABLE_LINES", 1)
    await test_the_service_does_what_was_recorded(start, tmp_path, case, monkeypatch)


def prompt_of(request: Any) -> Any:
    return request["prompt"] if "prompt" in request else request["messages"]


def seen(step: Any) -> list[tuple[object, ...]]:
    return [
        (line["is_user"], line["mes"], line.get("swipes") or [line["mes"]], bool(line.get("is_system")))
        for line in step["chat"]
    ]
