"""The public names, listed: a change here is deliberate. `python -m tests.test_public_api` writes the list anew."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

PACKAGES = (
    "tavernkit",
    "tavernkit.budget",
    "tavernkit.cards",
    "tavernkit.dialects",
    "tavernkit.prompt",
    "tavernkit.risu_ai",
    "tavernkit.silly_tavern",
    "tavernkit.stores",
    "tavernkit.testing",
    "tavernkit.vibe_tavern",
)
LISTING = Path(__file__).with_name("public_api.txt")


def listing() -> str:
    return "".join(
        f"{package}.{name}\n" for package in PACKAGES for name in sorted(importlib.import_module(package).__all__)
    )


def test_public_names_are_as_listed() -> None:
    assert listing() == LISTING.read_text(encoding="utf-8")


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_exist_and_say_what_they_are_for(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{package}.{name} has no docstring"


if __name__ == "__main__":
    LISTING.write_text(listing(), encoding="utf-8")
