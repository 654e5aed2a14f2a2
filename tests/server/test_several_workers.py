"""Several services against one database are one: keys, revocations, metrics."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tavernkit.models import Request
from tavernkit.server.api.replies import ReplyListener
from tavernkit.server.config import METRICS_FOLDER, UpstreamConfig
from tavernkit.server.limits import UPSTREAM_KEY_SECONDS
from tavernkit.server.metrics import Metrics
from tavernkit.server.upstreams.upstream import Upstream
from tavernkit.testing import ScriptedModel, serve
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"
HELLO = {"model": "aria", "messages": [{"role": "user", "content": "Hello"}]}
ADMIN = {"Authorization": "Bearer the-admin-key"}
KEYED: dict[str, object] = {"require_keys": True, "admin_key": "the-admin-key"}


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def with_clock(*clients: Client) -> Clock:
    clock = Clock()
    for client in clients:
        client.service.upstream_keys._clock = clock
        client.service.upstream_keys._looked_at = clock.now
    return clock


async def test_a_changed_upstream_key_reaches_all_workers_in_seconds(start: StartApp) -> None:
    async with serve(ScriptedModel("ok", repeat_last=True)) as upstream:
        settings: dict[str, Any] = {
            "secret_key": "pass phrase",
            "upstreams": {"main": {"base_url": upstream.url, "api_key": "sk-configured"}},
        }

        async def used(client: Client) -> str:
            assert (await client.post(CHAT, json=HELLO)).status_code == 200
            return upstream.requests[-1].headers["authorization"].removeprefix("Bearer ")

        async with start(**settings) as one, start(**settings) as two:
            clock = with_clock(one, two)
            assert [await used(one), await used(two)] == ["sk-configured"] * 2
            await one.put("/api/upstreams/main/key", json={"api_key": "sk-new"})
            assert [await used(one), await used(two)] == ["sk-new", "sk-configured"]
            clock.now = UPSTREAM_KEY_SECONDS
            assert await used(two) == "sk-new"
            assert (await two.delete("/api/upstreams/main/key")).status_code == 204
            assert (await two.delete("/api/upstreams/main/key")).status_code == 404
            clock.now *= 2
            assert [await used(two), await used(one)] == ["sk-configured"] * 2
    assert UPSTREAM_KEY_SECONDS <= 5


async def test_a_revoked_key_opens_nothing_in_any_worker(start: StartApp) -> None:
    async with start(**KEYED) as one, start(**KEYED) as two:
        made = (await one.post("/api/keys", json={"name": "bot", "scopes": ["chat"]}, headers=ADMIN)).json()
        key = {"Authorization": f"Bearer {made['key']}"}
        assert [(await each.get("/v1/models", headers=key)).status_code for each in (one, two)] == [200, 200]
        await one.delete(f"/api/keys/{made['id']}", headers=ADMIN)
        assert [(await each.get("/v1/models", headers=key)).status_code for each in (one, two)] == [401, 401]


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_request_that_runs_keeps_its_connection_when_the_key_changes(streaming: bool) -> None:
    release = asyncio.Event()

    class Model(ScriptedModel):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    class Slow(Model):
        async def send(self, request: Any, **options: Any) -> Any:
            await release.wait()
            return await super().send(request, **options)

    old, new = Slow("old"), Model("new")
    each = Upstream("u", UpstreamConfig(dialect="scripted"), old)
    asking = asyncio.create_task(each.ask(Request(model="m", messages=[]), ReplyListener(streaming=False)))
    while not each._users:  # noqa: ASYNC110  # until the request runs
        await asyncio.sleep(0)
    await each.replace_model(new)
    assert not old.closed
    release.set()
    assert (await asking).text == "old"
    assert old.closed
    reply = await each.ask(Request(model="m", messages=[]), ReplyListener(streaming=streaming))
    assert (reply.text, new.closed) == ("new", False)


@contextlib.contextmanager
def processes(data: Path, *options: str) -> Iterator[dict[str, Any]]:
    """``tavernkit serve --json`` as a user starts it; gives what it prints."""
    command = [sys.executable, "-m", "tavernkit", "serve", "--json", "--port", "0", "--data", str(data), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(30)


def numbers(text: str, name: str) -> float:
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def test_metrics_are_the_sums_of_all_workers_and_studio_is_one(tmp_path: Path) -> None:
    with processes(tmp_path, "--workers", "2") as told:
        served: set[float] = set()
        # Without kept connections, so that both workers get some.
        fresh = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=told["url"], timeout=30, limits=fresh) as client:
            for _ in range(30):
                assert client.post(CHAT, json=HELLO).status_code == 200
            for _ in range(6):
                text = client.get("/metrics").text
                served.add(numbers(text, "tavernkit_turns_total"))
                # This one, and maybe the one before, whose worker has not noted its end yet.
                assert numbers(text, "tavernkit_http_requests_running") in (1, 2)
            for number in range(8):
                edit = {"document": "turn-1", "op": "replace", "path": "/message", "value": str(number)}
                made = client.post("/api/studio/edit", json={"edits": [edit], "build": False})
                assert made.status_code == 200
                # Whichever worker answers, it is one workspace.
                assert made.json()["revision"] == number + 2
    assert told["workers"] == 2
    assert served == {30}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every worker imports everything again")
def test_workers_are_forked_and_end_when_they_are_told_to(tmp_path: Path) -> None:
    with processes(tmp_path, "--workers", "2") as told:
        assert httpx.get(f"{told['url']}/ready", timeout=30).status_code == 200
        first = children(told["pid"])
        assert len(first) == 2
        assert not any(b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in first)
        os.kill(first[0], signal.SIGTERM)
        while first[0] in children(told["pid"]) or len(children(told["pid"])) < 2:
            # A worker that ends closes connections that have sent no request yet.
            with contextlib.suppress(httpx.RemoteProtocolError, httpx.ReadError):
                assert httpx.get(f"{told['url']}/health", timeout=30).status_code == 200
        assert httpx.get(f"{told['url']}/health", timeout=30).status_code == 200
    assert not any(Path(f"/proc/{pid}").exists() for pid in first)


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_serve_tells_programs_its_address_and_key(tmp_path: Path) -> None:
    config = tmp_path / "server.toml"
    config.write_text("require_keys = true\n")
    with processes(tmp_path, "--config", str(config)) as told:
        refused = httpx.get(f"{told['base_url']}/models", timeout=30)
        headers = {"Authorization": f"Bearer {told['api_key']}"}
        models = httpx.get(f"{told['base_url']}/models", headers=headers, timeout=30)
    assert (refused.status_code, models.status_code) == (401, 200)
    assert (told["keys_required"], told["upstream"], told["docs"]) == (True, "scripted", f"{told['url']}/docs")


def test_a_worker_that_is_gone_serves_nothing_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
from tavernkit.server.metrics import Metrics

metrics = Metrics()
metrics.request_began()
metrics.turn("normal", "done", 1)
"""
    monkeypatch.setenv(METRICS_FOLDER, str(tmp_path))
    subprocess.run([sys.executable, "-c", program], check=True)
    text = Metrics().text().decode()
    assert numbers(text, "tavernkit_http_requests_running") == 0
    assert numbers(text, "tavernkit_turns_total") == 1
