"""Reading options that people and programs write in many ways: names, codes, spellings of yes and no.

Nothing here raises: what cannot be read gives the default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar

from tavernkit.text.blank import trim_blanks
from tavernkit.values import is_sequence

GenerationType = Literal["normal", "continue", "impersonate", "swipe", "regenerate", "quiet"]
Role = Literal["system", "user", "assistant", "tool", "function"]
AuthorsNotePosition = Literal["in_prompt", "in_chat", "before_prompt"]
InsertionStrategy = Literal["sorted_evenly", "character_lore_first", "global_lore_first"]
ExamplesBehavior = Literal["gradually_push_out", "always_keep", "disabled"]

T = TypeVar("T")
D = TypeVar("D")

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("1", "true", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "no", "n", "off"), False),
}
_GENERATION_TYPES: tuple[GenerationType, ...] = ("normal", "continue", "impersonate", "swipe", "regenerate", "quiet")
_GENERATION_TYPE_NAMES: Mapping[str, GenerationType] = {name: name for name in _GENERATION_TYPES}
_ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool", "function")
_ROLE_NAMES: Mapping[str, Role] = {name: name for name in _ROLES}
_POSITIONS: tuple[AuthorsNotePosition, ...] = ("in_prompt", "in_chat", "before_prompt")
_POSITION_NAMES: Mapping[str, AuthorsNotePosition] = {
    "in_chat": "in_chat",
    "chat": "in_chat",
    "inchat": "in_chat",
    "inchart": "in_chat",
    "in_prompt": "in_prompt",
    "prompt": "in_prompt",
    "after": "in_prompt",
    "after_scenario": "in_prompt",
    "scenario": "in_prompt",
    "before_prompt": "before_prompt",
    "before": "before_prompt",
    "before_scenario": "before_prompt",
}
_STRATEGY_NAMES: Mapping[str, InsertionStrategy] = {
    "sorted_evenly": "sorted_evenly",
    "sorted": "sorted_evenly",
    "evenly": "sorted_evenly",
    "character_lore_first": "character_lore_first",
    "character": "character_lore_first",
    "first": "character_lore_first",
    "char_first": "character_lore_first",
    "global_lore_first": "global_lore_first",
    "global": "global_lore_first",
    "global_first": "global_lore_first",
}
_EXAMPLES_NAMES: Mapping[str, ExamplesBehavior] = {
    "gradually_push_out": "gradually_push_out",
    "trim": "gradually_push_out",
    "push_out": "gradually_push_out",
    "always_keep": "always_keep",
    "keep": "always_keep",
    "always": "always_keep",
    "disabled": "disabled",
    "off": "disabled",
    "none": "disabled",
}


def boolean(value: object, default: D) -> bool | D:
    """Read yes or no: a boolean, or one of 1 true yes y on / 0 false no n off in any case."""
    if isinstance(value, bool):
        return value
    return _BOOLEANS.get(_name(value), default)


def generation_type(value: object, default: D = "normal") -> GenerationType | D:
    """Read a generation type by its name or code (0 to 5)."""
    return _by_code(value, _GENERATION_TYPES, _GENERATION_TYPE_NAMES, default)


def generation_types(values: object) -> list[GenerationType]:
    """Read a list of generation types (the triggers of a prompt); unknown ones are left out, each is named once."""
    listed: Iterable[object] = values if is_sequence(values) else () if values is None else (values,)
    read: list[GenerationType | None] = [generation_type(value, None) for value in listed]
    return list(dict.fromkeys([one for one in read if one is not None]))


def role(value: object, default: D = "system") -> Role | D:
    """Read the role of a message by its name or code (0 system, 1 user, 2 assistant)."""
    return _by_code(value, _ROLES[:3], _ROLE_NAMES, default)


def authors_note_position(value: object, default: D = "in_chat") -> AuthorsNotePosition | D:
    """Read where an author's note goes, by name or code (0 in prompt, 1 in chat, 2 before the prompt)."""
    return _by_code(value, _POSITIONS, _POSITION_NAMES, default)


def insertion_strategy(value: object, default: D = "sorted_evenly") -> InsertionStrategy | D:
    """Read how lore of the character and of all chats is mixed."""
    return _STRATEGY_NAMES.get(_name(value), default)


def examples_behavior(value: object, default: D = "gradually_push_out") -> ExamplesBehavior | D:
    """Read what becomes of example messages when the prompt is full."""
    return _EXAMPLES_NAMES.get(_name(value), default)


def unix_timestamp(value: object) -> int | None:
    """Read a Unix time: a number, whose fraction is dropped, or an integer as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return math.trunc(value) if math.isfinite(value) else None
    if isinstance(value, str) and _INTEGER.fullmatch(text := trim_blanks(value)):
        return int(text)
    return None


def _name(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    return trim_blanks(str(value)).lower()


def _by_code(value: object, codes: tuple[T, ...], names: Mapping[str, T], default: D) -> T | D:
    name = _name(value)
    if len(name) == 1 and name in "0123456789":
        return codes[int(name)] if int(name) < len(codes) else default
    return names.get(name, default)
