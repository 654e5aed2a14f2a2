"""The reference has every public name, and says what each parameter is for."""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, is_typeddict

import pytest

from tavernkit.errors import TavernKitError
from tests.docs import options
from tests.docs.options import field_docs
from tests.test_public_api import PACKAGES

PAGES = Path(__file__).parent.parent.parent / "docs" / "reference"
DESCRIBED = re.findall(r"^::: (\S+)$", "\n".join(page.read_text() for page in PAGES.glob("*.md")), re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGES[1:])
def test_every_public_name_is_described_once(package: str) -> None:
    described = sorted(name for name in DESCRIBED if name.rpartition(".")[0] == package)
    assert described == sorted(f"{package}.{name}" for name in importlib.import_module(package).__all__)


ERRORS = [
    f"{package}.errors"
    for package in PACKAGES[1:]
    if package != "tavernkit.server" and find_spec(f"{package}.errors") is not None  # the service's are not raised
]


@pytest.mark.parametrize("module", ERRORS)
def test_every_error_is_described(module: str) -> None:
    package = module.rpartition(".")[0]
    errors = {name for name, value in vars(importlib.import_module(module)).items() if _is_defined(value, module)}
    described = {name for name in DESCRIBED if name.rpartition(".")[0] in (package, module)}
    assert not errors - {name.rpartition(".")[2] for name in described}


def _is_defined(value: object, module: str) -> bool:
    return inspect.isclass(value) and value.__module__ == module and not value.__name__.startswith("_")


def test_the_top_level_is_current() -> None:
    assert options.TOP_LEVEL.read_text(encoding="utf-8") == options.render_top_level(), "run `make tables`"


def test_functions_constructors_and_methods_say_what_their_parameters_are_for() -> None:
    assert not dict(_undocumented()), "write an `Args:` section, or a docstring below each field"


def test_typed_dictionaries_say_what_their_keys_are_for() -> None:
    dictionaries = [value for value in _public() if is_typeddict(value)]
    silent = {
        value.__name__: sorted(value.__annotations__.keys() - _key_docs(value, dictionaries)) for value in dictionaries
    }
    assert len(silent) > 5
    assert not {name: missing for name, missing in silent.items() if missing}, "write a docstring below each key"


def _key_docs(value: Any, dictionaries: list[Any]) -> set[str]:
    """Keys with a docstring, in the dictionary or in one that it contains: classes of dictionaries know no bases."""
    contained = (each for each in dictionaries if each.__annotations__.items() <= value.__annotations__.items())
    return {key for each in contained for key in field_docs(each)}


def test_functions_constructors_and_methods_say_what_they_raise() -> None:
    silent = {
        f"{value.__module__}.{value.__qualname__}": sorted(missing)
        for value, texts in _callables()
        if (missing := {error.__name__ for error in _raised(value) if not _is_named(error, texts)})
    }
    assert not silent, "write a `Raises:` section"


def _raised(value: object) -> list[type]:
    """Errors of ours that are raised in the body of a function or constructor."""
    function = vars(value).get("__init__") if inspect.isclass(value) else value
    if not inspect.isfunction(function) or is_dataclass(value):  # the constructor of a dataclass has no source
        return []
    function = inspect.unwrap(function)
    found = {function.__globals__.get(name) for name in re.findall(r"\braise (\w+)\(", inspect.getsource(function))}
    return [error for error in found if inspect.isclass(error) and issubclass(error, TavernKitError)]


def _is_named(error: type, texts: str) -> bool:
    """Return True if the error is named, or a more general one of ours."""
    return any(issubclass(base, TavernKitError) and base.__name__ in texts for base in inspect.getmro(error))


def _public() -> Iterator[Any]:
    for package in PACKAGES:
        module = importlib.import_module(package)
        yield from (getattr(module, name) for name in module.__all__)


def _callables() -> Iterator[tuple[Any, str]]:
    """Public functions, classes and methods, each with the texts that describe it."""
    for value in _public():
        yield value, _texts(value)
        for base in _bases(value):
            for name, member in vars(base).items():
                function = inspect.unwrap(getattr(member, "__func__", member))  # of class and static methods
                if inspect.isfunction(function) and not name.startswith("_"):
                    yield function, _texts_of_method(value, name)


def _texts_of_method(owner: type, name: str) -> str:
    """What a method says, and what the classes and protocols say that its class builds on."""
    sources = [*inspect.getmro(owner), *(protocol for protocol in _protocols() if _implements(owner, protocol))]
    texts = [vars(source)[name].__doc__ for source in sources if name in vars(source)]
    return "\n".join(inspect.cleandoc(text) for text in texts if text)


@functools.cache
def _protocols() -> list[type]:
    return [value for value in _public() if inspect.isclass(value) and getattr(value, "_is_protocol", False)]


@functools.cache
def _implements(owner: type, protocol: type) -> bool:
    names = [name for name in vars(protocol) if inspect.isfunction(vars(protocol)[name]) and not name.startswith("_")]
    return bool(names) and all(hasattr(owner, name) for name in names)


def _undocumented() -> Iterator[tuple[str, list[str]]]:
    for value, texts in _callables():
        if not (inspect.isfunction(value) or (inspect.isclass(value) and _is_made_by_callers(value))):
            continue
        names = [name for name in inspect.signature(value).parameters if name not in ("self", "cls")]
        names = [name for name in names if not name.startswith("_")]
        missing = [name for name in names if name not in _documented(value, texts)]
        if len(names) > 1 and missing:
            yield f"{value.__module__}.{value.__qualname__}", missing


def _is_made_by_callers(value: type) -> bool:
    """Errors are raised by us, protocols are implemented, enumerations are not called."""
    return not (issubclass(value, (BaseException, enum.Enum, dict)) or getattr(value, "_is_protocol", False))


def _documented(value: object, texts: str) -> set[str]:
    """Names in an ``Args:`` section or in double backticks, and fields with a docstring of their own."""
    bases = _bases(value)
    inputs: list[type] = [base.inputs_type for base in bases if hasattr(base, "inputs_type")]  # fields of a context
    found = {name for owner in (*bases, *inputs) for name in field_docs(owner)}
    return found | {name for pair in re.findall(r"^ +(\w+):|``(\w+)(?=``|=)", texts, re.MULTILINE) for name in pair}


def _texts(value: object) -> str:
    texts = [inspect.getdoc(value), *(text for base in _bases(value) for text in (base.__doc__, base.__init__.__doc__))]
    return "\n".join(inspect.cleandoc(text) for text in texts if text)


def _bases(value: object) -> list[type]:
    bases = inspect.getmro(value) if inspect.isclass(value) else ()
    return [base for base in bases if base.__module__.startswith("tavernkit")]
