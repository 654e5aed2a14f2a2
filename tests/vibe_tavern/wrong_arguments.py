"""Passes what nothing takes to every parameter of public names, for tests of what programmers are told."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import reduce
from inspect import Parameter
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tavernkit import ConfigError

PUBLIC_API = Path(__file__).parent.parent / "public_api.txt"

Uses = Mapping[str, Mapping[str, Any]]
"""Public names (``Class``, ``Class.method``, ``function``) and arguments that work; ``self`` is what a method is of."""


class Odd:
    """What nothing takes."""


@dataclass(frozen=True)
class Fresh:
    """An argument that is made anew for each call."""

    make: Callable[[], object]


def public_names(package: ModuleType) -> set[str]:
    """The public names of a package, as the list of them has it."""
    start = f"{package.__name__}."
    lines = PUBLIC_API.read_text(encoding="utf-8").splitlines()
    return {line.removeprefix(start) for line in lines if line.startswith(start)}


def public_methods(package: ModuleType, name: str) -> Iterator[str]:
    """The methods of a public class that take something, own and inherited ones from the same package."""
    found = getattr(package, name)
    bases = found.__mro__ if isinstance(found, type) else ()
    for base in bases:
        if not base.__module__.startswith(package.__name__):
            continue
        for method, function in vars(base).items():
            bare = getattr(function, "__func__", function)
            if not method.startswith("_") and isinstance(bare, FunctionType) and len(_parameters(bare)) > 1:
                yield f"{name}.{method}"


def swept(package: ModuleType, uses: Uses, anything: Mapping[str, str]) -> list[tuple[str, str]]:
    """Every parameter of every use, without those that take anything."""
    pairs = [(name, each) for name, arguments in uses.items() for each in _taken(package, name, arguments)]
    return [pair for pair in pairs if ".".join(pair) not in anything]


def call(package: ModuleType, name: str, arguments: Mapping[str, Any]) -> None:
    """Call a public name and use up what it gives: awaited, entered, iterated over, closed."""
    function = _found(package, name)
    made = {key: value.make() if isinstance(value, Fresh) else value for key, value in arguments.items()}
    with _closed(made.get("self")):
        parameters = _parameters(function)
        several = next((each.name for each in parameters if each.kind is Parameter.VAR_POSITIONAL), "")
        result = function(*made.pop(several, ()), **made)
        with _closed(result):
            _use_up(result)


def assert_refused(package: ModuleType, uses: Uses, name: str, parameter: str) -> None:
    """Pass what nothing takes, and expect to be told what to pass instead."""
    function = _found(package, name)
    several = any(each.name == parameter and each.kind is Parameter.VAR_POSITIONAL for each in _parameters(function))
    with pytest.raises(ConfigError) as refused:
        call(package, name, {**uses[name], parameter: (Odd(),) if several else Odd()})
    said = parameter.removesuffix("s") if several else rf"{parameter}\b"
    assert re.search(rf"\b{said}", str(refused.value)), str(refused.value)


def _taken(package: ModuleType, name: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    parameters = _parameters(_found(package, name))
    named = [each.name for each in parameters if each.kind is not Parameter.VAR_KEYWORD and each.name != "self"]
    more = [key for key in arguments if key not in named and key != "self"]
    others = [each.name for each in parameters if each.kind is Parameter.VAR_KEYWORD]
    return iter((*named, *(more or others)))


def _found(package: ModuleType, name: str) -> Any:
    return reduce(getattr, name.split("."), package)


def _parameters(function: Callable[..., object]) -> list[Parameter]:
    return list(inspect.signature(function).parameters.values())


def _closed(value: object) -> AbstractContextManager[object]:
    close = hasattr(value, "close") and not inspect.iscoroutine(value)
    return closing(value) if close else nullcontext()  # pyright: ignore[reportArgumentType]  # it has ``close``


def _use_up(result: object) -> None:
    if inspect.iscoroutine(result):
        asyncio.run(result)
    elif isinstance(result, AbstractAsyncContextManager):
        asyncio.run(_entered(result))
    elif isinstance(result, AbstractContextManager) and not hasattr(result, "close"):
        with result:
            pass
    elif isinstance(result, Iterator):
        list(result)


async def _entered(manager: AbstractAsyncContextManager[object]) -> None:
    async with manager:
        pass
