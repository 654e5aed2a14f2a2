"""A real Ray cluster of several nodes on this machine; skipped without Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tavernkit as tk
from tavernkit.batching import BatchProgress, GenerateOptions
from tavernkit.testing import ScriptedModel, serve_in_thread
from tests.batching.grids import by_key, write_grid

pytest.importorskip("ray", reason="the cluster's tests need Ray: pip install 'tavernkit[ray]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
    pytest.mark.xdist_group("ray"),
]

RUN = """
import sys
import tavernkit as tk
grid, out, address = sys.argv[1:]
tk.batch(grid, out, ray=address, resume=True, progress=lambda now: print(now.done, flush=True))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    node = {"num_cpus": 1, "object_store_memory": 80 * 1024 * 1024, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=node)
    made.add_node(num_cpus=1, object_store_memory=80 * 1024 * 1024)
    try:
        yield made
    finally:
        made.shutdown()


def test_a_cluster_makes_the_same_records(cluster: Any, tmp_path: Path) -> None:
    grid = write_grid(tmp_path, seeds=10)
    result = tk.batch(grid, tmp_path / "out", ray=cluster.address)
    assert (result.status, result.made) == ("complete", 60)
    tk.batch(grid, tmp_path / "whole", jobs=1)
    assert by_key(tmp_path / "out") == by_key(tmp_path / "whole")


def test_after_kill_9_the_next_run_completes_it(cluster: Any, tmp_path: Path) -> None:
    grid = write_grid(tmp_path, seeds=30)
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(grid), str(tmp_path / "out"), cluster.address], stdout=subprocess.PIPE
    )
    assert run.stdout is not None
    next(iter(run.stdout))
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    run.stdout.close()
    (tmp_path / "messages.txt").write_text("Inserted\n" + (tmp_path / "messages.txt").read_text())
    last = tk.batch(grid, tmp_path / "out", ray=cluster.address, resume=True)
    assert last.records == 240
    assert last.skipped > 0
    tk.batch(grid, tmp_path / "whole", jobs=1)
    assert by_key(tmp_path / "out") == by_key(tmp_path / "whole")


def test_one_meter_limits_all_workers(cluster: Any, tmp_path: Path) -> None:
    times: list[float] = []

    def reply(body: object) -> str:
        times.append(time.monotonic())
        return "Yes."

    with serve_in_thread(ScriptedModel(reply, repeat_last=True)) as url:
        asked = GenerateOptions(
            model="openai:test", base_url=url, requests_per_second=20, max_requests=30, concurrency=8, retries=0
        )
        result = tk.batch(write_grid(tmp_path, seeds=10), tmp_path / "out", ray=cluster.address, generate=asked)
    assert (result.status, result.made) == ("budget", 30)
    assert len(times) == 30
    assert times[-1] - times[0] > 1.2  # 29 pauses of 0.05 s


def test_losing_a_node_in_the_middle_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    grid = write_grid(tmp_path, cards=4, seeds=40)
    doomed = cluster.add_node(num_cpus=1, object_store_memory=80 * 1024 * 1024)
    lost: list[int] = []

    def lose(now: BatchProgress) -> None:
        if not lost and now.done >= 64:
            lost.append(now.done)
            cluster.remove_node(doomed, allow_graceful=False)

    result = tk.batch(grid, tmp_path / "out", ray=cluster.address, progress=lose)
    assert lost
    assert lost[0] < 480
    assert (result.status, result.made, result.failed) == ("complete", 480, 0)
    assert len(by_key(tmp_path / "out")) == 480
