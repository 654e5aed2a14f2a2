"""Dataclasses that cost little to define: ``dataclass()`` writes ``__init__`` when the first instance is made.

The standard decorator writes and compiles six functions for every frozen class while modules are imported. A build
passes hundreds of classes and makes instances of a few of them, so most of that is never used.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from functools import cache, partial
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType, GenericAlias, MemberDescriptorType
from typing import Any, TypeAlias, TypeVar, cast, dataclass_transform

_T = TypeVar("_T")

INSTANCES_WITHOUT_FUNCTION = 16
"""How many instances of a class are filled field by field before its ``__init__`` is written."""


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
        written = {name for name in ("__init__", "__repr__", "__eq__", "__match_args__") if name in own}
        _check_bases(cls, frozen=frozen)
        known = _make_fields(cls, kw_only=kw_only)
        made: Any = _with_slots(cls, known) if slots else cls  # Any: its methods are replaced
        made.__dataclass_fields__ = known
        made.__dataclass_params__ = _parameters(frozen=frozen, slots=slots, kw_only=kw_only)
        if "__match_args__" not in written:
            made.__match_args__ = tuple(name for name, each in known.items() if each.init and not each.kw_only)
        if frozen:
            _freeze(made, slots=slots)
        if "__init__" not in written:
            made.__init__ = _Init(made, frozen=frozen, slots=slots)
        if "__repr__" not in written:
            made.__repr__ = _repr
        if not hasattr(made, "__replace__"):
            made.__replace__ = replaced  # for copy.replace(), since Python 3.13
        if eq:
            equal, hash_ = _comparison(made)
            if "__eq__" not in written:
                made.__eq__ = equal
            if not hashed:
                made.__hash__ = hash_ if frozen else None
        return abc.update_abstractmethods(made)

    return decorate


@dataclasses.dataclass
class _Sample:
    """Where the standard library's marks of a field are taken from, which have no public names."""

    value: object


_FIELD: Any = _Sample.__dataclass_fields__["value"]._field_type  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # noqa: SLF001  # see above


@cache
def _parameters(*, frozen: bool, slots: bool, kw_only: bool) -> object:
    """Return what a class says about how it was made: ``dataclasses`` reads whether subclasses have to be frozen."""
    standard = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
    parameters: Any = getattr(standard(type("Empty", (), {"__doc__": ""})), "__dataclass_params__")  # noqa: B009  # not in the stubs
    parameters.frozen = frozen
    return parameters


def _check_bases(cls: type, *, frozen: bool) -> None:
    """Raise if a frozen class extends one that is not, or the other way round."""
    made: list[Any] = [vars(base).get("__dataclass_params__") for base in cls.__mro__[1:]]  # Any: not in the stubs
    bases = [parameters.frozen for parameters in made if parameters is not None]
    if bases and any(bases) is not frozen:
        raise TypeError(f"{cls.__name__} and its base have to be both frozen or both not")


def _make_fields(cls: type, *, kw_only: bool) -> dict[str, Any]:  # Any: fields' types say too little
    """Return the fields of a class, its bases' first, and leave only defaults in the class.

    The standard library looks at every annotation with three regular expressions, for marks that this package does not
    use (``InitVar``, ``KW_ONLY``) and for ``ClassVar``.
    """
    known: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        known |= vars(base).get("__dataclass_fields__", {})
    own = vars(cls)
    for name, annotation in cls.__annotations__.items():
        if "ClassVar" in str(annotation):
            continue
        default: Any = own.get(name, MISSING)
        made: Any = default
        if isinstance(default, Field):
            if made.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, made.default)
        else:
            if default.__class__.__hash__ is None:
                raise ValueError(f"the default of {cls.__name__}.{name} can change: use default_factory")
            made = field(default=default)
        made.name, made.type, made._field_type = name, annotation, _FIELD  # noqa: SLF001  # nothing else marks it
        if made.kw_only is MISSING:
            made.kw_only = kw_only
        if type(made.default_factory) is GenericAlias:
            made.default_factory = made.default_factory.__origin__  # makes the same ten times as fast
        known[name] = made
    return known


def _with_slots(cls: type, names: Iterable[str]) -> type:
    """Make a class again, with slots for its fields in place of ``__dict__``."""
    space = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    inherited = {slot for base in cls.__mro__[1:-1] for slot in vars(base).get("__slots__", ())}
    for name in names:
        space.pop(name, None)
    space["__slots__"] = tuple(name for name in names if name not in inherited)
    made = type(cls)(cls.__name__, cls.__bases__, space)
    made.__qualname__ = cls.__qualname__
    return made


def copy_with(record: _T, **changes: object) -> _T:
    """Copy an instance of a class with slots, with other values for some fields.

    Several times as fast as ``dataclasses.replace()``, as neither ``__init__`` nor ``__post_init__`` is called.

    Args:
        record: The instance.
        changes: The fields that differ.

    Raises:
        TypeError: There is no such field.
    """
    cls = type(record)
    read, setters, by_name = _access(cls)
    copy = object.__new__(cls)
    for set_field, value in zip(setters, read(record)):  # noqa: B905  # a keyword costs as much as three fields
        set_field(copy, value)
    for name, value in changes.items():
        if name not in by_name:
            raise TypeError(f"{cls.__name__} has no field {name!r}")
        by_name[name](copy, value)
    return copy


