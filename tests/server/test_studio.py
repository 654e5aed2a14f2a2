"""Studio in the service."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tavernkit.models import Request
from tavernkit.models._scripted import Disconnect
from tavernkit.server.config import STUDIO_FOLDER
from tavernkit.server.keys import LOCAL, Allowance, Scope
from tavernkit.server.limits import MAX_PAGE
from tavernkit.server.storage.items import item_file, item_info, save_item
from tavernkit.server.studio_workspaces import AccountedModel, LibraryShelf
from tavernkit.studio._shelf import OpenRequest
from tavernkit.testing import ScriptedModel, failure, streamed
from tests.server.conftest import Client, StartApp

API = "/api/studio"


async def key_of(client: Client, *scopes: Scope) -> dict[str, str]:
    _, token = await client.service.keys.create("k", scopes)
    return {"Authorization": f"Bearer {token}"}


async def test_the_page_is_at_the_root_and_the_example_is_open(client: Client) -> None:
    page = await client.get("/")
    assert page.status_code == 200
    assert "script-src 'self';" in page.headers["content-security-policy"]
    script = await client.get("/studio/style.css")
    assert script.status_code in (200, 404)
    told = (await client.get(f"{API}/workspace")).json()
    assert next(each for each in told["documents"] if each["kind"] == "card")["name"] == "Aria"
    assert next(each for each in told["documents"] if each["kind"] == "book")["name"] == "Tidewatch"
    build = (await client.post(f"{API}/build", json={})).json()
    assert build["error"] is None
    assert any("keeps the lighthouse" in message["content"] for message in build["messages"])


async def test_keys_need_scopes(start: StartApp) -> None:
    async with start(require_keys=True) as client:
        assert (await client.get("/")).status_code == 200
        assert (await client.get(f"{API}/workspace")).status_code == 401
        chatting = await key_of(client, "chat")
        assert (await client.get(f"{API}/workspace", headers=chatting)).json()["error"]["code"] == "missing_scope"
        reading = await key_of(client, "read")
        assert (await client.get(f"{API}/workspace", headers=reading)).status_code == 200
        saved = await client.post(f"{API}/documents/card-1/save", json={}, headers=reading)
        assert saved.status_code == 403
        said = await client.post(f"{API}/talk/turn", json={"text": "Hi"}, headers=reading)
        assert said.status_code == 403


async def test_each_key_has_its_own_workspace(start: StartApp) -> None:
    async with start(require_keys=True) as client:
        ann, bob = await key_of(client, "read"), await key_of(client, "read")
        edit = {"document": "turn-1", "op": "replace", "path": "/message", "value": "Secret"}
        await client.post(f"{API}/edit", json={"edits": [edit]}, headers=ann)
        assert "Secret" in (await client.get(f"{API}/documents/turn-1", headers=ann)).text
        assert "Secret" not in (await client.get(f"{API}/documents/turn-1", headers=bob)).text


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_the_limits_of_a_keys_builds_hold_in_studio(start: StartApp, platform: str) -> None:
    values = {"/platform": platform, "/message": "{{user}} " * 300}
    edits = [{"document": "turn-1", "op": "replace", "path": path, "value": value} for path, value in values.items()]
    expanded: list[bool] = []
    async with start(require_keys=True, key_limits={"small": {"max_build_steps": 100}}) as client:
        for name in ("large", "small"):
            _, token = await client.service.keys.create(name, ("read",))
            key = {"Authorization": f"Bearer {token}"}
            edited = (await client.post(f"{API}/edit", json={"edits": edits, "build": True}, headers=key)).json()
            expanded.append("{{user}}" not in json.dumps(edited["build"]["messages"]))
    assert expanded == [True, False]


async def test_saving_makes_a_new_version_in_the_library(client: Client) -> None:
    edit = {"document": "card-1", "op": "replace", "path": "/data/description", "value": "Keeps bees."}
    edited = await client.post(f"{API}/edit", json={"edits": [edit], "build": False})
    assert edited.json()["documents"][0]["writable"]
    before = (await client.get("/api/characters/aria")).json()
    saved = await client.post(f"{API}/documents/card-1/save", json={})
    assert saved.json()["document"]["saved"]
    after = (await client.get("/api/characters/aria")).json()
    assert after["version"] == before["version"] + 1
    assert "Keeps bees." in (await client.get("/api/characters/aria")).text


async def test_saving_refuses_what_somebody_else_changed(client: Client) -> None:
    await client.get(f"{API}/workspace")
    async with client.service.database.write() as connection:
        info = await item_info(connection, "character", "aria")
        file = await item_file(connection, "character", "aria")
        await save_item(
            connection,
            "character",
            name=info.name,
            platform=info.platform,
            file=file + b"\n",
            filename=info.filename,
            item_id="aria",
        )
    refused = await client.post(f"{API}/documents/card-1/save", json={})
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "changed_on_disk"
    assert (await client.get(f"{API}/documents/card-1/difference")).json()["conflict"]
    assert (await client.post(f"{API}/documents/card-1/save", json={"overwrite": True})).status_code == 200


async def test_the_library_can_be_opened(client: Client) -> None:
    choices: Any = (await client.get(f"{API}/folder")).json()
    assert choices["characters"] == ["aria"]
    assert choices["names"]["characters"] == {"aria": "Aria"}
    opened = await client.post(f"{API}/open", json={"character": "aria", "platform": "risu_ai"})
    assert opened.json()["platform"] == "risu_ai"
    missing = await client.post(f"{API}/open", json={"character": "nobody"})
    assert missing.status_code == 404


async def test_a_large_library_can_be_opened_whole(client: Client) -> None:
    async with client.service.database.write() as connection:
        for number in range(MAX_PAGE):
            for kind in ("book", "character"):
                item_id = f"a-{number}"  # before Aria and her book
                file = json.dumps({"spec": "chara_card_v2", "data": {"name": item_id}, "entries": {}}).encode()
                await save_item(
                    connection,
                    kind,
                    name=item_id,
                    platform="silly_tavern",
                    file=file,
                    filename="x.json",
                    item_id=item_id,
                )
    choices = (await client.get(f"{API}/folder")).json()
    assert {"aria", "a-0"} <= set(choices["characters"])
    opened = (await client.post(f"{API}/open", json={"character": "aria"})).json()
    assert [each["name"] for each in opened["documents"] if each["kind"] == "book"] == ["Tidewatch"]


async def test_talking_asks_the_upstream_and_is_counted(start: StartApp) -> None:
    async with start(ScriptedModel("Well met.", repeat_last=True), require_keys=True) as client:
        headers = await key_of(client, "read", "chat", "admin")
        answer = await client.post(f"{API}/talk/turn", json={"text": "Hello"}, headers=headers)
        assert "event: done" in answer.text
        assert "Well met." in answer.text
        usage = (await client.get("/api/usage", headers=headers)).json()
        assert any(row["output_tokens"] > 0 for row in usage["data"])


async def test_a_key_that_has_used_up_its_day_cannot_talk(start: StartApp) -> None:
    async with start(ScriptedModel("Well met.", repeat_last=True), require_keys=True) as client:
        _, token = await client.service.keys.create("k", ("read", "chat"), Allowance(daily_tokens=1))
        headers = {"Authorization": f"Bearer {token}"}
        first = await client.post(f"{API}/talk/turn", json={"text": "Hello"}, headers=headers)
        assert "event: done" in first.text
        second = await client.post(f"{API}/talk/turn", json={"text": "More"}, headers=headers)
        assert "event: error" in second.text
        assert "budget_exceeded" in second.text


async def test_a_changed_budget_counts_at_once(start: StartApp) -> None:
    async with start(ScriptedModel("Well met.", repeat_last=True), require_keys=True) as client:
        info, token = await client.service.keys.create("k", ("read", "chat"), Allowance(daily_tokens=1))
        headers = {"Authorization": f"Bearer {token}"}
        for more in (None, 1_000_000):
            await client.service.keys.change(info.id, {"daily_tokens": more})
            answer = await client.post(f"{API}/talk/turn", json={"text": "Hello"}, headers=headers)
            assert "event: done" in answer.text
        await client.service.keys.change(info.id, {"daily_tokens": 1})
        assert "budget_exceeded" in (await client.post(f"{API}/talk/turn", json={}, headers=headers)).text


async def test_a_request_that_fails_does_not_count(start: StartApp) -> None:
    async with start(ScriptedModel(failure(400), Disconnect(after=["Well"]))) as client:
        for counted in (0, 1):
            answer = await client.post(f"{API}/talk/turn", json={"text": "Hello"})
            assert "event: error" in answer.text
            assert len((await client.get("/api/usage")).json()["data"]) == counted


async def test_what_somebody_else_saved_can_be_taken_over(start: StartApp) -> None:
    async with start(require_keys=True) as client:
        ann, bob = await key_of(client, "read", "write"), await key_of(client, "read", "write")
        for headers, text in ((ann, "Keeps bees."), (bob, "Keeps goats.")):
            edit = {"document": "card-1", "op": "replace", "path": "/data/description", "value": text}
            await client.post(f"{API}/edit", json={"edits": [edit], "build": False}, headers=headers)
        path = f"{API}/documents/card-1"
        assert (await client.post(f"{path}/save", json={}, headers=ann)).status_code == 200
        assert (await client.post(f"{path}/save", json={}, headers=bob)).status_code == 409
        reloaded = await client.post(f"{path}/reload", json={}, headers=bob)
        assert reloaded.status_code == 200
        taken = (await client.get(path, headers=bob)).json()
        assert (taken["data"]["data"]["description"], taken["saved"]) == ("Keeps bees.", True)
        edit["value"] = "Keeps both."
        await client.post(f"{API}/edit", json={"edits": [edit], "build": False}, headers=bob)
        assert (await client.post(f"{path}/save", json={}, headers=bob)).status_code == 200


async def test_a_model_that_is_replaced_finishes_its_reply(start: StartApp) -> None:
    class Model(ScriptedModel):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    old = Model(streamed("Well ", "met."))
    async with start(old) as client:
        upstream = client.service.upstreams.get("scripted")
        asked = AccountedModel(client.service, upstream, lambda: LOCAL)
        pieces = asked.stream(Request(messages=[{"role": "user", "content": "Hi"}]))
        said = [(await anext(pieces)).text]
        await upstream.replace_model(ScriptedModel("New."))
        assert not old.closed
        said += [piece.text async for piece in pieces]
        assert ("".join(said), old.closed) == ("Well met.", True)


async def test_of_two_who_save_at_once_one_is_refused(client: Client) -> None:
    shelf = LibraryShelf(client.service)
    opened = (await shelf.open(OpenRequest())).workspace.state.one("card")
    assert opened is not None
    outcomes = await asyncio.gather(*(shelf.write(opened, each) for each in (b"{}", b"[]")), return_exceptions=True)
    assert [str(each) for each in outcomes if each is not None] == ["Aria has been changed by somebody else"]
    await shelf.write(opened, b"{}", overwrite=True)


async def test_several_processes_share_one_studio(
    start: StartApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STUDIO_FOLDER, str(tmp_path))
    edit = {"document": "turn-1", "op": "replace", "path": "/message", "value": "Secret"}
    async with start(workers=2, require_keys=True) as second:
        async with start(ScriptedModel("Well met."), workers=2, require_keys=True) as first:
            ann, bob = await key_of(first, "read", "chat"), await key_of(first, "read")
            assert (await first.get(f"{API}/workspace", headers=ann)).status_code == 200
            # The other process has no workspace of its own: it passes requests on, with who asks.
            edited = await second.post(f"{API}/edit", json={"edits": [edit]}, headers=ann)
            assert edited.json()["build"]["error"] is None
            assert "Secret" in (await first.get(f"{API}/documents/turn-1", headers=ann)).text
            assert "Secret" not in (await second.get(f"{API}/documents/turn-1", headers=bob)).text
            assert (await second.get(f"{API}/workspace")).status_code == 401
            said = await second.post(f"{API}/talk/turn", json={"text": "Hello"}, headers=ann)
            assert said.headers["content-type"].startswith("text/event-stream")
            assert "Well met." in said.text
            found = await second.get(f"{API}/documents/turn-1?x=%2F", headers=ann)
            assert found.json()["id"] == "turn-1"
        # When the one that had the workspaces is gone, the next one has them.
        assert (await second.get(f"{API}/workspace", headers=ann)).status_code == 200


async def test_processes_that_cannot_find_each_other_say_so(
    start: StartApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl", reason="the lock of a file is another one here")
    async with start(workers=2) as client:
        refused = await client.get(f"{API}/workspace")
        assert refused.status_code == 501
        assert "one worker" in refused.json()["error"]["message"]
    monkeypatch.setenv(STUDIO_FOLDER, str(tmp_path))
    monkeypatch.setattr("tavernkit.server.studio_forwarding.CONNECT_SECONDS", 0.0)
    with (tmp_path / "studio.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one that lives and does not answer
        async with start(workers=2) as client:
            refused = await client.get(f"{API}/workspace")
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "studio_not_available"


async def test_the_api_is_described(client: Client) -> None:
    described = (await client.get("/openapi.json")).json()
    assert {f"{API}/edit", f"{API}/build", f"{API}/talk/turn"} <= set(described["paths"])
    assert described["paths"][f"{API}/edit"]["post"]["security"]
