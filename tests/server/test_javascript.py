"""The JavaScript SDKs: run where ``npm install`` was run in ``tests/server/javascript``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "javascript"
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None or not (FOLDER / "node_modules").is_dir(), reason="there are no JavaScript SDKs")
def test_javascript_clients(loopback: Callable[..., AbstractContextManager[str]]) -> None:
    with loopback() as url:
        command = [str(NODE), "clients.mjs", url]
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
