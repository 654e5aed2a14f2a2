"""The reference has every public name, and says what each parameter is for."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tavernkit
from tests.docs.options import field_docs
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


NOT_YET = Path(__file__).with_name("undocumented_fields.txt")
"""Dataclasses with fields not described yet; may only shrink. `python -m tests.docs.test_reference` writes it."""


def test_functions_and_constructors_say_what_their_parameters_are_for() -> None:
    listed = set(NOT_YET.read_text(encoding="utf-8").splitlines())
    lacking = dict(_undocumented())
    assert not {name: lacking[name] for name in set(lacking) - listed}, "write an `Args:` section"
    assert not listed - set(lacking), "these are documented now: run `python -m tests.docs.test_reference`"


def _undocumented() -> Iterator[tuple[str, list[str]]]:
    for package in PACKAGES:
        module = importlib.import_module(package)
        for value in (getattr(module, name) for name in module.__all__):
            if not (inspect.isfunction(value) or (inspect.isclass(value) and _is_made_by_callers(value))):
                continue
            names = [name for name in inspect.signature(value).parameters if not name.startswith("_")]
            missing = [name for name in names if name not in _documented(value)]
            if len(names) > 1 and missing:
                yield f"{value.__module__}.{value.__qualname__}", missing


def _is_made_by_callers(value: type) -> bool:
    """Errors are raised by us, protocols are implemented, enumerations are not called."""
    return not (issubclass(value, (BaseException, enum.Enum, dict)) or getattr(value, "_is_protocol", False))


def _documented(value: object) -> set[str]:
    """Names in an ``Args:`` section or in double backticks, and fields with a docstring of their own."""
    texts, found = [inspect.getdoc(value) or ""], set[str]()
    for base in value.__mro__ if inspect.isclass(value) else ():
        if base.__module__.startswith("tavernkit"):
            texts += [base.__doc__ or "", base.__init__.__doc__ or ""]
            found |= set(field_docs(base))
    text = "\n".join(inspect.cleandoc(each) for each in texts)
    return found | {name for pair in re.findall(r"^ +(\w+):|``(\w+)", text, re.MULTILINE) for name in pair}


if __name__ == "__main__":
    NOT_YET.write_text("".join(f"{name}\n" for name in sorted(dict(_undocumented()))), encoding="utf-8")
