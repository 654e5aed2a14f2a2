"""Records of values whose kinds the library knows: made and copied without the check that programs' own values get.

Chats, books and scripts have thousands of records. Their readers bring every value into its kind, so that a check
would find nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def trusted(record: Callable[P, T], /, *_none: P.args, **fields: P.kwargs) -> T:
    """Make a frozen dataclass without its ``__post_init__``; all fields are passed by name, those with defaults too."""
    made = object.__new__(cast("type[T]", record))
    set_field = object.__setattr__
    for name, value in fields.items():
        set_field(made, name, value)
    return made


def changed(record: T, **changes: object) -> T:
    """Copy a record with some fields changed."""
    cls = type(record)
    names, values_of = _fields(cls)
    made = object.__new__(cls)
    set_field = object.__setattr__
    for name, value in zip(names, values_of(record), strict=True):
        set_field(made, name, value)
    for name, value in changes.items():
        set_field(made, name, value)
    return made


@lru_cache(maxsize=64)
def _fields(cls: type) -> tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]:
    names = tuple(each.name for each in dataclasses.fields(cls))
    return names, attrgetter(*names)
