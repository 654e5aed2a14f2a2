"""The reference has every public name, and says what each parameter is for."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

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


def test_functions_and_constructors_say_what_their_parameters_are_for() -> None:
    assert not dict(_undocumented()), "write an `Args:` section, or a docstring below each field"


def test_functions_and_constructors_say_when_they_raise_config_errors() -> None:
    silent = [
        f"{value.__module__}.{value.__qualname__}"
        for value in _public()
        if "raise ConfigError(" in _own_body(value) and "ConfigError" not in _texts(value)
    ]
    assert not silent, "write a `Raises:` section"


def _own_body(value: object) -> str:
    function = vars(value).get("__init__") if inspect.isclass(value) else value
    if not inspect.isfunction(function) or is_dataclass(value):  # the constructor of a dataclass has no source
        return ""
    return inspect.getsource(inspect.unwrap(function))


def _public() -> Iterator[Any]:
    for package in PACKAGES:
        module = importlib.import_module(package)
        yield from (getattr(module, name) for name in module.__all__)


def _undocumented() -> Iterator[tuple[str, list[str]]]:
    for value in _public():
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
    bases = _bases(value)
    inputs: list[type] = [base.inputs_type for base in bases if hasattr(base, "inputs_type")]  # fields of a context
    found = {name for owner in (*bases, *inputs) for name in field_docs(owner)}
    return found | {name for pair in re.findall(r"^ +(\w+):|``(\w+)", _texts(value), re.MULTILINE) for name in pair}


def _texts(value: object) -> str:
    texts = [inspect.getdoc(value), *(text for base in _bases(value) for text in (base.__doc__, base.__init__.__doc__))]
    return "\n".join(inspect.cleandoc(text) for text in texts if text)


def _bases(value: object) -> list[type]:
    bases = inspect.getmro(value) if inspect.isclass(value) else ()
    return [base for base in bases if base.__module__.startswith("tavernkit")]
