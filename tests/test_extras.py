"""Every extra has a check, and the quick ones pass where the extra is installed; ``make dist-extras`` runs all."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.extras import CHECKS

SLOW = ("all", "mcp", "parquet", "ray", "server")
PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def test_every_extra_has_a_check() -> None:
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(CHECKS) == set(extras)


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in SLOW])
def test_the_check_passes_where_the_extra_is_installed(name: str) -> None:
    try:
        CHECKS[name]()
    except ModuleNotFoundError as error:
        pytest.skip(f"the extra {name} is not installed ({error.name})")
