"""The JavaScript SDKs: run where ``npm install`` was run in ``tests/server/javascript``."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tavernkit.testing import ScriptedModel, answer, calls, streamed, tool_call
from tests.models.native_server import Wire, serve_wire
from tests.server.test_model_servers import at

FOLDER = Path(__file__).parent / "javascript"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(
    NODE is None or not (FOLDER / "node_modules").is_dir(), reason="there are no JavaScript SDKs"
)


def run(*arguments: str) -> None:
    command = [str(NODE), "clients.mjs", *arguments]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_javascript_clients(loopback: Callable[..., AbstractContextManager[str]]) -> None:
    rolling = calls(tool_call("roll", {"sides": 6}, id="c1"))
    model = ScriptedModel(
        answer("Welcome."), streamed("Wel", "come."), "One.", "Two.",
        "First.", streamed("Wel", "come."), rolling, "A four.", "a time.",
        "Welcome.", streamed("Wel", "come."), rolling,
    )  # fmt: skip
    with loopback(model) as url:
        run(url)


async def test_javascript_clients_of_what_is_passed_on(loopback: Callable[..., AbstractContextManager[str]]) -> None:
    vectors = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "e"}
    judged = {"id": "m", "model": "mod", "results": [{"flagged": False, "categories": {}, "category_scores": {}}]}
    async with serve_wire(Wire(vectors), Wire(judged)) as server:
        with loopback(**at(server, embedding_model="small")) as url:
            await asyncio.to_thread(run, url, "upstream")
