"""The image, built and run: ``make test-image``, where there is Docker."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
IMAGE = "tavernkit-tested"

pytestmark = pytest.mark.skipif("TAVERNKIT_TEST_IMAGE" not in os.environ, reason="make test-image builds the image")


def docker(*arguments: str) -> str:
    command = [os.environ["TAVERNKIT_TEST_IMAGE"], *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_image_serves_without_root_and_ends_with_0() -> None:
    docker("build", "--file", "deploy/Dockerfile", "--tag", IMAGE, ".")
    key = "TAVERNKIT_SERVER_ADMIN_KEY=the-key"
    limits = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true")
    container = docker("run", "--detach", *limits, "--publish", "127.0.0.1::8080", "--env", key, IMAGE)
    try:
        url = f"http://{docker('port', container, '8080').splitlines()[0]}"
        wait_until_ready(url)
        assert docker("exec", container, "id", "-u") == "10001"
        body = {"model": "aria", "messages": [{"role": "user", "content": "Hello"}]}
        assert httpx.post(f"{url}/v1/chat/completions", json=body).status_code == 401
        headers = {"Authorization": "Bearer the-key"}
        assert httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=30).status_code == 200
        docker("stop", "--time", "30", container)
        assert docker("inspect", "--format", "{{.State.ExitCode}}", container) == "0"
    finally:
        docker("rm", "--force", "--volumes", container)


def wait_until_ready(url: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if httpx.get(f"{url}/ready").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    pytest.fail("the image did not get ready")
