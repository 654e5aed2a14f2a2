"""Sweeps over public names: every parameter gets what nothing takes, and must say so.

A room lists its public functions, classes and methods with right arguments; the sweep finds what the list lacks.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from inspect import Parameter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_origin, is_typeddict

import pytest

from tavernkit import ConfigError
from tavernkit.values import EMPTY_OBJECT

Call = tuple[Callable[..., object], Mapping[str, Any]]
"""A public function, class or method, and right arguments for it; several of ``*`` are a tuple.

A method whose object is made anew for each call is the function of its class, and ``self`` is among the arguments.
"""


class Odd:
    """What nothing takes."""


@dataclass(frozen=True)
class Fresh:
    """An argument that is made anew for each call."""

    make: Callable[[], object]


@dataclass(frozen=True)
class InFolder:
    """An argument that is made anew for each call, in an empty folder that is gone after it."""

    make: Callable[[Path], object]


@dataclass(frozen=True)
class Sweep:
    """The calls of one package or module."""

    package: str
    calls: Mapping[str, Call]
    uncalled: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names that nobody calls with arguments of their own, and why."""
    anything: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters that truly take anything, and why."""
    documents: Mapping[str, type[Exception]] = field(default_factory=dict[str, type[Exception]])
    """Parameters that are parsed files: what is no such document has the format's own error."""
    keywords: Mapping[str, Iterable[str]] = field(default_factory=dict[str, Iterable[str]])
    """What calls take by ``**`` besides what their right arguments show."""

    def assert_complete(self) -> None:
        """Every public name is called or excused, no other is, and each is called by its own name."""
        assert not (left := self.left_out()), f"neither called nor excused in {self.package}: {sorted(left)}"
        package = importlib.import_module(self.package)
        others = [name for name, (function, _) in self.calls.items() if not _is_named(function, package, name)]
        assert not others, f"these call something else: {others}"

    def left_out(self) -> set[str]:
        """Return the public functions, classes and methods that take something and are neither called nor excused."""
        names = dict(_callables(importlib.import_module(self.package)))
        needed = {name for name, is_needed in names.items() if is_needed}
        assert not (unknown := self.calls.keys() - names), f"no such names in {self.package}: {sorted(unknown)}"
        needless = (self.uncalled.keys() - needed) | (self.uncalled.keys() & self.calls.keys())
        assert not needless, f"these need no excuse in {self.package}: {sorted(needless)}"
        return needed - self.calls.keys() - self.uncalled.keys()

    def pairs(self) -> list[tuple[str, str]]:
        """List every parameter of every call, besides those that truly take anything."""
        pairs = {(name, parameter): f"{name}.{parameter}" for name in self.calls for parameter in self._taken(name)}
        unknown = ({*self.anything, *self.documents} - set(pairs.values())) | (self.keywords.keys() - self.calls.keys())
        assert not unknown, f"no such parameters: {sorted(unknown)}"
        return [pair for pair, name in pairs.items() if name not in self.anything]

    def call(self, name: str, changes: Mapping[str, object] = EMPTY_OBJECT) -> None:
        """Call something with right arguments, some of them changed, and use up what it gives."""
        function, arguments = self.calls[name]
        with ExitStack() as stack:
            given = {key: _made(value, stack) for key, value in {**arguments, **changes}.items()}
            _close_after(given.get("self"), stack)
            positional: list[Any] = []
            for each in _parameters(function):
                if each.kind is Parameter.VAR_POSITIONAL:
                    positional += given.pop(each.name, ())
                elif each.kind is Parameter.POSITIONAL_ONLY and each.name in given:
                    positional.append(given.pop(each.name))
            result = function(*positional, **given)
            _close_after(result, stack)
            _use_up(result)

    def assert_refused(self, name: str, parameter: str) -> None:
        """Pass something odd for one parameter and the right thing for all others."""
        function, _ = self.calls[name]
        several = any(each.name == parameter for each in _parameters(function, Parameter.VAR_POSITIONAL))
        error = self.documents.get(f"{name}.{parameter}")
        told = "Odd" if error else f"{parameter.removesuffix('s')}s?" if several else re.escape(parameter)
        with pytest.raises(error or ConfigError, match=rf"\b{told}\b"):
            self.call(name, {parameter: (Odd(),) if several else Odd()})

    def _taken(self, name: str) -> list[str]:
        """The parameters of a call; ``**`` stands for itself where nothing shows what it takes, unless for anything."""
        function, arguments = self.calls[name]
        others = _parameters(function, Parameter.VAR_KEYWORD)
        named = [each.name for each in _parameters(function) if each not in others]
        shown = [key for key in {**arguments, **dict.fromkeys(self.keywords.get(name, ()))} if key not in named]
        assert others or not shown, f"{name} does not take {shown}"
        return [
            *(each for each in named if each != "self"),
            *(shown or [each.name for each in others if each.annotation not in ("object", object)]),
        ]


