"""Manual triggers and buttons of RisuAI's characters, which a client of the REST API clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tavernkit.server.limits import MAX_ALERTS
from tavernkit.testing import ScriptedModel
from tests.server.conftest import Client, StartApp
from tests.server.risu_replay import Replay
from tests.server.test_recorded_risu_conversations import case_of

CARD = "-0068"
"""Its character has the triggers ``heal``, which counts, and ``clear``, which removes all but one message."""


async def opened(client: Client, folder: Path, *effects: Any) -> Replay:
    """A session with that character; ``effects`` are those of another trigger, ``more``."""
    case = case_of(CARD)
    more = {"comment": "more", "type": "manual", "conditions": [], "effect": [*effects]}
    character = case["input"]["characters"][0]
    character |= {"lowLevelAccess": True, "triggerscript": [*character["triggerscript"], more]}
    played = Replay(client, case, folder)
    await played.begin()
    await client.post(f"{played.base}/messages", json={"content": "one"})
    return played


async def test_the_answer_says_what_a_trigger_changed(start: StartApp, tmp_path: Path) -> None:
    async with start(ScriptedModel("r1"), user_name="Ann") as client:
        played = await opened(client, tmp_path)
        before = [line["id"] for line in await played.messages()]
        healed = (await client.post(f"{played.base}/triggers", json={"name": "heal"})).json()
        assert [(line["role"], line["content"]) for line in healed["messages"]] == [("user", "[healed to 6]")]
        assert (healed["removed"], healed["variables"]) == ([], {"hp": "6"})
        cleared = (await client.post(f"{played.base}/triggers", json={"name": "clear"})).json()
        assert (cleared["messages"], cleared["removed"]) == ([], before)
        assert await played.stored() == [("user", "[healed to 6]")]


async def test_a_repeated_click_with_the_same_key_counts_once(start: StartApp, tmp_path: Path) -> None:
    async with start(ScriptedModel("r1"), user_name="Ann") as client:
        played = await opened(client, tmp_path)
        for name, replayed, status in (("heal", False, 200), ("heal", True, 200), ("clear", None, 422)):
            path, key = f"{played.base}/triggers", {"Idempotency-Key": "k"}
            answer = await client.post(path, json={"name": name}, headers=key)
            assert (answer.status_code, answer.json().get("replayed")) == (status, replayed)
        assert await played.variables() == {"$hp": "6"}


async def test_what_triggers_show_is_in_the_answer(start: StartApp, tmp_path: Path) -> None:
    alert = {"type": "showAlert", "alertType": "normal", "value": "Done.", "inputVar": ""}
    async with start(ScriptedModel("r1"), user_name="Ann") as client:
        played = await opened(client, tmp_path, *[alert] * (MAX_ALERTS + 1))
        shown = (await client.post(f"{played.base}/triggers", json={"name": "more"})).json()["alerts"]
    assert shown == [{"kind": "normal", "text": "Done.", "options": []}] * MAX_ALERTS


async def test_questions_without_answers_are_in_the_answer_too(start: StartApp, tmp_path: Path) -> None:
    question = {"type": "showAlert", "alertType": "select", "value": "red§blue", "inputVar": "colour"}
    async with start(ScriptedModel("r1"), user_name="Ann") as client:
        played = await opened(client, tmp_path, question)
        asked = (await client.post(f"{played.base}/triggers", json={"name": "more"})).json()
        assert [(each["kind"], each["options"]) for each in asked["alerts"]] == [("select", ["red", "blue"])]
        answers = {"name": "more", "answers": ["1"]}
        answered = (await client.post(f"{played.base}/triggers", json=answers)).json()
    assert answered["variables"]["colour"] == "1"


async def test_characters_of_sillytavern_have_none(start: StartApp) -> None:
    async with start(ScriptedModel("r1")) as client:
        session = (await client.post("/api/sessions", json={"model": "aria"})).json()["id"]
        for path in ("triggers", "buttons"):
            answer = await client.post(f"/api/sessions/{session}/{path}", json={"name": "heal"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (422, "no_triggers")
        assert (await client.get(f"/api/sessions/{session}")).json()["busy"] is False
