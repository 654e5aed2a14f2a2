"""Records of values whose kinds a reader has seen to already.

Chats and lists of scripts have thousands of records; checking each again would find nothing and cost as much as making
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def trusted(record: Callable[P, T], /, *_none: P.args, **fields: P.kwargs) -> T:
    """Make a frozen dataclass without its ``__post_init__``; every field is given by name, defaults too."""
    made = object.__new__(cast("type[T]", record))
    set_field = object.__setattr__
    for name, value in fields.items():
        set_field(made, name, value)
    return made
