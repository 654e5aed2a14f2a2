"""Checks values at public entry points against their types, with messages that say what to pass instead.

Only values passed by a program are checked here. Data from files, users and models is read tolerantly elsewhere.
"""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from inspect import get_annotations
from typing import Any, NoReturn

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenJson, Json, is_mapping, shown
from tavernkit.errors import ConfigError

_ANYTHING = (
    object,
    Json,
    FrozenJson,
    # The same with the names in them resolved: values inside JSON are not checked.
    bool | int | float | str | list[Any] | dict[str, Any] | None,
    bool | int | float | str | Sequence[Any] | Mapping[str, Any] | None,
)
"""Types that any value has."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of value: what to call it, how to recognise it, and the classes whose instances certainly are one.

    If it is ``deep``, only empty instances are certain. ``inside`` is the kind of the items of a list or mapping,
    ``choices`` are the words that it can be.
    """

    wanted: str
    accepts: Callable[[object], bool]
    certain: frozenset[type] = frozenset()
    deep: bool = False
    inside: _Kind | None = None
    choices: tuple[str, ...] = ()


def require(name: str, value: object, hint: object, wanted: str | None = None) -> None:
    """Refuse a value that is not what a type hint says: ``str``, ``Preset | None``, ``Sequence[str]``."""
    kind = _kind_of(hint)
    if kind is not None and not _is(value, kind):
        _refuse(name, kind, value, wanted)


def require_choice(name: str, value: object, known: Sequence[str]) -> None:
    """Refuse a value that is not one of the known words."""
    if value not in known:
        words = ", ".join(each or repr(each) for each in known)
        raise ConfigError(f"{name} must be one of {words}, not {value!r}", code=f"UNKNOWN_{name.upper()}")


def check_values(
    values: Mapping[str, object], hints: type, *, skip: Sequence[str] = (), wanted: Mapping[str, str] | None = None
) -> None:
    """Refuse values of the wrong type.

    Args:
        values: The values by name.
        hints: The typed dictionary or dataclass that has their types.
        skip: Names that are not checked.
        wanted: What to ask for in the message, by name, instead of the name of the type.
    """
    kinds = _typed_dict_kinds(hints)
    for name, value in values.items():
        kind = kinds.get(name)
        if kind is not None and name not in skip and not _is(value, kind):
            _refuse(name, kind, value, (wanted or {}).get(name))


@lru_cache(maxsize=64)
def _typed_dict_kinds(hints: type) -> Mapping[str, _Kind | None]:
    return {
        name: _kind_of(hint)
        for name, hint in typing.get_type_hints(hints, localns={"Json": Any, "FrozenJson": Any}).items()
    }


def _is(value: object, kind: _Kind) -> bool:
    return (type(value) in kind.certain and not (kind.deep and value)) or kind.accepts(value)


def _refuse(name: str, kind: _Kind, value: object, wanted: str | None = None) -> NoReturn:
    if kind.choices and isinstance(value, str):
        require_choice(name, value, kind.choices)
    given = "None" if value is None else f"{type(value).__name__} {shown(value)}"
    advice = "" if wanted else _advice(kind, value)
    raise ConfigError(f"{name} must be {wanted or kind.wanted}, not {given}{advice}")


def _advice(kind: _Kind, value: object) -> str:
    """Return advice on how to convert the value, if that is obvious."""
    if kind.inside is not None and list in kind.certain and _is(value, kind.inside):
        return ": put it in a list"
    reader = "load" if isinstance(value, (str, os.PathLike)) else "from_json" if is_mapping(value) else ""
    wanted = (kind.inside or kind).certain
    makers = sorted(cls.__name__ for cls in wanted if reader and callable(getattr(cls, reader, None)))
    return f": make one with {makers[0]}.{reader}" if makers else ""


