"""Sweeps over public names: every parameter gets what nothing takes, and must say so."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from inspect import Parameter
from typing import Any

import pytest

from tavernkit import ConfigError

Call = tuple[Callable[..., object], Mapping[str, Any]]
"""A public function, class or method, and right arguments for it."""


class Odd:
    """What nothing takes."""


def wrong_calls(calls: Mapping[str, Call], anything: Mapping[str, str]) -> list[tuple[str, str]]:
    """List every parameter of every call, besides those that truly take anything."""
    pairs = [(name, parameter) for name, (function, _) in calls.items() for parameter in _parameters(function)]
    unknown = set(anything) - {f"{name}.{parameter}" for name, parameter in pairs}
    assert not unknown, f"no such parameters: {sorted(unknown)}"
    return [(name, parameter) for name, parameter in pairs if f"{name}.{parameter}" not in anything]


def assert_refused(call: Call, parameter: str) -> None:
    """Pass something odd for one parameter and the right thing for all others."""
    function, arguments = call
    given = {**arguments, parameter: Odd()}
    unnamed = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)
    parameters = inspect.signature(function).parameters.values()
    positional = [given.pop(each.name) for each in parameters if each.kind in unnamed and each.name in given]
    with pytest.raises(ConfigError, match=rf"\b{parameter}\b"):
        function(*positional, **given)


def left_out(package: str, calls: Mapping[str, Call], uncalled: Mapping[str, str]) -> set[str]:
    """Return the public functions, classes and methods of a package that are neither called nor excused.

    Protocols, errors and enumerations are nobody's to call.
    """
    names = set(_callable_names(importlib.import_module(package)))
    unknown = (set(calls) | set(uncalled)) - names
    assert not unknown, f"no such names in {package}: {sorted(unknown)}"
    return names - set(calls) - set(uncalled)


def _parameters(function: Callable[..., object]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind is not Parameter.VAR_KEYWORD]


def _callable_names(package: Any) -> Iterator[str]:
    for name in getattr(package, "__all__", None) or _own_names(package):
        value = getattr(package, name)
        if not isinstance(value, type):
            if inspect.isroutine(value) and _parameters(value):
                yield name
        elif not (getattr(value, "_is_protocol", False) or issubclass(value, (Exception, Enum))):
            if _parameters(value):
                yield name
            yield from (f"{name}.{method}" for method in _methods(value))


def _own_names(module: Any) -> list[str]:
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    return [name for name in own if not name.startswith("_")]


def _methods(cls: type) -> Iterator[str]:
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        inner = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if name.startswith("_") or not inspect.isfunction(inner) or not inner.__module__.startswith("tavernkit"):
            continue
        bound = 0 if isinstance(value, staticmethod) else 1
        if _parameters(inner)[bound:]:
            yield name
