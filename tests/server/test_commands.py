"""Slash commands in messages, if the client says that a text may be one."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.risu_ai._triggers import commands as risu_ai_commands
from tavernkit.silly_tavern._conversation import commands as silly_tavern_commands
from tavernkit.testing import ScriptedModel, failure
from tests.server.conftest import Client, StartApp

PLATFORMS = ["silly_tavern", "risu_ai"]
NAMES = {
    "silly_tavern": sorted(silly_tavern_commands._COMMANDS),
    "risu_ai": sorted(risu_ai_commands._COMMANDS),
}


async def session(client: Client, platform: str) -> str:
    body = {"model": "aria", "greeting": None, "tavernkit": {"platform": platform}}
    made = await client.post("/api/sessions", json=body)
    assert made.status_code == 201, made.text
    return f"/api/sessions/{made.json()['id']}"


async def typed(client: Client, path: str, text: str, **headers: str) -> Any:
    return await client.post(f"{path}/messages", json={"content": text, "commands": True}, headers=headers)


async def said(client: Client, path: str) -> list[str]:
    return [line["content"] for line in (await client.get(f"{path}/messages")).json()["data"]]


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_commands_are_run_only_if_the_client_says_so(start: StartApp, platform: str) -> None:
    model = ScriptedModel("One.")
    async with start(model) as client:
        path = await session(client, platform)
        text = "/setvar key=gold 5"
        answer = (await typed(client, path, text)).json()
        assert (answer["status"], answer["message_id"]) == ("done", None)
        assert await said(client, path) == []
        assert (await client.get(path)).json()["variables"] == {"gold": "5"}
        assert model.requests == []
        await client.post(f"{path}/messages", json={"content": text})
        assert await said(client, path) == [text, "One."]


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_repeated_command_with_the_same_key_is_run_once(start: StartApp, platform: str) -> None:
    async with start(ScriptedModel()) as client:
        path = await session(client, platform)
        await typed(client, path, "/setvar key=gold 5")
        for replayed in (False, True):
            answer = await typed(client, path, "/addvar key=gold 3", **{"Idempotency-Key": "k"})
            assert answer.json()["replayed"] is replayed
        assert str((await client.get(path)).json()["variables"]["gold"]) == "8"


async def test_an_unknown_command_is_reported_by_sillytavern_and_sent_by_risuai(start: StartApp) -> None:
    async with start(ScriptedModel("One.")) as client:
        path = await session(client, "silly_tavern")
        answer = (await typed(client, path, "/nothing here")).json()
        assert (answer["text"], "'/nothing here' is not known" in answer["warnings"][0]) == ("", True)
        assert await said(client, path) == []
        path = await session(client, "risu_ai")
        assert (await typed(client, path, "/nothing here")).json()["text"] == "One."
        assert await said(client, path) == ["/nothing here", "One."]


@pytest.mark.parametrize(
    ("platform", "command", "left"), [("silly_tavern", "/trigger", []), ("risu_ai", "/multisend a", ["a"])]
)
async def test_a_command_that_fails_is_not_kept_as_a_message(
    start: StartApp, platform: str, command: str, left: list[str]
) -> None:
    async with start(ScriptedModel(failure(400, "no"), "One.")) as client:
        path = await session(client, platform)
        assert (await typed(client, path, command)).is_error
        assert await said(client, path) == left


async def test_numbers_of_lines_mean_the_whole_chat(start: StartApp) -> None:
    async with start(ScriptedModel(*["Yes."] * 20)) as client:
        path = await session(client, "silly_tavern")
        for number in range(20):
            await client.post(f"{path}/messages", json={"content": str(number)})
        assert (await typed(client, path, "/cut 2-35")).json()["text"].split() == [
            word for number in range(1, 18) for word in (str(number), "Yes.")
        ]
        assert await said(client, path) == ["0", "Yes.", "18", "Yes.", "19", "Yes."]


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_any_command_can_be_typed_into_an_empty_chat(start: StartApp, platform: str) -> None:
    async with start(ScriptedModel("One.", repeat_last=True)) as client:
        for arguments in ("", " 99999999999999999999-3 x=", ' key="a', " -1"):
            path = await session(client, platform)
            for name in NAMES[platform]:
                answer = await typed(client, path, f"/{name}{arguments}")
                assert answer.status_code < 500, (name, arguments, answer.text)
        assert (await typed(client, path, "Hi.")).json()["text"] == "One."