@lru_cache(maxsize=1024)
def _kind_of(hint: object) -> _Kind | None:
    """Return the kind that a type hint means, or None if any value will do."""
    if hint in _ANYTHING:
        return None
    if hint is None:
        return _PLAIN[types.NoneType]
    origin, parameters = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _either([_kind_of(each) for each in parameters])
    if origin is typing.Literal:
        words = tuple([each for each in parameters if isinstance(each, str)])
        return _Kind(
            f"one of {', '.join(map(repr, parameters))}",
            lambda value: value in parameters,
            choices=words if len(words) == len(parameters) else (),
        )
    if origin is Callable or hint is Callable:
        return _Kind("a function", callable, frozenset((types.FunctionType, types.MethodType)))
    cls = origin or hint
    if not isinstance(cls, type) or cls.__module__ == "typing":
        return None
    return _PLAIN.get(cls) or _container_kind(cls, parameters) or _class_kind(cls)


def _container_kind(cls: type, parameters: Sequence[object]) -> _Kind | None:
    if cls in (Mapping, dict):
        return _holding(
            "a mapping",
            frozenset((dict, types.MappingProxyType)),
            is_mapping,
            lambda value: value.values(),
            parameters[1:],
        )
    if cls in (Sequence, list, tuple):
        return _holding(
            "a list",
            frozenset((list, tuple)),
            _is_list,
            iter,
            parameters if len(parameters) == 1 or ... in parameters else (),
        )
    return None


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _number(*classes: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, classes) and not isinstance(value, bool)


_PLAIN: Mapping[type, _Kind] = {
    str: _Kind("text", lambda value: isinstance(value, str), frozenset((str,))),
    bool: _Kind("True or False", lambda value: isinstance(value, bool), frozenset((bool,))),
    int: _Kind("a whole number", _number(int), frozenset((int,))),
    float: _Kind("a number", _number(int, float), frozenset((int, float))),
    bytes: _Kind("bytes", lambda value: isinstance(value, bytes), frozenset((bytes,))),
    os.PathLike: _Kind("a path", lambda value: isinstance(value, os.PathLike)),
    types.NoneType: _Kind("None", lambda value: value is None, frozenset((types.NoneType,))),
}


def _class_kind(cls: type) -> _Kind:
    wanted = f"{'an' if cls.__name__[0] in 'AEIO' else 'a'} {cls.__name__}"
    if not getattr(cls, "_is_protocol", False):
        return _Kind(wanted, lambda value: isinstance(value, cls), frozenset((cls,)))
    members = [name for name in _protocol_members(cls) if name == "__call__" or not name.startswith("_")]
    wanted += f" (an object with {', '.join(members)})"
    return _Kind(wanted, lambda value: not isinstance(value, type) and all(_has(value, each) for each in members))


def _has(value: object, name: str) -> bool:
    if name == "__call__":
        return callable(value)  # every class has it, to make objects with
    return hasattr(type(value), name) or hasattr(value, name)  # a property of the class need not be computed


def _protocol_members(cls: type) -> dict[str, None]:
    bases = [base for base in cls.__mro__ if getattr(base, "_is_protocol", False)]
    return {name: None for base in bases for name in (*base.__dict__, *get_annotations(base))}


def _either(kinds: Sequence[_Kind | None]) -> _Kind | None:
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None
    *others, last = dict.fromkeys(kind.wanted for kind in known)
    wanted = f"{', '.join(others)} or {last}" if others else last
    certain = frozenset(cls for kind in known for cls in kind.certain)
    deep = any(kind.deep for kind in known)
    inside = next((kind.inside for kind in known if kind.inside is not None), None)
    return _Kind(wanted, lambda value: any(_is(value, kind) for kind in known), certain, deep, inside)


def _holding(
    wanted: str,
    certain: frozenset[type],
    accepts: Callable[[object], bool],
    items: Callable[[Any], Iterable[object]],  # Any: of any value that ``accepts`` lets through
    parameters: Sequence[object],
) -> _Kind:
    inside = _kind_of(parameters[0]) if parameters else None
    if inside is None:
        return _Kind(wanted, accepts, certain)

    def accepts_all(value: object) -> bool:
        if not accepts(value):
            return False
        if not inside.deep and inside.certain.issuperset(map(type, items(value))):
            return True  # four times as fast as one by one, and chats are long
        return all(_is(each, inside) for each in items(value))

    return _Kind(f"{wanted} of {_several(inside.wanted)}", accepts_all, certain, deep=True, inside=inside)


def _several(wanted: str) -> str:
    if any(word in wanted for word in (" or ", " of ", " with ")):
        return f"({wanted})"
    return wanted.removeprefix("a ").removeprefix("an ") + "s"
