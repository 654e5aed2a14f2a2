"""The manifest of the documentation, as far as it can be checked without a cluster."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tavernkit.cli.app import make_app

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "batch.md"
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
"""What Kubernetes takes as a name."""
QUANTITY = re.compile(r"[0-9]+(m|[KMGT]i?)?")


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    yaml: Any = pytest.importorskip("yaml")
    (text,) = re.findall(r"```yaml\n(apiVersion: ray\.io.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return yaml.safe_load(text)


def pods(job: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = job["spec"]["rayClusterSpec"]
    return [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def test_it_has_what_the_operator_requires(job: dict[str, Any]) -> None:
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert NAME.fullmatch(job["metadata"]["name"])
    assert set(job["spec"]) == {"entrypoint", "shutdownAfterJobFinishes", "rayClusterSpec"}
    assert job["spec"]["shutdownAfterJobFinishes"] is True
    cluster = job["spec"]["rayClusterSpec"]
    assert set(cluster) == {"headGroupSpec", "workerGroupSpecs"}
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        # The schema takes texts only: a number here is refused.
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
    for group in cluster["workerGroupSpecs"]:
        assert NAME.fullmatch(group["groupName"])
        assert 0 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_its_pods_have_an_image_limits_and_their_volumes(job: dict[str, Any]) -> None:
    for pod in pods(job):
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert NAME.fullmatch(container["name"])
            assert container["image"]
            assert all(QUANTITY.fullmatch(limit) for limit in container["resources"]["limits"].values())
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_it_runs_a_command_that_there_is_on_files_that_pods_see(job: dict[str, Any]) -> None:
    program, command, *words = shlex.split(job["spec"]["entrypoint"])
    assert (program, command) == ("tavernkit", "batch")
    group: Any = get_command(make_app())
    options = {name for each in group.commands["batch"].params for name in each.opts}
    assert {word for word in words if word.startswith("--")} <= options
    mounts = {mount["mountPath"] for pod in pods(job) for each in pod["containers"] for mount in each["volumeMounts"]}
    paths = [word for word in words if word.startswith("/")]
    assert len(paths) == 2
    assert all(any(path.startswith(f"{mount}/") for mount in mounts) for path in paths)


def test_nothing_is_built_where_the_records_are_written(job: dict[str, Any]) -> None:
    assert job["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