_Setter: TypeAlias = Callable[[object, object], None]


@cache
def _access(cls: type) -> tuple[Callable[[object], tuple[object, ...]], tuple[_Setter, ...], dict[str, _Setter]]:
    """Return what reads all fields, what sets each, and the same by name."""
    by_name: dict[str, _Setter] = {each.name: getattr(cls, each.name).__set__ for each in _all_fields(cls)}
    return _reader(list(by_name)), tuple(by_name.values()), by_name


def _freeze(cls: Any, *, slots: bool) -> None:
    """Do what ``frozen=True`` does, with functions instead of source text that must be compiled."""
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


_Way: TypeAlias = tuple[tuple[str, ...], frozenset[str], frozenset[str], tuple[tuple[str, Any, Any], ...]]
"""How to fill an instance: positional names, required ones, accepted ones, and fields with default and factory."""


class _Init:
    """Placeholder for a class's ``__init__``: fills the first instances field by field, then writes the function.

    Most classes have a few instances in a process. Filling one this way takes a few microseconds more than with a
    function that was written for the class, and writing that takes as long as a few dozen instances.
    """

    def __init__(self, cls: type, *, frozen: bool, slots: bool) -> None:
        self._cls = cls
        self._frozen = frozen
        self._slots = slots
        self._left = INSTANCES_WITHOUT_FUNCTION
        self._way: tuple[tuple[str, ...], frozenset[str], frozenset[str], tuple[tuple[str, Any, Any], ...]] | None = (
            None
        )

    def __get__(self, instance: object, owner: type) -> Any:  # Any: what a function's own __get__ gives
        if self._left > 0 and isinstance(instance, self._cls):  # inspect passes the class itself, since Python 3.13
            self._left -= 1
            return partial(self._fill, instance)
        function = self._write()
        return function if instance is None else function.__get__(instance, owner)

    def _write(self) -> FunctionType:
        function = _write_init(self._cls, frozen=self._frozen, slots=self._slots)
        setattr(self._cls, "__init__", function)  # noqa: B010  # a plain assignment is taken for an override
        return function

    def _fill(self, instance: Any, /, *arguments: object, **given: object) -> None:
        positional, required, accepted, filled = self._way or self._plan()
        values = dict(zip(positional, arguments, strict=False))
        if len(arguments) > len(positional) or not values.keys().isdisjoint(given) or not accepted.issuperset(given):
            return self._write()(instance, *arguments, **given)  # which raises
        values |= given
        if not required <= values.keys():
            return self._write()(instance, *arguments, **given)
        put = object.__setattr__ if self._frozen else setattr
        for name, default, factory in filled:
            if name in values:
                put(instance, name, values[name])
            elif factory is not MISSING:
                put(instance, name, factory())
            else:
                put(instance, name, default)
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()
        return None

    def _plan(self) -> _Way:
        every = _all_fields(self._cls)
        taken = [each for each in every if each.init]
        self._way = way = (
            tuple(each.name for each in taken if not each.kw_only),
            frozenset(each.name for each in taken if each.default is MISSING and each.default_factory is MISSING),
            frozenset(each.name for each in taken),
            tuple(
                (each.name, each.default, each.default_factory)
                for each in every
                if each.init or each.default_factory is not MISSING or (self._slots and each.default is not MISSING)
            ),
        )
        return way


def _write_init(cls: type, *, frozen: bool, slots: bool) -> FunctionType:
    """Write the function that fills the fields, then calls ``__post_init__`` if there is one."""
    names: dict[str, object] = {"_made": _MADE}
    positional: list[str] = []
    by_keyword: list[str] = []
    body = ["_own = self.__dict__"] if frozen and cls.__dictoffset__ else []
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
    """Return the line that sets a field; where the class is frozen, past ``__setattr__``."""
    if not frozen:
        return f"self.{name} = {value}"
    descriptor = getattr(cls, name, None)
    if isinstance(descriptor, MemberDescriptorType):
        names[f"_set_{name}"] = descriptor.__set__
        return f"_set_{name}(self, {value})"
    return f"_own[{name!r}] = {value}"


def _all_fields(cls: type) -> tuple[Field[Any], ...]:
    return fields(cast("Any", cls))


_MADE = object()


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({shown})"


def short_repr(self: Any) -> str:
    """Return a ``__repr__`` without fields that have their defaults, for values that people print."""
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if _differs(self, each))
    return f"{self.__class__.__qualname__}({shown})"


def _differs(instance: object, each: Any) -> bool:
    if not each.repr:
        return False
    default = each.default if each.default_factory is MISSING else each.default_factory()
    return default is MISSING or getattr(instance, each.name) != default


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


@cache
def _fields_of_init(cls: type) -> tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]:
    names = [each.name for each in fields(cls) if each.init]
    return tuple(names), _reader(names)


def replaced(value: _T, **changes: object) -> _T:
    """Return a changed copy as ``dataclasses.replace()`` does, with a fifth of the function calls.

    Unlike ``copy_with()`` it calls ``__init__`` and ``__post_init__``.

    Args:
        value: An instance of a dataclass.
        changes: New values of fields.
    """
    names, read = _fields_of_init(type(value))
    return type(value)(**{**dict(zip(names, read(value), strict=True)), **changes})
