"""Dataclasses that cost little to define: ``dataclass()`` writes ``__init__`` when the first instance is made.

The standard decorator writes and compiles six functions for every frozen class while modules are imported. A build
passes hundreds of classes and makes instances of a few of them, so most of that is never used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType, MemberDescriptorType
from typing import Any, TypeVar, cast, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True
) -> Callable[[type[_T]], type[_T]]:
    """Make a class a dataclass like ``dataclasses.dataclass()``, but create its methods as late as possible.

    Args:
        frozen: Instances cannot be changed, and can be hashed if they can be compared.
        slots: Instances have no ``__dict__``.
        kw_only: ``__init__`` takes keywords only.
        eq: Instances with the same fields are equal.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        own = vars(cls)
        hashed = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
        written = {name for name in ("__init__", "__repr__", "__eq__") if name in own}
        standard = dataclasses.dataclass(
            init=False,
            repr=False,
            eq=False,
            frozen=frozen and any(map(_is_frozen, cls.__bases__)),  # the standard library requires it there
            slots=slots,
            kw_only=kw_only,
        )
        made: Any = standard(cls)  # Any: its methods are replaced
        if frozen:
            _freeze(made, slots=slots)
        if "__init__" not in written:
            made.__init__ = _Init(made, frozen=frozen, slots=slots)
        if "__repr__" not in written:
            made.__repr__ = _repr
        if eq:
            equal, hash_ = _comparison(made)
            if "__eq__" not in written:
                made.__eq__ = equal
            if not hashed:
                made.__hash__ = hash_ if frozen else None
        return made

    return decorate


def _is_frozen(cls: type) -> bool:
    parameters = getattr(cls, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def _freeze(cls: Any, *, slots: bool) -> None:
    """Do what ``frozen=True`` does, with functions instead of source text that must be compiled."""
    if _is_frozen(cls):
        return
    names = frozenset(cls.__dataclass_fields__)

    def set_attribute(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = set_attribute, delete_attribute
    cls.__dataclass_params__.frozen = True  # so that subclasses must be frozen, and can be
    if slots:
        if "__getstate__" not in vars(cls):
            cls.__getstate__ = _get_state
        if "__setstate__" not in vars(cls):
            cls.__setstate__ = _set_state


def _get_state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


class _Init:
    """Placeholder for a class's ``__init__``: writes the function on first access and replaces itself with it."""

    def __init__(self, cls: type, *, frozen: bool, slots: bool) -> None:
        self._cls = cls
        self._frozen = frozen
        self._slots = slots

    def __get__(self, instance: object, owner: type) -> Any:  # Any: what a function's own __get__ gives
        function = _write_init(self._cls, frozen=self._frozen, slots=self._slots)
        setattr(self._cls, "__init__", function)  # noqa: B010  # a plain assignment is taken for an override
        return function if instance is None else function.__get__(instance, owner)


def _write_init(cls: type, *, frozen: bool, slots: bool) -> FunctionType:
    """Write the function that fills the fields, then calls ``__post_init__`` if there is one."""
    names: dict[str, object] = {"_made": _MADE}
    positional: list[str] = []
    by_keyword: list[str] = []
    body: list[str] = []
    for each in _all_fields(cls):
        name = each.name
        names[f"_default_{name}"] = default = each.default
        if each.default_factory is not MISSING:
            names[f"_factory_{name}"] = each.default_factory
        if each.init:
            parameter, value = name, name
            if each.default_factory is not MISSING:
                parameter, value = f"{name}=_made", f"_factory_{name}() if {name} is _made else {name}"
            elif default is not MISSING:
                parameter = f"{name}=_default_{name}"
            (by_keyword if each.kw_only else positional).append(parameter)
        elif each.default_factory is not MISSING:
            value = f"_factory_{name}()"
        elif slots and default is not MISSING:
            value = f"_default_{name}"
        else:
            continue
        body.append(_assignment(cls, name, value, names, frozen=frozen))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*"] if by_keyword else []), *by_keyword])
    lines = "\n  ".join(body or ["pass"])
    outer = f"def _outer({', '.join(names)}):\n def __init__({parameters}):\n  {lines}\n return __init__"
    space: dict[str, Any] = {}
    exec(outer, {}, space)  # noqa: S102  # names of fields are identifiers, and nothing else of the text comes from outside
    function: FunctionType = space["_outer"](**names)
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    function.__module__ = cls.__module__
    function.__annotations__ = {each.name: each.type for each in _all_fields(cls) if each.init} | {"return": None}
    return function


def _assignment(cls: type, name: str, value: str, names: dict[str, object], *, frozen: bool) -> str:
    """Return the line that sets a field, past ``__setattr__`` where the class is frozen."""
    if not frozen:
        return f"self.{name} = {value}"
    descriptor = getattr(cls, name, None)
    if isinstance(descriptor, MemberDescriptorType):
        names[f"_set_{name}"] = descriptor.__set__
        return f"_set_{name}(self, {value})"
    names["_setattr"] = object.__setattr__
    return f"_setattr(self, {name!r}, {value})"


def _all_fields(cls: type) -> tuple[Field[Any], ...]:
    return fields(cast("Any", cls))


_MADE = object()


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _comparison(cls: type) -> tuple[Callable[[Any, object], bool], Callable[[Any], int]]:
    """Make ``__eq__`` and ``__hash__`` of a class's fields."""
    values: Callable[[object], tuple[object, ...]] | None = None

    def read(instance: object) -> tuple[object, ...]:
        nonlocal values
        if values is None:
            values = _reader([each.name for each in _all_fields(cls) if each.compare])
        return values(instance)

    def equal(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return read(self) == read(other)

    def hash_of(self: Any) -> int:
        return hash(read(self))

    return equal, hash_of


def _reader(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """Return a function that reads these attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if names:
        (name,) = names
        return lambda instance: (getattr(instance, name),)
    return lambda _: ()
