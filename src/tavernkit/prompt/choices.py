"""The words of prompts, as programs and people write them: roles and generation types, by name or code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar

from tavernkit.text.coerce import by_name_or_code
from tavernkit.values import is_sequence

GenerationType = Literal["normal", "continue", "impersonate", "swipe", "regenerate", "quiet"]
Role = Literal["system", "user", "assistant", "tool", "function"]

D = TypeVar("D")

_GENERATION_TYPES: tuple[GenerationType, ...] = ("normal", "continue", "impersonate", "swipe", "regenerate", "quiet")
_GENERATION_TYPE_NAMES: Mapping[str, GenerationType] = {name: name for name in _GENERATION_TYPES}
_ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool", "function")
_ROLE_NAMES: Mapping[str, Role] = {name: name for name in _ROLES}


def generation_type(value: object, default: D = "normal") -> GenerationType | D:
    """Read a generation type by its name or code (0 to 5)."""
    return by_name_or_code(value, _GENERATION_TYPES, _GENERATION_TYPE_NAMES, default)


def generation_types(values: object) -> list[GenerationType]:
    """Read a list of generation types (the triggers of a prompt); unknown ones are left out, each is named once."""
    listed: Iterable[object] = values if is_sequence(values) else () if values is None else (values,)
    read: list[GenerationType | None] = [generation_type(value, None) for value in listed]
    return list(dict.fromkeys([one for one in read if one is not None]))


def role(value: object, default: D = "system") -> Role | D:
    """Read the role of a message by its name or code (0 system, 1 user, 2 assistant)."""
    return by_name_or_code(value, _ROLES[:3], _ROLE_NAMES, default)
