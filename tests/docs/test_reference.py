"""The reference has every public name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import tavernkit
from tests.test_public_api import PACKAGES

PAGES = Path(__file__).parent.parent.parent / "docs" / "reference"
DESCRIBED = re.findall(r"^::: (\S+)$", "\n".join(page.read_text() for page in PAGES.glob("*.md")), re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGES[1:])
def test_every_public_name_is_described_once(package: str) -> None:
    described = sorted(name for name in DESCRIBED if name.rpartition(".")[0] == package)
    assert described == sorted(f"{package}.{name}" for name in importlib.import_module(package).__all__)


def test_the_top_level_is_listed() -> None:
    listed = re.findall(r"^\| \[`(\w+)`\]", (PAGES / "tavernkit.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(tavernkit.__all__)