def _is_named(function: Any, package: Any, name: str) -> bool:
    found = reduce(getattr, name.split("."), package)
    if isinstance(found, type):
        return isinstance(function, type) and issubclass(function, found)
    return getattr(function, "__func__", function) is getattr(found, "__func__", found)


def _parameters(function: Callable[..., object], *kinds: Any) -> list[Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [each for each in parameters if not kinds or each.kind in kinds]


def _callables(package: Any) -> Iterator[tuple[str, bool]]:
    """Public functions, classes and methods, and whether they must be called here: they take something.

    Protocols, errors and enumerations are nobody's to call, and what is inherited from another room is called there.
    """
    for name in getattr(package, "__all__", None) or _own_names(package):
        value = getattr(package, name)
        if is_typeddict(value):
            continue
        if not isinstance(value, type):
            if callable(value) and get_origin(value) is None:  # aliases of types are callable, too
                yield name, bool(_parameters(value))
        elif not (getattr(value, "_is_protocol", False) or issubclass(value, (Exception, Enum))):
            yield name, bool(_parameters(value))
            room = ".".join(package.__name__.split(".")[:2])
            yield from ((f"{name}.{method}", is_needed) for method, is_needed in _methods(value, room))


def _own_names(module: Any) -> list[str]:
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    return [name for name in own if not name.startswith("_")]


def _methods(cls: type, room: str) -> Iterator[tuple[str, bool]]:
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        inner = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if name.startswith("_") or not inspect.isfunction(inner) or not inner.__module__.startswith("tavernkit"):
            continue
        taken = _parameters(inner)[0 if isinstance(value, staticmethod) else 1 :]
        yield name, bool(taken) and f"{inner.__module__}.".startswith(f"{room}.")


def _made(value: object, stack: ExitStack) -> Any:
    if isinstance(value, InFolder):
        return value.make(Path(stack.enter_context(TemporaryDirectory(prefix="tavernkit-"))))
    return value.make() if isinstance(value, Fresh) else value


def _close_after(value: Any, stack: ExitStack) -> None:
    if hasattr(value, "close") and not inspect.iscoroutine(value):
        stack.enter_context(closing(value))


def _use_up(result: object) -> None:
    if inspect.iscoroutine(result) or isinstance(result, (AbstractAsyncContextManager, AsyncIterator)):
        asyncio.run(_use_up_async(result))
    elif isinstance(result, AbstractContextManager) and not hasattr(result, "close"):
        with result as given:
            _exhaust(given)
    else:
        _exhaust(result)


async def _use_up_async(result: object) -> None:
    given = await result if inspect.iscoroutine(result) else result
    if isinstance(given, AbstractAsyncContextManager):
        async with given as entered:
            await _exhaust_async(entered)
    else:
        await _exhaust_async(given)


def _exhaust(given: object) -> None:
    if isinstance(given, Iterator):
        for _ in given:
            pass


async def _exhaust_async(given: object) -> None:
    if isinstance(given, AsyncIterator):
        async for _ in given:
            pass
