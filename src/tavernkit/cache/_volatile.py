"""Macros that give another text in every prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, TypeAlias

Volatility: TypeAlias = Literal["random", "time", "chat", "variable"]
"""Why a macro's text changes: chance, the clock, the newest messages, or a variable."""

_NAMES: Final[Mapping[Volatility, tuple[str, ...]]] = {
    "random": ("random", "roll", "rollp", "dice", "randint", "hash_random"),
    "time": (
        "time",
        "date",
        "weekday",
        "isotime",
        "isodate",
        "datetimeformat",
        "idleduration",
        "idle_duration",
        "message_idle_duration",
        "timediff",
        "unixtime",
        "message_time",
        "message_date",
    ),
    "chat": (
        "lastmessage",
        "lastmessageid",
        "lastusermessage",
        "lastcharmessage",
        "last_message",
        "lastmessageindex",
        "previous_user_chat",
        "previous_char_chat",
        "input",
        "firstincludedmessageid",
        "lastgenerationtype",
    ),
    "variable": ("getvar", "getglobalvar", "getchatvar", "addvar", "incvar", "decvar", "incglobalvar", "decglobalvar"),
}
_VOLATILITY: Final[Mapping[str, Volatility]] = {name: kind for kind, names in _NAMES.items() for name in names}
_MACRO: Final = re.compile(r"\{\{[\s#!?~>/]*(?:(?P<sigil>[.$])\s*\w|(?P<name>[A-Za-z_]+))")
_REMEMBERED: Final = 1024


@lru_cache(_REMEMBERED)
def volatile_macros(text: str) -> Mapping[str, Volatility]:
    """Return the macros that make a text change from prompt to prompt, each with the reason.

    >>> dict(volatile_macros("It is {{time}}. {{char}} is {{random::cold::tired}}."))
    {'time': 'time', 'random': 'random'}
    """
    found: dict[str, Volatility] = {}
    if "{{" not in text:
        return found
    for match in _MACRO.finditer(text):
        name = match["name"]
        if name is None:
            found.setdefault("getvar", "variable")  # {{.name}} and {{$name}} are variables
            continue
        lowered = name.lower().removesuffix("_utc")
        kind = _VOLATILITY.get(lowered)
        if kind is not None:
            found.setdefault(lowered, kind)
    return found


def changes_by_itself(text: str) -> bool:
    """Return True if a text changes even if no variable does: by chance, time or new messages."""
    return any(kind != "variable" for kind in volatile_macros(text).values())
